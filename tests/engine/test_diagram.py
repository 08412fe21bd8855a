"""The picture in the documentation is the program's graph as it is now."""

from pathlib import Path

import pytest

from tools.diagram import mermaid
from tools.diagram.__main__ import PAGE, now

pytestmark = [pytest.mark.engine, pytest.mark.kubernetes_provider]


def test_the_architecture_page_shows_what_the_program_registers_now(tmp_path: Path) -> None:
    page = PAGE.read_text()
    assert page == mermaid.into(page, now(tmp_path)), "run `make diagram`, and read what the text around it says"

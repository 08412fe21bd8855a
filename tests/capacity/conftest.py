"""One AWS on loopback for the tests here, emptied before each."""

from collections.abc import Iterator

import pytest

from tests.support import aws_server
from tests.support.aws_server import AwsServer


@pytest.fixture(scope="session")
def serving() -> Iterator[AwsServer]:
    with aws_server.serving() as server:
        yield server


@pytest.fixture
def aws(serving: AwsServer) -> AwsServer:
    aws_server.reset(serving)
    return serving

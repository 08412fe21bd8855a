"""What every tier needs of the process that runs it."""

import signal
import sys

import hypothesis
import pytest

from tools.setup import kubernetes_provider

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")

# A shell without job control starts what it puts in the background with interrupts ignored, and all children inherit
# it: then nothing here that is interrupted would end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def keep_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider's process shows no traceback after an error that was reported; this one is shared."""
    monkeypatch.setattr(sys, "tracebacklimit", 1000, raising=False)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds the provider before the first test, since a cold build takes longer than any test may."""
    needed = any(item.get_closest_marker("kubernetes_provider") for item in session.items)
    if needed and not session.config.option.collectonly and kubernetes_provider.here() is None:
        with session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
            kubernetes_provider.built()

"""A headless Chromium driven over its debugging pipe: no port, no driver, nothing to install beside the browser."""

import base64
import contextlib
import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

# The browser reads its commands from descriptor 3 and answers on 4.
_AS_3_AND_4 = (
    "import os, sys; [os.dup2(int(sys.argv[at]), at + 2) for at in (1, 2)]; os.execv(sys.argv[3], sys.argv[3:])"
)
_OPTIONS = ("--headless", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage", "--no-first-run")


class Tab:
    """The browser's only page."""

    def __init__(self, process: "subprocess.Popen[bytes]", to: int, back: int) -> None:
        self._process, self._to, self._back = process, to, back
        self._received, self._number = b"", 0
        self._session: str | None = None
        self.requests: list[str] = []
        """The address of everything that the page asked for."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.said: list[str] = []
        """What the browser complains of, a breach of the page's policy for one."""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def open(self, page: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Shows a file; returns once it is loaded."""
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.requests.clear()
        self.said.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """Of JavaScript, a promise's included."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, path: Path) -> None:
        """Of the whole page, as PNG."""
        whole = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": whole["width"], "height": whole["height"], "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def printed(self) -> bytes:
        """As PDF on A4."""
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])

    def _next(self) -> Mapping[str, Any]:
        while b"\0" not in self._received:
            part = os.read(self._back, 1 << 16)
            if not part:
                self._gone()
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        if answer.get("method") == "Network.requestWillBeSent":
            self.requests.append(answer["params"]["request"]["url"])
        elif answer.get("method") == "Log.entryAdded":
            self.said.append(answer["params"]["entry"]["text"])
        return answer

    def _gone(self) -> NoReturn:
        raise AssertionError(f"the browser ended with {self._process.wait()}")


@contextlib.contextmanager
def tab(browser: Path) -> Iterator[Tab]:
    """A browser of its own profile, ended afterwards."""
    pipes = [os.pipe(), os.pipe()]
    # Out of the way of what they become in the browser.
    (read, to), (back, write) = [[fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in pipe] for pipe in pipes]
    for end in itertools.chain(*pipes):
        os.close(end)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # Root has no sandbox, and what is shown here is our own.
        options = [*_OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        options += ["--no-sandbox"] if os.geteuid() == 0 else []
        process = subprocess.Popen(
            [sys.executable, "-c", _AS_3_AND_4, str(read), str(write), str(browser), *options],
            pass_fds=(read, write),
            env={**os.environ, "LD_LIBRARY_PATH": str(browser.parent)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for ours in (read, write):
            os.close(ours)
        try:
            yield Tab(process, to, back)
        finally:
            process.kill()
            process.wait()
            for theirs in (to, back):
                os.close(theirs)

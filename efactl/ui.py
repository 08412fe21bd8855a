"""`efactl ui`: the Ray dashboard in a browser of this machine, for as long as the command runs."""

import argparse
import asyncio
import html
import json
import os
import secrets
import signal
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from pathlib import Path

from efactl.exit_codes import ExitCode
from efactl.region_stacks import hint
from efactl.stack import Stack
from efactl.ui_proxy import DashboardProxy
from workload.errors import ReportedError
from workload.head import Endpoint, reach
from workload.signal_handlers import heeded

_KEY_BYTES = 24


def ui(asked: argparse.Namespace) -> ExitCode:
    """Returns when it is interrupted or told to end, with nothing left open."""
    stack = Stack(asked.stack)
    head = stack.head()
    if head is None:
        advice = hint(stack.name, f"`efactl up -s {stack.name}` brings one up")
        raise ReportedError(f"stack {stack.name} has no Ray head: {advice}")
    if head.kind == "local":
        _note("Ray on this machine runs without most of its dashboard: jobs and training runs are there, little else")
    with reach(head) as endpoint:
        asyncio.run(_served(endpoint, stack.name, asked))
    return ExitCode.OK


async def _served(endpoint: Endpoint, stack: str, asked: argparse.Namespace) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in heeded((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
        loop.add_signal_handler(number, ended.set)
    proxy = DashboardProxy(endpoint, key=secrets.token_urlsafe(_KEY_BYTES))
    async with proxy.serving(asked.port):
        await proxy.ask()
        with tempfile.TemporaryDirectory(prefix="efactl-ui-") as folder:
            _show(proxy.url, stack, as_json=asked.json)
            if asked.browser and opens_browser(os.environ, sys.platform, terminal=sys.stdout.isatty()):
                await asyncio.to_thread(webbrowser.open, _page(Path(folder), proxy.url).as_uri())
            await ended.wait()


def opens_browser(environment: Mapping[str, str], platform: str, *, terminal: bool) -> bool:
    """Whether there is a browser with a window of its own, and somebody who looks at it."""
    if not terminal:
        return False
    return platform == "darwin" or any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


def _page(folder: Path, url: str) -> Path:
    """A page that leads to the address: on a browser's command line everybody on this machine could read that."""
    page = folder / "dashboard.html"
    page.touch(mode=0o600)
    page.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={html.escape(url)}">', encoding="utf-8")
    return page


def _show(url: str, stack: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"stack": stack, "url": url}), flush=True)
    else:
        print(f"Ray dashboard of stack {stack}: {url}", flush=True)
    _note("the address is for you alone: it opens the cluster while this runs; Ctrl-C closes it")


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)

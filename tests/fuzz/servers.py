"""`tallystick serve` in a process of its own, whose every word on stderr is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.fuzz.mutated_messages import LIMIT
from tests.mcp_client import RawClient, ServerProcess, start_server
from torture import checker


@contextmanager
def stdio_server(base: Path) -> Iterator[ServerProcess]:
    """Over stdio. It must end well at the end of stdin, with nothing more to say."""
    with _running(base) as server:
        yield server
        assert server.process.stdin is not None
        if not server.process.stdin.closed:
            assert RawClient(server).end() == []


@contextmanager
def http_server(base: Path) -> Iterator[str]:
    """Over HTTP, at this address. It must end well when asked to."""
    with _running(base, "--http", "127.0.0.1:0") as server:
        yield server.url
        server.stop()


@contextmanager
def _running(base: Path, *arguments: str) -> Iterator[ServerProcess]:
    limits = {"TALLYSTICK_BODY_BYTES_MAX": str(LIMIT), "TALLYSTICK_CONTENT_BYTES_MAX": "1024"}
    server = start_server(base, "--toolsets", "all", *arguments, environ=limits)
    try:
        yield server
    finally:
        server.kill()
    said = "".join(server.lines)
    assert "Traceback" not in said, said[-4_000:]
    check_sound(base)


def check_sound(base: Path) -> None:
    """The log verifies, a replay gives the same state, the views are what the log says, nothing is half-written."""
    wrong = checker.check(base, []).wrong
    # The files toolset writes plain files wherever it is told to: only what begins with a dot is a remnant of ours.
    wrong = [each for each in wrong if not re.fullmatch(r"stray file (?!(.*/)?\.).*", each, re.DOTALL)]
    assert not wrong, wrong

"""Commands on terminals that are not UTF-8: real processes, whose output is read as bytes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tallystick.cli.terminal_encoding import escape, escape_what_is_missing
from tests.command_line import CommandLine, node

TEXT = "žluťoučký é 名 👩 plan"
ENVIRONMENTS = [
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
]
COMMANDS = [("search", "plan"), ("search", "plan", "--json"), ("show", "plan"), ("log",), ("--help",), ("nonsense",)]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("terminal") / "memory"
    CommandLine(base).write(node("plan", "note", text=TEXT))
    return base


@pytest.mark.parametrize("environ", ENVIRONMENTS, ids=["C", "ascii", "latin-1"])
def test_what_a_terminal_cannot_show_is_escaped_in_every_kind_of_output(base: Path, environ: dict[str, str]) -> None:
    encoding = environ.get("PYTHONIOENCODING", "ascii")
    for words in COMMANDS:
        command = [sys.executable, "-m", "tallystick", *words]
        ended = subprocess.run(
            command, env={**os.environ, "BASE_PATH": str(base), **environ}, capture_output=True, check=False
        )
        assert ended.returncode == (2 if words == ("nonsense",) else 0), ended.stderr
        out = ended.stdout.decode(encoding)
        if words[0] in ("search", "show"):
            assert "\\u540d \\ud83d\\udc69 plan" in out
        if "--json" in words:
            assert TEXT in json.dumps(json.loads(ended.stdout.decode("ascii")), ensure_ascii=False)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252"])
def test_a_stream_writes_what_it_can_and_escapes_the_rest(encoding: str) -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding=encoding)
    escape_what_is_missing(stream)
    stream.write(TEXT + "\udcff")
    stream.flush()
    written = buffer.getvalue().decode(encoding)
    assert json.loads(f'"{written}"') == TEXT + "\udcff"
    assert json.loads(f'"{escape(TEXT)}"') == TEXT

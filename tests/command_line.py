"""The command runner: commands as a person runs them, in this process, on a base of their own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
from typer.testing import CliRunner

from tallystick import cli
from tallystick.commits import Commit, chain


class CommandResult(msgspec.Struct):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class CommandLine:
    def __init__(self, base: Path) -> None:
        self.base = base

    def run(self, *words: object, stdin: str = "", **environ: str) -> CommandResult:
        """Raises what the command raises."""
        return self._run(lambda: cli.command_line()([str(word) for word in words]), stdin, environ)

    def main(self, *words: object, stdin: str = "", **environ: str) -> CommandResult:
        """All of it: errors are printed, and become exit codes."""
        with patch.object(sys, "argv", ["tallystick", *map(str, words)]):
            return self._run(cli.main, stdin, environ)

    def write(self, *operations: dict[str, Any], tenant: str = "default") -> None:
        """Operations as memory.write takes them."""
        self.run("import", "-", "--tenant", tenant, stdin="".join(json.dumps(each) + "\n" for each in operations))

    def _run(self, command: Callable[[], None], stdin: str, environ: dict[str, str]) -> CommandResult:
        # A home without clients that whoever runs the tests has connected.
        environment = {"BASE_PATH": str(self.base), "HOME": str(self.base.parent / "home"), **environ}
        with CliRunner().isolation(input=stdin, env=environment) as (out, err, _):
            code = 0
            try:
                command()
            except SystemExit as left:
                code = int(left.code or 0)
            sys.stdout.flush()
            sys.stderr.flush()
            return CommandResult(code, out.getvalue().decode(), err.getvalue().decode())


def node(node_id: str, kind: str = "note", /, **attrs: Any) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": kind, "attrs": attrs}}


def edge(source: str, rel: str, target: str, /, **attrs: Any) -> dict[str, Any]:
    return {"op": "UPSERT_EDGE", "edge": {"from": source, "rel": rel, "to": target, "attrs": attrs}}


def commits_in(log: Path) -> list[Commit]:
    return [chain.decode(line) for path in sorted(log.glob("*.jsonl")) for line in path.read_bytes().splitlines()]

"""Commands as a person runs them, on a base of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import typer
from typer.testing import CliRunner

from tallystick.cli import emit, forget, maintenance, recall, transfer
from tallystick.commits import Commit, chain
from tallystick.errors import TallystickError

COMMANDS: dict[str, Callable[..., None]] = {
    "doctor": maintenance.doctor,
    "emit": emit.emit,
    "export": transfer.export,
    "forget": forget.forget,
    "import": transfer.import_,
    "recall": recall.recall,
    "redactions": forget.redactions,
    "verify": maintenance.verify,
}


class CommandResult(msgspec.Struct):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CommandLine:
    def __init__(self, base: Path) -> None:
        self.base = base
        self.app = typer.Typer()
        for name, command in COMMANDS.items():
            self.app.command(name)(command)

    def run(self, *words: object, **environ: str) -> CommandResult:
        """Raises what the command raises."""
        result = CliRunner().invoke(self.app, [*map(str, words), "--base", str(self.base)], env=environ)
        if isinstance(result.exception, TallystickError):
            raise result.exception
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return CommandResult(result.exit_code, result.stdout, result.stderr)

    def write(self, *operations: dict[str, Any]) -> None:
        """Operations as memory.write takes them."""
        file = self.base.parent / "operations.jsonl"
        file.write_text("".join(json.dumps(operation) + "\n" for operation in operations))
        self.run("import", file)
        file.unlink()


def node(node_id: str, kind: str = "note", /, **attrs: Any) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": kind, "attrs": attrs}}


def edge(source: str, rel: str, target: str, /, **attrs: Any) -> dict[str, Any]:
    return {"op": "UPSERT_EDGE", "edge": {"from": source, "rel": rel, "to": target, "attrs": attrs}}


def commits_in(log: Path) -> list[Commit]:
    return [chain.decode(line) for path in sorted(log.glob("*.jsonl")) for line in path.read_bytes().splitlines()]

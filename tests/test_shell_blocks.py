"""Every shell block of the documentation is tried, page by page, as a reader would who copies them in order."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import anyio
import pytest

from tests.mcp_client import call, clean_environ, connect
from tests.promises import promise

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SAMPLE = ROOT / "src" / "tallystick" / "sample.jsonl"
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
CONTINUED = re.compile(r"(?<![\\|])\n")
LASTING = re.compile(r".*(serve .*--http|log -f|work watch|--follow|tallystick witness )")

NOT_TRIED = {
    r"make ": "the targets are what .ci/run consists of",
    r"(claude|codex|code|gemini) ": "the real clients have tests of their own: make agents",
    r"(pip|pipx|uv|uvx) ": "installing is tried by make packages",
    r"(gh|git verify-tag|python -m pypi_attestations) ": "asks the places where releases are published",
    r"aics-tlog ": "other people's verifiers have tests of their own: tests/foreign",
    r".*(https://|0\.0\.0\.0|localhost:)": "the host is an example",
    r".*<[a-z]+>": "a place that only the reader knows",
    r".*(s3://|/mnt/|/srv/|--base \./restored)": "the place is an example; tests/operations has stores",
    r"tallystick backup (list|verify|status)": "of the store that the settings above it name",
    r".*nats://": "the servers are examples; real ones have tests of their own: tests/log/test_jetstream*.py",
    r"\.venv/bin/python -m bench": "measures, from a clone that was set up",
    r".*--quorum": "needs a witness on another machine",
    r"(docker|helm|systemctl|install|python3 -m venv) ": "what deploys has tests of its own: make deployment",
    r"curl -i http://127\.0\.0\.1:\d+/health": "of a server that is in trouble, or runs somewhere else",
    r"(cat 0+1\.jsonl|head -n|mkdir -p \./restored)": "of a log that is damaged at that line",
    r"tallystick import good.jsonl": "of a log that is damaged at that line",
    r"tallystick policy explain --seq": "a number of the reader's own audit log",
    r"tallystick policy test": "with the tests that the page shows above it",
    r"tallystick --install-completion": "asks which shell is above it",
    r"tallystick cypher ": "the engine is an example; real ones: tests/extensions/cypher/test_cypher.py",
    r"tallystick work watch": "draws on a terminal: tests/cli/test_watch.py",
}
REFUSED = (
    "tallystick show bilings",
    "tallystick work done TASK --check",
    "tallystick policy replay",
    "tallystick policy explain",
)
"""What pages show as not found, as asking a person at a terminal, as different or denied: the exit code says it."""

KEY = ".config/tallystick/checkpoint.key"
KEYED = ("commit-format", "proofs")
"""Where the settings name a key by the time the reader comes to it."""
PLANNED = {"plan-work": "bridge", "export": "bridge", "proofs": "bridge", "knowledge": "shop", "why": "shop"}
"""Where agents plan work, and the name of their project."""


def _written(*nodes: tuple[str, str], actor: str) -> str:
    lines = [
        {"op": "UPSERT_NODE", "node": {"id": node_id, "type": "Note", "attrs": {"name": name}}, "actor": actor}
        for node_id, name in nodes
    ]
    return f"echo {shlex.quote(chr(10).join(map(json.dumps, lines)))} | tallystick import -"


BEFORE = {
    "commit-format": (
        f"tallystick keys new memory.example/team --file ~/{KEY}",
        "tallystick keys verifier > shop.vkey",
        "tallystick checkpoint > noted.checkpoint",
        "tallystick export export.jsonl && cp -r $(tallystick where) memory",
    ),
    "import": (f"cp -r {ROOT}/tests/extensions/importers/fixtures ~/notes && cp ~/notes/server-memory/* ~/notes/",),
    "corrupt-log": ("tallystick export backup.jsonl",),
    "forget-a-person": (_written(("person-1", "Ada Example"), actor="crm"), "tallystick export backup.jsonl"),
    "recall-bad-writes": (_written(("page_12", "a"), ("page_14", "b"), ("page_15", "c"), actor="crawler"),),
    "proofs": (_written(("task-7", "Refunds"), actor="ada"), "tallystick work done kT4mPzqLw2 --evidence git:HEAD"),
}
"""What readers of a page did before they came to it."""


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text("utf-8"))


def commands(block: str) -> list[str]:
    """Each with its continued lines."""
    lines = (line.strip() for line in CONTINUED.split(block))
    return [line for line in lines if line and not line.startswith("#")]


def is_tried(command: str) -> bool:
    return not any(re.match(pattern, command) for pattern in NOT_TRIED)


@promise("docs, shell blocks", "what a page says to type works")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_what_a_page_says_to_type_works(page: Path, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        if page.stem in PLANNED:
            anyio.run(reader.plan, PLANNED[page.stem])
        if page.stem in KEYED:
            reader.environ["TALLYSTICK_CHECKPOINT_KEY"] = str(tmp_path / KEY)
        for command in BEFORE.get(page.stem, ()):
            reader.type(command)
        for block in blocks(page):
            for command in commands(block):
                if is_tried(command):
                    reader.type(command)


class Reader:
    """Somebody in a repository of their own, with the sample memory, a plan and a key, who types what pages say."""

    def __init__(self, home: Path) -> None:
        self._shop = home / "shop"
        self._data = home / "data"
        self.environ = {
            **clean_environ(),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_DATA_HOME": str(self._data),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "NO_COLOR": "1",
        }
        self._lasting: subprocess.Popen[str] | None = None
        self._task = "kT4mPzqLw2"
        self._make_repository()
        for base in ("", "--base .sample "):
            self.type(f"tallystick import {base}{SAMPLE}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._end_lasting()

    def type(self, command: str) -> None:
        command = self._in_this_memory(command)
        if LASTING.match(command):
            self._start_lasting(command)
            return
        done = self._run(command)
        is_refused = done.returncode != 0
        assert "Traceback" not in done.stderr
        assert is_refused == command.startswith(self._refused()), f"{command}\n{done.stdout}{done.stderr}"
        assert "nothing is known about it" not in done.stderr, f"{command}: a page asks what has an answer"

    def _refused(self) -> tuple[str, ...]:
        return tuple(each.replace("TASK", self._task) for each in REFUSED)

    def _in_this_memory(self, command: str) -> str:
        """With the names that this memory has instead of those that the page shows, and what the reader answers."""
        names: dict[str, Callable[[], str]] = {
            r"^tallystick init(?!.*--(print|json))": lambda: "tallystick init --yes",
            r"\bkT4mPzqLw2\b": lambda: self._task,
            r"\b3f[0-9a-f]{4,6}(…|\b)": lambda: self._answer("tallystick log --limit 1 --json")["commit_id"],
            r"\brecall_[0-9a-f]{12}\b": lambda: self._answer("tallystick recall --list --json")["recalls"][0]["recall"],
            r"\bbackup_[0-9a-f]{8}\b": lambda: self._answer("tallystick redactions --pending-backups --json")[
                "backups"
            ][0]["id"],
        }
        for pattern, name in names.items():
            if re.search(pattern, command):
                command = re.sub(pattern, name(), command)
        return command

    def _answer(self, command: str) -> Any:
        return json.loads(self._run(command).stdout)

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self._shop,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def _start_lasting(self, command: str) -> None:
        """What goes on while the next commands are typed, as in a terminal beside."""
        self._end_lasting()
        self._lasting = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self._shop,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._lasting.stdout
        said = self._lasting.stdout.readline()
        assert said.strip()
        assert not said.startswith(("error", "Usage", "Traceback")), command + said + self._lasting.stdout.read()

    def _end_lasting(self) -> None:
        if self._lasting is None:
            return
        self._lasting.send_signal(signal.SIGINT)
        said, _ = self._lasting.communicate()
        assert "Traceback" not in said
        self._lasting = None

    def _make_repository(self) -> None:
        (self._shop.parent / ".claude").mkdir()
        source = self._shop / "src" / "checkout"
        source.mkdir(parents=True)
        (source / "page.ts").write_text("export const page = 1\n" * 50)
        shutil.copy(ROOT / "verify_standalone.py", self._shop)
        identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
        for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "first"]):
            subprocess.run(["git", *words], cwd=self._shop, env=self.environ, check=True)

    async def plan(self, project: str) -> None:
        """Agents plan, and one of them works."""
        async with connect(self._data / "tallystick", cwd=self._shop) as client:
            await call(client, "graph_open", project=project, goal="What the pages speak of")
            planned = await call(client, "graph_plan", nodes=[{"ref": "retry", "summary": "Retry what can be retried"}])
            await call(client, "graph_next", project=project, claim=True)
            self._task = planned["created"][0]["id"]

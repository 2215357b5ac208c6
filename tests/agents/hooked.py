"""Hooks in action: what the memory knows reaches the model at the right moment, once and within budget, and no trouble
of the memory's reaches anybody."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.agents.memory import DECISION, FILE, GOAL, KNOWLEDGE, QUESTION, TASK, fill
from tests.agents.model import Call, Code, Model, Say, Turn, serving
from tests.agents.workspace import CODEX_SEES_IT, NOTHING, ROOT, Workspace
from tests.promises import promise
from tests.tokens import count_tokens

BUDGET = 400
"""Tokens that one note may cost."""
_NOTE = re.compile(r"<memory-notes.*?</memory-notes>", re.DOTALL)

CLAIM = {"project": "shop", "claim": True}

both_agents = pytest.mark.parametrize("agent", ["claude", "codex"])


def prepare(workspace: Workspace, agent: str, way: str = "plugin") -> None:
    if way == "plugin":
        install(workspace, agent)
    else:
        workspace.run("tallystick", "init", "--yes", "--client", agent)
        workspace.agree()
    fill(workspace)


def install(workspace: Workspace, agent: str) -> None:
    marketplace = workspace.home.parent / "marketplace"
    for name in (".claude-plugin", "plugins"):
        shutil.copytree(ROOT / name, marketplace / name)
    run = workspace.claude if agent == "claude" else workspace.codex
    run("plugin", "marketplace", "add", str(marketplace))
    run("plugin", "install" if agent == "claude" else "add", "tallystick@tallystick")


def ask(
    workspace: Workspace,
    agent: str,
    model: Model,
    prompt: str,
    *,
    goes_on: bool = False,
    environ: Mapping[str, str] = NOTHING,
) -> None:
    if agent == "claude":
        workspace.ask_claude(model, prompt, *(["--continue"] if goes_on else []), environ=environ)
    else:
        workspace.ask_codex(model, prompt, *(["resume", "--last"] if goes_on else []), environ=environ)


def reading(workspace: Workspace, agent: str) -> Call:
    if agent == "claude":
        return Call("Read", {"file_path": str(workspace.repository / FILE)})
    return Call("exec_command", {"cmd": f"cat {FILE}"})


def notes(model: Model, request: int = -1) -> list[str]:
    """What came from the memory, in one request."""
    return [note for text in model.told(request) for note in _NOTE.findall(text)]


def naming(words: str, found: list[str]) -> int:
    return sum(words in note for note in found)


# -- at the right moment


@promise("hooks, once", "digest, recall and the knowledge of a file reach the models, within budget, once a session")
@pytest.mark.parametrize("way", ["plugin", "init"])
@both_agents
def test_the_digest_the_recall_and_the_knowledge_of_a_file_reach_the_model_once(
    agent: str, way: str, workspace: Workspace
) -> None:
    prepare(workspace, agent, way)
    with serving(Model([reading(workspace, agent), reading(workspace, agent)])) as model:
        ask(workspace, agent, model, QUESTION)
    at_first, after_reading, after_reading_again = (notes(model, request) for request in range(3))
    digest, recall = at_first
    assert GOAL in digest
    assert TASK in digest
    assert DECISION in recall
    assert after_reading[:2] == at_first
    assert naming(KNOWLEDGE, after_reading) == 1
    assert after_reading_again == after_reading
    assert max(count_tokens(after_reading)) <= BUDGET
    explained = json.loads(workspace.run("tallystick-hook", "--explain", "--json").stdout)
    assert [said["event"] for said in explained["said"]] == ["session-start", "prompt", "before-tool"]
    (known,) = explained["said"][2]["items"]
    assert (known["why"], known["text"]) == ("about a file", f'{known["id"]} "Refunds"')

    with serving(Model([reading(workspace, agent)])) as later:
        ask(workspace, agent, later, QUESTION, goes_on=True)
    for words in (DECISION, KNOWLEDGE):
        assert naming(words, notes(later)) == 1


@promise("hooks, shell", "a shell command that names a file brings its knowledge, too")
def test_a_shell_command_that_names_a_file_counts_as_reading_it(workspace: Workspace) -> None:
    """Codex has no other way to read."""
    prepare(workspace, "claude")
    shell = Call("Bash", {"command": f"cat {FILE}"})
    with serving(Model([shell, shell])) as model:
        ask(workspace, "claude", model, QUESTION)
    assert [naming(KNOWLEDGE, notes(model, request)) for request in range(3)] == [0, 1, 1]


@promise("plugin, mcp_tool", "Claude Code asks the plugin's server at prompts and before tools, and starts no process")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace sees what is started: apt-get install strace")
def test_claude_starts_no_process_at_prompts_and_before_tools(workspace: Workspace, tmp_path: Path) -> None:
    prepare(workspace, "claude")
    under = ["strace", "-f", "-qq", "-s", "500", "-e", "trace=execve", "-o", str(tmp_path / "started")]
    with serving(Model([reading(workspace, "claude")])) as model:
        workspace.ask_claude(model, QUESTION, under=under)
    assert len(notes(model)) == 3
    started = re.findall(r"tallystick-hook ([a-z-]+) --client claude", (tmp_path / "started").read_text())
    assert set(started) == {"session-start", "stop"}


@promise("hooks, code", "what code does to a file brings its knowledge, too")
def test_what_code_does_to_a_file_is_seen_too(workspace: Workspace) -> None:
    prepare(workspace, "codex")
    read = Code(f"text(await tools.exec_command({{cmd: 'cat {FILE}'}}))")
    with serving(Model([read, read])) as model:
        workspace.ask_codex(model, QUESTION, name="gpt-6.1-sol")
    assert [naming(KNOWLEDGE, notes(model, request)) for request in range(3)] == [0, 1, 1]


@promise("hooks, quiet", "a prompt that the memory knows nothing of is left alone")
@both_agents
def test_a_prompt_that_the_memory_knows_nothing_of_is_left_alone(agent: str, workspace: Workspace) -> None:
    prepare(workspace, agent)
    with serving(Model([])) as model:
        ask(workspace, agent, model, "Paint the bicycle shed green, please.")
    (digest,) = notes(model)
    assert GOAL in digest


@promise("hooks, stop", "an agent that stops with work that it claimed is told so once, and not again")
@both_agents
def test_an_agent_that_stops_with_work_that_it_claimed_is_told_so_once(agent: str, workspace: Workspace) -> None:
    prepare(workspace, agent)
    if agent == "claude":
        claim = "mcp__plugin_tallystick_tallystick__graph_next"
        script: list[Turn] = [Call("ToolSearch", {"query": f"select:{claim}"}), Call(claim, CLAIM)]
    else:
        find = Call("tool_search", {"query": "next task"})
        script = [CODEX_SEES_IT, find, Call("graph_next", CLAIM, "mcp__tallystick")]
    with serving(Model(script)) as model:
        ask(workspace, agent, model, "Take the next task.")
    told = ["have not resolved it" in "\n".join(model.told(request)) for request in range(len(model.requests))]
    assert told == [*[False] * (len(told) - 1), True]


@promise("hooks, compaction", "what Claude Code summarizes keeps the ids, and the digest comes again")
def test_what_claude_summarizes_keeps_the_ids_and_the_digest_comes_again(workspace: Workspace) -> None:
    prepare(workspace, "claude")
    with serving(Model([reading(workspace, "claude")])) as model:
        ask(workspace, "claude", model, QUESTION)
    with serving(Model([Say("<summary>Refunds were looked at.</summary>")])) as compacting:
        ask(workspace, "claude", compacting, "/compact", goes_on=True)
        ask(workspace, "claude", compacting, "Go on.", goes_on=True)
    summarized, afterwards = notes(compacting, 0), notes(compacting, -1)
    assert naming("refund_retries", summarized[len(notes(model)) :]) == 1
    assert naming(GOAL, afterwards) == 1


# -- under fire


@contextmanager
def locked(memory: Path) -> Iterator[Mapping[str, str]]:
    """By a program that lets nobody read."""
    with ExitStack() as stack:
        for path in memory.rglob("*.db"):
            database = sqlite3.connect(path, isolation_level=None)
            stack.callback(database.close)
            database.execute("pragma locking_mode = exclusive")
            database.execute("begin exclusive")
        yield {}


@contextmanager
def away(memory: Path) -> Iterator[Mapping[str, str]]:
    """Where nothing can be, not even a new one."""
    yield {"BASE_PATH": str(memory.parent / "HEAD" / "memory")}


@contextmanager
def damaged(memory: Path) -> Iterator[Mapping[str, str]]:
    for path in memory.rglob("*"):
        if path.is_file():
            path.write_bytes(b"\xff\x00damaged" * (1 + path.stat().st_size // 9))
    yield {}


@contextmanager
def slow(memory: Path) -> Iterator[Mapping[str, str]]:
    """Whoever opens the log, for want of a copy, waits until somebody writes into it, and nobody does."""
    (memory / "graph.db").unlink()
    for path in (memory / "_system/log").iterdir():
        path.unlink()
        os.mkfifo(path)
    yield {}


@contextmanager
def not_installed(memory: Path) -> Iterator[Mapping[str, str]]:
    yield {"PATH": "/usr/local/bin:/usr/bin:/bin"}


Trouble = Callable[[Path], AbstractContextManager[Mapping[str, str]]]
TROUBLES: list[Trouble] = [away, damaged, slow, not_installed]


@promise("hooks, under fire", "the memory away, damaged, slow or not installed, the agents go on as without it")
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
@both_agents
def test_the_agent_goes_on_as_without_a_memory(agent: str, trouble: Trouble, workspace: Workspace) -> None:
    assert notes(ask_in_trouble(workspace, agent, trouble)) == []


@promise("hooks, locked", "while others lock the memory the agents go on")
@both_agents
def test_the_agent_goes_on_while_others_lock_the_memory(agent: str, workspace: Workspace) -> None:
    """What it cannot read in the tables, it may read in the log."""
    told = notes(ask_in_trouble(workspace, agent, locked))
    assert all(GOAL in note or DECISION in note or KNOWLEDGE in note for note in told)


def ask_in_trouble(workspace: Workspace, agent: str, trouble: Trouble) -> Model:
    """A prompt, a file that is read, and an answer, as always."""
    prepare(workspace, agent)
    workspace.environ["CLAUDE_CODE_MCP_STARTUP_WAIT_MS"] = "100"
    del workspace.environ["TALLYSTICK_HOOK_SECONDS"]
    with serving(Model([reading(workspace, agent)])) as model, trouble(workspace.memory) as environ:
        ask(workspace, agent, model, QUESTION, environ=environ)
    assert len(model.requests) == 2
    assert "gateway.refund(order)" in "\n".join(model.told())
    return model

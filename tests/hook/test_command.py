"""The command as clients start it: quick, quiet, and never in the way, whatever the memory or the client is like."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.hook.memories import HOOK, SESSION, Memory, run_hook
from tests.promises import promise

SESSION_START = json.dumps({"session_id": SESSION, "hook_event_name": "SessionStart", "source": "startup"}).encode()


@pytest.fixture
def told(memory: Memory) -> Memory:
    """One with something to say at the start of a session."""
    memory.call("graph_open", project="shop", goal="Checkout that never charges twice")
    memory.follow()
    return memory


def test_a_session_that_starts_is_told_of_the_memory_of_its_repository(told: Memory) -> None:
    done = run_hook("session-start", "--client", "claude", stdin=SESSION_START, cwd=told.repository / "src")
    answer = json.loads(done.stdout)
    assert "never charges twice" in answer["hookSpecificOutput"]["additionalContext"]
    assert (done.returncode, done.stderr) == (0, b"")


def test_without_words_of_the_client_it_is_claude_that_asks(told: Memory) -> None:
    assert json.loads(run_hook("session-start", cwd=told.repository).stdout)["hookSpecificOutput"]


HEAVY = ("typer", "rich", "pydantic", "mcp", "mcp_types", "starlette", "uvicorn", "httpx2", "asyncio", "yaml",
         "tallystick.app", "tallystick.engine.store", "tallystick.state.state")  # fmt: skip


@promise("hook, light", "nothing heavy is imported")
@pytest.mark.parametrize("event", ["session-start", "before-tool", "stop"])
def test_nothing_heavy_is_imported(told: Memory, event: str) -> None:
    told.note("one", title="One", cites=["src/cart.ts"])
    said = json.dumps({"session_id": "1", "cwd": str(told.repository), "tool_input": {"file_path": "src/cart.ts"}})
    code = (
        "import sys\nfrom tallystick.extensions.hooks.said import answer\n"
        f"assert answer([{event!r}], {said.encode()!r}) or {event!r} == 'stop'\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=told.repository, check=True)
    assert done.stdout.strip() == "[]"


# -- whatever the client says


@promise("hook, hostile input", "hostile input is passed over")
@pytest.mark.parametrize(
    "stdin",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"session_id": ' + b"[" * 100_000, b'{"cwd": "/nowhere/at/all"}',
     b'{"cwd": "\\u0000"}', b"x" * (9 << 20)],
    ids=range(9),
)  # fmt: skip
@pytest.mark.parametrize("event", ["before-tool", "prompt"])
def test_hostile_input_is_passed_over(told: Memory, event: str, stdin: bytes) -> None:
    done = run_hook(event, "--client", "claude", stdin=stdin, cwd=told.repository)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "words", [("session-end",), ("session-start", "--client", "netscape"), ("session-start", "--client")]
)
def test_what_is_not_known_never_stops_a_client(told: Memory, words: tuple[str, ...]) -> None:
    done = run_hook(*words, stdin=SESSION_START, cwd=told.repository)
    assert done.returncode == 0
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("session-end",), b"", b"there is no event 'session-end'"),
        (("session-start", "--client", "netscape"), b"", b"there is no client 'netscape'"),
        (("session-start",), b"[]", b"no JSON object"),
    ],
)
def test_who_looks_for_the_fault_is_told(told: Memory, words: tuple[str, ...], stdin: bytes, said: bytes) -> None:
    done = run_hook(*words, stdin=stdin, cwd=told.repository, TALLYSTICK_HOOK_DEBUG="1")
    assert (done.stdout, said in done.stderr) == (b"", True)


def test_a_person_is_told_how_it_is_used(tmp_path: Path) -> None:
    for words in ((), ("--help",)):
        done = run_hook(*words, cwd=tmp_path)
        assert done.returncode == 0
        assert b"usage: tallystick-hook EVENT" in done.stdout


# -- whatever the memory is like


def _away(memory: Memory) -> None:
    memory.settings.base.rename(memory.settings.base.with_name("elsewhere"))


def _without_log(memory: Memory) -> None:
    (memory.home / "_system" / "head").unlink()


def _torn_head(memory: Memory) -> None:
    (memory.home / "_system" / "head").write_bytes(b"0" * 512)


def _mirror_damaged(memory: Memory) -> None:
    data = bytearray((memory.home / "graph.db").read_bytes())
    data[100:5_000] = os.urandom(4_900)
    (memory.home / "graph.db").write_bytes(data)


def _mirror_of_another_program(memory: Memory) -> None:
    (memory.home / "graph.db").unlink()
    with sqlite3.connect(memory.home / "graph.db") as db:
        db.execute("CREATE TABLE recipes (name TEXT)")


def _mirror_of_another_log(memory: Memory) -> None:
    with sqlite3.connect(memory.home / "graph.db") as db:
        db.execute(
            "UPDATE meta SET value = replace(value, '\"commit_id\":\"', '\"commit_id\":\"00') WHERE key = 'head'"
        )


def _mirror_a_directory(memory: Memory) -> None:
    (memory.home / "graph.db").unlink()
    (memory.home / "graph.db").mkdir()


def _settings_wrong(memory: Memory) -> None:
    (memory.settings.base / "tallystick.toml").write_text("tenant = [")


def _sessions_a_file(memory: Memory) -> None:
    (memory.home / "_system" / "hooks").write_text("")


DAMAGES = (_away, _without_log, _torn_head, _mirror_of_another_log, _settings_wrong, _sessions_a_file)


@promise("hook, under fire", "a memory that cannot be asked is as good as none")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__.strip("_"))
@pytest.mark.parametrize("event", ["session-start", "prompt"])
def test_a_memory_that_cannot_be_asked_is_as_good_as_none(
    told: Memory, event: str, damage: Callable[[Memory], None], tmp_path: Path
) -> None:
    damage(told)
    said = json.dumps({"session_id": SESSION, "prompt": "what was it that charges twice"}).encode()
    done = run_hook(event, stdin=said, cwd=told.repository, XDG_DATA_HOME=str(tmp_path / "data"), HOME=str(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "damage", [_mirror_damaged, _mirror_of_another_program, _mirror_a_directory], ids=lambda each: each.__name__
)
def test_without_a_mirror_to_ask_a_short_log_is_read(told: Memory, damage: Callable[[Memory], None]) -> None:
    damage(told)
    done = run_hook("session-start", stdin=SESSION_START, cwd=told.repository)
    assert b"never charges twice" in done.stdout
    assert (done.returncode, done.stderr) == (0, b"")


def test_while_somebody_locks_the_mirror_nobody_waits_for_long(told: Memory) -> None:
    with sqlite3.connect(told.home / "graph.db", isolation_level=None) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("UPDATE meta SET value = value")
        done = run_hook("session-start", stdin=SESSION_START, cwd=told.repository)
    assert b"never charges twice" in done.stdout
    assert (done.returncode, done.stderr) == (0, b"")


@promise("hook, limit", "a client that never ends its input is left")
def test_a_client_that_never_ends_its_input_is_left(told: Memory) -> None:
    process = subprocess.Popen([*HOOK, "prompt"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=told.repository)
    try:
        # The pipe stays open: only the limit of the hook itself can end it.
        assert process.wait() == 0
    finally:
        process.kill()
        process.communicate()


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(told: Memory) -> None:
    head = told.home / "_system" / "head"
    head.unlink()
    os.mkfifo(head)
    done = run_hook("session-start", stdin=SESSION_START, cwd=told.repository)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_client_that_stopped_listening_is_no_error(told: Memory) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*HOOK, "session-start"], input=SESSION_START, stdout=write, stderr=subprocess.PIPE, cwd=told.repository,
        check=False,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@promise("hook, two at once", "hooks of one session may run at once")
def test_hooks_of_one_session_may_run_at_once(told: Memory) -> None:
    told.note("one", title="One", cites=["src/cart.ts"])
    said = json.dumps({"session_id": SESSION, "tool_input": {"file_path": "src/cart.ts"}}).encode()
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: run_hook("before-tool", stdin=said, cwd=told.repository), range(4)))
    assert {each.returncode for each in done} == {0}
    assert any(b"One" in each.stdout for each in done)
    (kept,) = (told.home / "_system" / "hooks").iterdir()
    assert all(json.loads(line)["items"] for line in kept.read_text().splitlines())


def test_half_a_line_that_a_killed_hook_left_is_passed_over(told: Memory) -> None:
    run_hook("session-start", stdin=SESSION_START, cwd=told.repository)
    (kept,) = (told.home / "_system" / "hooks").iterdir()
    with kept.open("ab") as file:
        file.write(b'{"at":"2026-')
    told.note("one", title="One", cites=["src/cart.ts"])
    said = json.dumps({"session_id": SESSION, "tool_input": {"file_path": "src/cart.ts"}}).encode()
    assert b"One" in run_hook("before-tool", stdin=said, cwd=told.repository).stdout


# -- for people


@promise("hook, explain", "what was said, when and why is shown")
def test_what_was_said_when_and_why_is_shown(told: Memory) -> None:
    told.note("one", title="One", cites=["src/cart.ts"])
    said = json.dumps({"session_id": SESSION, "tool_input": {"file_path": "src/cart.ts"}}).encode()
    run_hook("session-start", stdin=SESSION_START, cwd=told.repository)
    run_hook("before-tool", stdin=said, cwd=told.repository)
    shown = run_hook("--explain", cwd=told.repository).stdout.decode()
    assert "session-start at position" in shown
    assert 'one "One"  (about a file)' in shown
    as_json = json.loads(run_hook("--explain", SESSION, "--json", cwd=told.repository).stdout)
    assert [each["event"] for each in as_json["said"]] == ["session-start", "before-tool"]
    assert as_json["said"][1]["items"] == [{"id": "one", "why": "about a file", "text": 'one "One"'}]


def test_what_was_redacted_since_is_not_shown_again(told: Memory) -> None:
    told.note("one", title="Secret", cites=["src/cart.ts"])
    said = json.dumps({"session_id": SESSION, "tool_input": {"file_path": "src/cart.ts"}}).encode()
    run_hook("before-tool", stdin=said, cwd=told.repository)
    told.call("memory.write", op="REDACT_NODE", node_id="one", reason="asked")
    shown = run_hook("--explain", cwd=told.repository).stdout.decode()
    assert "one (no longer to be shown)" in shown
    assert "Secret" not in shown


def test_of_an_unknown_session_it_says_so(told: Memory) -> None:
    done = run_hook("--explain", "nobody", cwd=told.repository)
    assert b"nothing was said in such a session" in done.stderr

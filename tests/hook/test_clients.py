"""What clients say, and what they are answered: by their own schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tallystick.extensions.hooks.clients import CLIENTS, KINDS, Client, Kind, read_event, render
from tests.promises import promise

TEXT = 'a "note"\nof two lines: ü 漢 </memory-notes>'


def _specific(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["hookEventName"],
        "properties": {"hookEventName": {"enum": list(names)}, "additionalContext": {"type": "string"}},
    }


_UNIVERSAL: dict[str, Any] = {
    "continue": {"type": "boolean"},
    "stopReason": {"type": "string"},
    "suppressOutput": {"type": "boolean"},
    "systemMessage": {"type": "string"},
}


def _closed(**more: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": {**_UNIVERSAL, **more}}


_BLOCK = {"decision": {"enum": ["block"]}, "reason": {"type": "string"}}
_CURSOR = {"additional_context": {"type": "string"}, "env": {"type": "object"}, "continue": {"type": "boolean"}}

SCHEMAS: dict[tuple[Client, Kind], dict[str, Any] | None] = {
    # None: plain text. What is not listed hears nothing.
    ("claude", "session-start"): _closed(hookSpecificOutput=_specific("SessionStart")),
    ("claude", "prompt"): _closed(hookSpecificOutput=_specific("UserPromptSubmit"), **_BLOCK),
    ("claude", "before-tool"): _closed(hookSpecificOutput=_specific("PreToolUse"), **_BLOCK),
    ("claude", "stop"): _closed(**_BLOCK),
    ("claude", "before-compact"): None,
    ("codex", "session-start"): _closed(hookSpecificOutput=_specific("SessionStart")),
    ("codex", "prompt"): _closed(hookSpecificOutput=_specific("UserPromptSubmit"), **_BLOCK),
    ("codex", "before-tool"): _closed(hookSpecificOutput=_specific("PreToolUse"), **_BLOCK),
    ("codex", "stop"): _closed(**_BLOCK),
    ("cursor", "session-start"): {"type": "object", "additionalProperties": False, "properties": _CURSOR},
    ("cursor", "prompt"): {"type": "object", "additionalProperties": False, "properties": _CURSOR},
    ("cursor", "stop"): {
        "type": "object", "additionalProperties": False, "properties": {"followup_message": {"type": "string"}}
    },
    ("gemini", "session-start"): _closed(hookSpecificOutput=_specific("SessionStart")),
    ("gemini", "prompt"): _closed(hookSpecificOutput=_specific("BeforeAgent")),
    ("gemini", "stop"): _closed(),
    ("vscode", "session-start"): _closed(hookSpecificOutput=_specific("SessionStart")),
    ("vscode", "before-tool"): _closed(hookSpecificOutput=_specific("PreToolUse")),
    ("vscode", "stop"): _closed(),
    ("copilot", "session-start"): {
        "type": "object", "additionalProperties": False, "properties": {"additionalContext": {"type": "string"}}
    },
}  # fmt: skip


@promise("hook, schemas", "a client is told what its schema names and nothing else")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_client_is_told_what_its_schema_names_and_nothing_else(client: Client, kind: Kind) -> None:
    printed = render(read_event(kind, client, {"session_id": "s"}), TEXT)
    if (client, kind) not in SCHEMAS:
        assert printed == ""
        return
    schema = SCHEMAS[client, kind]
    if schema is None:
        assert printed == TEXT + "\n"
        return
    answer = json.loads(printed)
    jsonschema.validate(answer, schema)
    assert TEXT in _texts(answer)


def _texts(value: Any) -> list[str]:
    return [each for part in value.values() for each in _texts(part)] if isinstance(value, dict) else [value]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_with_nothing_to_say_nothing_is_printed(client: Client, kind: Kind) -> None:
    assert render(read_event(kind, client, {}), "") == ""


def test_gemini_is_told_of_a_file_after_the_tool_since_it_hears_nothing_before() -> None:
    after = read_event("before-tool", "gemini", {"hook_event_name": "AfterTool"})
    assert json.loads(render(after, "x"))["hookSpecificOutput"]["hookEventName"] == "AfterTool"
    assert render(read_event("before-tool", "gemini", {"hook_event_name": "BeforeTool"}), "x") == ""


PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n*** Add File: src/new.py\n+z\n*** End Patch\n"
TOOLS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "Claude reads": ({"tool_name": "Read", "tool_input": {"file_path": "/r/src/a.py"}}, ("/r/src/a.py",)),
    "Claude edits": (
        {"tool_name": "Edit", "tool_input": {"file_path": "a.py", "old_string": "b.py", "new_string": "c.py"}},
        ("a.py",),
    ),
    "Claude edits a notebook": ({"tool_input": {"notebook_path": "n.ipynb"}}, ("n.ipynb",)),
    "a shell command": (
        {"tool_name": "Bash", "tool_input": {"command": "sed -n '1,20p' src/a.py | grep -c x"}}, ("src/a.py",)
    ),
    "Codex patches": (
        {"tool_name": "apply_patch", "tool_input": {"command": PATCH}}, ("src/a.py", "src/new.py")
    ),
    "Codex patches, said as a text": ({"tool_name": "apply_patch", "tool_input": PATCH}, ("src/a.py", "src/new.py")),
    "Gemini reads": ({"tool_name": "read_file", "tool_input": {"absolute_path": "/r/a.py"}}, ("/r/a.py",)),
    "VS Code edits several": ({"tool_name": "editFiles", "tool_input": {"files": ["a.py", "b.py"]}}, ("a.py", "b.py")),
    "Copilot says its arguments as a text": ({"toolName": "view", "toolArgs": '{"path": "a.py"}'}, ("a.py",)),
    "Cursor reads": ({"tool_name": "read_file", "tool_input": {"target_file": "a.py"}}, ("a.py",)),
    "a tool without files": ({"tool_name": "WebSearch", "tool_input": {"query": "cart"}}, ()),
}  # fmt: skip


@pytest.mark.parametrize("name", TOOLS)
def test_the_files_that_a_tool_is_about_to_touch_are_found(name: str) -> None:
    said, paths = TOOLS[name]
    assert read_event("before-tool", "claude", said).paths == paths


def test_sessions_and_directories_are_known_by_each_clients_word_for_them() -> None:
    assert read_event("prompt", "claude", {"session_id": "one", "cwd": "/r"}).session == "one"
    assert read_event("prompt", "vscode", {"sessionId": "two", "cwd": "/r"}).session == "two"
    cursor = read_event("prompt", "cursor", {"conversation_id": "three", "workspace_roots": ["/r", "/other"]})
    assert (cursor.session, cursor.cwd) == ("three", Path("/r"))


HOSTILE: tuple[Any, ...] = (
    {"session_id": 7, "cwd": [], "prompt": {}, "tool_input": [[]]},
    {"session_id": "\0" * 10_000, "cwd": "\0", "prompt": "\ud800", "tool_input": {"file_path": 1, "files": {}}},
    {"tool_input": {"command": "'" * 100_000}},
    {"tool_input": {"command": "*** " * 100_000}},
    {"tool_input": "[" * 100_000},
    {"workspace_roots": [None, {}], "stop_hook_active": "true", "loop_count": True},
)  # fmt: skip


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_client_says_is_an_event(kind: Kind, said: Any) -> None:
    event = read_event(kind, "claude", said)
    assert len(event.paths) <= 5
    assert not event.is_repeated or said.get("loop_count")

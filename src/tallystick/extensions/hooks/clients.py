"""The clients: what each of them says on standard input, and what it wants to read on standard output.

Their schemas are closed, so nothing is printed that they do not name, and nothing at all where a client has no place
for it at an event. Input is whatever a program wrote: a field of another type counts as not said.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

Kind = Literal["session-start", "prompt", "before-tool", "stop", "before-compact"]
Client = Literal["claude", "codex", "cursor", "gemini", "vscode", "copilot"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CLIENTS: tuple[Client, ...] = get_args(Client)

PATHS_MAX = 5
_PROMPT_CHARACTERS_MAX = 8_000
_COMMAND_CHARACTERS_MAX = 4_000
_PATCH_CHARACTERS_MAX = 200_000
_NAMES: dict[Client, tuple[str, ...]] = {
    "claude": ("claude", "claude-code"),
    "codex": ("codex", "codex-mcp-client"),
    "cursor": ("cursor", "cursor-vscode"),
    "gemini": ("gemini", "gemini-cli-mcp-client", "gemini-cli"),
    "vscode": ("vscode", "Visual Studio Code"),
    "copilot": ("copilot", "copilot-cli", "github-copilot-developer"),
}
"""As whom a client writes where no setting says so: what it calls itself, or what `tallystick init` calls it."""


class Event(msgspec.Struct, frozen=True):
    kind: Kind
    client: Client
    session: str
    cwd: Path
    name: str = ""
    """What the client calls the event."""
    prompt: str = ""
    paths: tuple[str, ...] = ()
    """Files that a tool is about to touch, as the client says them."""
    is_repeated: bool = False
    """The agent goes on only because a hook asked it to."""


def agents_of(client: Client, named: str | None) -> tuple[str, ...]:
    return (named,) if named else _NAMES[client]


# -- what they say


def read_event(kind: Kind, client: Client, said: Mapping[str, Any]) -> Event:
    session = _first_text(said, "session_id", "sessionId", "conversation_id") or f"process-{os.getppid()}"
    roots = said.get("workspace_roots")
    root = next((each for each in roots if isinstance(each, str)), None) if isinstance(roots, list) else None
    cwd = _first_text(said, "cwd") or root
    return Event(
        kind,
        client,
        session[:500],
        Path(cwd) if cwd and "\0" not in cwd else Path.cwd(),
        (_first_text(said, "hook_event_name", "hookEventName") or "")[:100],
        (_first_text(said, "prompt", "initialPrompt") or "")[:_PROMPT_CHARACTERS_MAX],
        tuple(dict.fromkeys(_paths(said)))[:PATHS_MAX] if kind == "before-tool" else (),
        said.get("stop_hook_active") is True or _positive(said.get("loop_count")),
    )


def _first_text(said: Mapping[str, Any], *names: str) -> str | None:
    found = (said.get(name) for name in names)
    return next((each for each in found if isinstance(each, str) and each), None)


def _positive(value: Any) -> bool:
    return isinstance(value, int) and value > 0


_PATH_KEYS = ("file_path", "filePath", "path", "notebook_path", "absolute_path", "target_file", "file")
_PATCHED = re.compile(r"^\*\*\* (?:Update|Delete|Add) File: (.+)$", re.MULTILINE)


def _paths(said: Mapping[str, Any]) -> Iterator[str]:
    given = next((said[name] for name in ("tool_input", "toolArgs", "toolInput", "arguments") if name in said), said)
    if isinstance(given, str):
        # Copilot's command line says its arguments as a text that is JSON.
        given = _parsed(given)
    if isinstance(given, str):
        yield from _patched(given)
    if not isinstance(given, dict):
        return
    for name in _PATH_KEYS:
        if isinstance(given.get(name), str):
            yield given[name]
    files = given.get("files")
    yield from (each for each in files[:PATHS_MAX] if isinstance(each, str)) if isinstance(files, list) else ()
    for name in ("input", "patch", "command"):
        if isinstance(given.get(name), str):
            yield from _patched(given[name])
            if name == "command":
                yield from _words(given[name])


def _parsed(text: str) -> Any:
    try:
        return json.loads(text[:_PATCH_CHARACTERS_MAX])
    except (ValueError, RecursionError):
        return text


def _patched(text: str) -> Iterator[str]:
    if "*** " in text:
        yield from (each.strip() for each in _PATCHED.findall(text[:_PATCH_CHARACTERS_MAX]))


def _words(command: str) -> Iterator[str]:
    """Words of a shell command that look like files; who asks sees whether they are."""
    if "*** Begin Patch" in command:
        return
    try:
        words = shlex.split(command[:_COMMAND_CHARACTERS_MAX], comments=False)
    except ValueError:
        words = command[:_COMMAND_CHARACTERS_MAX].split()
    yield from (word for word in words if ("/" in word or "." in word) and not word.startswith("-"))


# -- what they want to hear

Wire = Callable[[str, str], str]
"""Takes the text and what the client calls the event."""


def render(event: Event, text: str) -> str:
    """What is to be printed; empty for nothing."""
    wire = _WIRES.get((event.client, event.kind))
    return wire(text, event.name) if text and wire is not None else ""


def hears(event: Event) -> bool:
    return (event.client, event.kind) in _WIRES


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n"


def _specific(*names: str) -> Wire:
    """The first name, unless the client says another one of them."""

    def wire(text: str, name: str) -> str:
        called = name if name in names else names[0]
        return _json({"hookSpecificOutput": {"hookEventName": called, "additionalContext": text}})

    return wire


def _after_tool(text: str, name: str) -> str:
    """Gemini hears nothing before a tool."""
    return _specific("AfterTool")(text, name) if name == "AfterTool" else ""


def _blocking(text: str, name: str) -> str:
    return _json({"decision": "block", "reason": text})


def _shown(text: str, name: str) -> str:
    return _json({"systemMessage": text})


_WIRES: dict[tuple[Client, Kind], Wire] = {
    ("claude", "session-start"): _specific("SessionStart"),
    ("claude", "prompt"): _specific("UserPromptSubmit"),
    ("claude", "before-tool"): _specific("PreToolUse", "PostToolUse"),
    ("claude", "stop"): _blocking,
    # Of all outputs only this one is no JSON: it becomes part of what the summary is asked for.
    ("claude", "before-compact"): lambda text, name: text + "\n",
    ("codex", "session-start"): _specific("SessionStart"),
    ("codex", "prompt"): _specific("UserPromptSubmit"),
    ("codex", "before-tool"): _specific("PreToolUse", "PostToolUse"),
    ("codex", "stop"): _blocking,
    ("cursor", "session-start"): lambda text, name: _json({"additional_context": text}),
    ("cursor", "prompt"): lambda text, name: _json({"continue": True, "additional_context": text}),
    ("cursor", "stop"): lambda text, name: _json({"followup_message": text}),
    ("gemini", "session-start"): _specific("SessionStart"),
    ("gemini", "prompt"): _specific("BeforeAgent"),
    ("gemini", "before-tool"): _after_tool,
    ("gemini", "stop"): _shown,
    ("vscode", "session-start"): _specific("SessionStart"),
    ("vscode", "before-tool"): _specific("PreToolUse", "PostToolUse"),
    ("vscode", "stop"): _shown,
    ("copilot", "session-start"): lambda text, name: _json({"additionalContext": text}),
}

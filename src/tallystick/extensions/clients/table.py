"""The table of clients: how each is recognised, where its files are, and what an entry looks like in them.

Places are templates: of a project relative to its root, of a user with `{home}` and the directories that a client's
own variable may move (`directories`). Every command is a name on PATH: a path would break with the next version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tallystick.extensions.clients.entries import HOOK, ConfigEntry, Format

SERVER = "tallystick"
COMMAND = "tallystick"
_URL = "{url}"
_HOOK_SECONDS = 5

_STDIO = {"command": COMMAND, "args": ["serve"]}
_TYPED = {"type": "stdio", **_STDIO}
_STRICT, _COMMENTED = Format(), Format(comments=True)


class Hook(msgspec.Struct, frozen=True):
    event: str
    """As the client calls it."""
    ours: str
    matcher: str | None = None


class HookFile(msgspec.Struct, frozen=True):
    project: str | None
    user: str | None
    shape: str
    """Of an element, see `_SHAPES`."""
    hooks: tuple[Hook, ...]
    version: int | None = None
    """A key that the file must have."""
    form: Format = _STRICT


class Client(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    project: str | None
    user: tuple[str, ...]
    """More than one where a client has several programs; each that has its directory is meant."""
    outer: str
    stdio: Mapping[str, Any] = msgspec.field(default_factory=lambda: _STDIO)
    http: Mapping[str, Any] | None
    """None where a file cannot say it."""
    form: Format = _STRICT
    hooks: HookFile | None = None
    commands: tuple[str, ...]
    project_marks: tuple[str, ...]
    user_marks: tuple[str, ...]
    next_step: str = ""

    def server(self, url: str) -> ConfigEntry | None:
        """The entry of the server, over stdio unless there is an address."""
        value = self.stdio if not url else self.http
        if value is None:
            return None
        filled = {key: url if each == _URL else each for key, each in value.items()}
        return ConfigEntry("table" if self.outer == "mcp_servers" else "key", (self.outer, SERVER), filled)

    def hook_entries(self) -> Iterator[ConfigEntry]:
        if self.hooks is None:
            return
        if self.hooks.version is not None:
            yield ConfigEntry("key", ("version",), self.hooks.version, any_value=True)
        for hook in self.hooks.hooks:
            command = f"{HOOK} {hook.ours} --client {self.name}"
            yield ConfigEntry("element", ("hooks", hook.event), _SHAPES[self.hooks.shape](command, hook.matcher))


def _nested(seconds: int) -> Any:
    def shape(command: str, matcher: str | None) -> dict[str, Any]:
        handler = {"type": "command", "command": command, "timeout": seconds}
        return {**({"matcher": matcher} if matcher else {}), "hooks": [handler]}

    return shape


_SHAPES: dict[str, Any] = {
    "nested": _nested(_HOOK_SECONDS),
    "milliseconds": _nested(_HOOK_SECONDS * 1000),
    "flat": lambda command, _: {"type": "command", "command": command, "timeout": _HOOK_SECONDS},
    "bare": lambda command, _: {"command": command, "timeout": _HOOK_SECONDS},
    "shells": lambda command, _: {
        "type": "command",
        "bash": command,
        "powershell": command,
        "timeoutSec": _HOOK_SECONDS,
    },
}

CLIENTS: tuple[Client, ...] = (
    Client(
        name="claude",
        title="Claude Code",
        project=".mcp.json",
        user=("{claude_json}",),
        outer="mcpServers",
        stdio=_TYPED,
        http={"type": "http", "url": _URL},
        hooks=HookFile(
            ".claude/settings.json",
            "{claude}/settings.json",
            "nested",
            (
                Hook("SessionStart", "session-start", "startup|resume|clear|compact"),
                Hook("UserPromptSubmit", "prompt"),
                Hook("PreToolUse", "before-tool", "Read|Edit|MultiEdit|Write|NotebookEdit|Bash"),
                Hook("Stop", "stop"),
                Hook("PreCompact", "before-compact"),
            ),
        ),
        commands=("claude",),
        project_marks=(".claude", "CLAUDE.md", ".mcp.json"),
        user_marks=("{claude}", "{claude_json}"),
        next_step="start it here once and agree to the server of .mcp.json: until then it is pending",
    ),
    Client(
        name="codex",
        title="Codex",
        project=".codex/config.toml",
        user=("{codex}/config.toml",),
        outer="mcp_servers",
        http={"url": _URL},
        hooks=HookFile(
            ".codex/hooks.json",
            "{codex}/hooks.json",
            "nested",
            (
                Hook("SessionStart", "session-start"),
                Hook("UserPromptSubmit", "prompt"),
                Hook("PreToolUse", "before-tool", "Bash|apply_patch"),
                Hook("Stop", "stop"),
            ),
        ),
        commands=("codex",),
        project_marks=(".codex",),
        user_marks=("{codex}",),
        next_step="it reads .codex of projects that you trust, and runs hooks after you have looked at them (/hooks)",
    ),
    Client(
        name="cursor",
        title="Cursor",
        project=".cursor/mcp.json",
        user=("{home}/.cursor/mcp.json",),
        outer="mcpServers",
        http={"url": _URL},
        form=_COMMENTED,
        hooks=HookFile(
            ".cursor/hooks.json",
            "{home}/.cursor/hooks.json",
            "bare",
            (Hook("sessionStart", "session-start"), Hook("beforeSubmitPrompt", "prompt"), Hook("stop", "stop")),
            version=1,
        ),
        commands=("cursor", "cursor-agent"),
        project_marks=(".cursor",),
        user_marks=("{home}/.cursor",),
        next_step="enable the server in its settings under MCP",
    ),
    Client(
        name="vscode",
        title="VS Code with Copilot",
        project=".vscode/mcp.json",
        user=("{support}/Code/User/mcp.json",),
        outer="servers",
        stdio=_TYPED,
        http={"type": "http", "url": _URL},
        form=_COMMENTED,
        hooks=HookFile(
            ".github/hooks/tallystick.json",
            None,
            "flat",
            (Hook("SessionStart", "session-start"), Hook("PreToolUse", "before-tool"), Hook("Stop", "stop")),
        ),
        commands=("code",),
        project_marks=(".vscode",),
        user_marks=("{support}/Code/User",),
        next_step="start the server when it asks whether you trust it",
    ),
    Client(
        name="copilot",
        title="Copilot CLI",
        project=".mcp.json",
        user=("{copilot}/mcp-config.json",),
        outer="mcpServers",
        stdio=_TYPED,
        http={"type": "http", "url": _URL},
        hooks=HookFile(
            ".github/hooks/tallystick-copilot.json",
            "{copilot}/hooks/tallystick.json",
            "shells",
            (Hook("sessionStart", "session-start"),),
            version=1,
        ),
        commands=("copilot",),
        project_marks=(".github/copilot-instructions.md", ".github/hooks"),
        user_marks=("{copilot}",),
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        project=".gemini/settings.json",
        user=("{home}/.gemini/settings.json",),
        outer="mcpServers",
        http={"url": _URL, "type": "http"},
        form=_COMMENTED,
        hooks=HookFile(
            ".gemini/settings.json",
            "{home}/.gemini/settings.json",
            "milliseconds",
            (
                Hook("SessionStart", "session-start"),
                Hook("BeforeAgent", "prompt"),
                # It takes no context before a tool.
                Hook("AfterTool", "before-tool", "read_file|read_many_files|replace|write_file|run_shell_command"),
                Hook("AfterAgent", "stop"),
            ),
            form=_COMMENTED,
        ),
        commands=("gemini",),
        project_marks=(".gemini", "GEMINI.md"),
        user_marks=("{home}/.gemini/settings.json",),
    ),
    Client(
        name="antigravity",
        title="Antigravity",
        project=".agents/mcp_config.json",
        user=("{home}/.gemini/config/mcp_config.json", "{support}/Antigravity/User/mcp_config.json"),
        outer="mcpServers",
        http={"serverUrl": _URL},
        commands=("agy", "antigravity"),
        project_marks=(".agents/mcp_config.json", ".agents/hooks.json"),
        user_marks=("{home}/.gemini/config", "{support}/Antigravity"),
    ),
    Client(
        name="windsurf",
        title="Windsurf",
        project=None,
        user=("{home}/.codeium/windsurf/mcp_config.json",),
        outer="mcpServers",
        http={"serverUrl": _URL},
        form=_COMMENTED,
        commands=("windsurf",),
        project_marks=(".windsurf",),
        user_marks=("{home}/.codeium/windsurf",),
    ),
    Client(
        name="zed",
        title="Zed",
        project=".zed/settings.json",
        user=("{config}/zed/settings.json",),
        outer="context_servers",
        http={"url": _URL},
        form=_COMMENTED,
        commands=("zed", "zeditor"),
        project_marks=(".zed",),
        user_marks=("{config}/zed",),
    ),
    Client(
        name="opencode",
        title="OpenCode",
        project="opencode.json",
        user=("{config}/opencode/opencode.json",),
        outer="mcp",
        stdio={"type": "local", "command": [COMMAND, "serve"], "enabled": True},
        http={"type": "remote", "url": _URL, "enabled": True},
        form=_COMMENTED,
        commands=("opencode",),
        project_marks=("opencode.json", "opencode.jsonc", ".opencode"),
        user_marks=("{config}/opencode",),
    ),
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        project=None,
        user=("{support}/Claude/claude_desktop_config.json",),
        outer="mcpServers",
        http=None,
        commands=(),
        project_marks=(),
        user_marks=("{support}/Claude",),
        next_step="restart it: it reads its configuration at the start only",
    ),
)
NAMES = tuple(client.name for client in CLIENTS)


def directories(home: Path, environ: Mapping[str, str], platform: str) -> dict[str, str]:
    """What the templates of places may name."""
    moved = environ.get("CLAUDE_CONFIG_DIR")
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return {
        "home": str(home),
        "config": config,
        "support": f"{home}/Library/Application Support" if platform == "darwin" else config,
        "claude": moved or f"{home}/.claude",
        "claude_json": f"{moved or home}/.claude.json",
        "codex": environ.get("CODEX_HOME") or f"{home}/.codex",
        "copilot": environ.get("COPILOT_HOME") or f"{home}/.copilot",
    }

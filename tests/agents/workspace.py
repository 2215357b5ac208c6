"""A home and a repository of their own, in which Claude Code and Codex run as a person's would.

Both are the published programs. They are told to ask the stand-in for their model, and to send nothing anywhere else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.agents.model import Await, Call, Model

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NOTHING: Mapping[str, str] = MappingProxyType({})
NOBODY = "http://127.0.0.1:9"
"""An address at which no model answers: for commands that ask none."""

FIRST_WORDS = "A memory that outlives the conversation"
"""Of the server's instructions, which Codex shows with its search for tools as soon as the server is there."""
CODEX_SEES_IT = Await(FIRST_WORDS, Call("exec_command", {"cmd": "sleep 0.1"}))

_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    # Codex looks for plugins and news whatever it is told; behind a proxy that is not there, not even a name is asked.
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOBODY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
}
_CODEX_CONFIG = """
model_provider = "stand-in"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.stand-in]
name = "stand-in"
base_url = "{nobody}/v1"
wire_api = "responses"

[projects."{repository}"]
trust_level = "trusted"
"""


def program(pattern: str) -> Path:
    found = sorted((HERE / "node_modules").glob(pattern))
    assert found, f"{pattern} is not installed: make agents"
    return found[0]


def claude() -> Path:
    return program("@anthropic-ai/claude-code-*/claude")


def codex() -> Path:
    return program("@openai/codex-*/vendor/*/bin/codex")


Done = subprocess.CompletedProcess[str]


class Workspace:
    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.repository = directory / "shop"
        self.home.mkdir()
        self.repository.mkdir()
        self.environ = {
            **_QUIET,
            "HOME": str(self.home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
            "CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "60000",  # it would begin without a server that is slow to start
            "TALLYSTICK_HOOK_SECONDS": "60",  # a busy machine is not what is tested
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": NOBODY,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Ada",
            "GIT_AUTHOR_EMAIL": "ada@example.org",
            "GIT_COMMITTER_NAME": "Ada",
            "GIT_COMMITTER_EMAIL": "ada@example.org",
        }
        self.write("src/refunds.py", "def refund(order):\n    return gateway.refund(order)\n")
        self.write("src/orders.py", "def place(order):\n    return queue.put(order)\n")
        self.write(".codex/config.toml", _CODEX_CONFIG.format(nobody=NOBODY, repository=self.repository), at_home=True)
        self.run("git", "init", "-q", "-b", "main")
        self.memory = self.repository / ".git/tallystick"
        """Used as soon as there is such a directory: `tallystick init` makes it."""
        self.run("git", "add", ".")
        self.run("git", "commit", "-q", "-m", "a shop")

    # -- files and commands

    def write(self, name: str, content: str | dict[str, Any], *, at_home: bool = False) -> Path:
        path = (self.home if at_home else self.repository) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return path

    def run(self, *command: str | Path, environ: Mapping[str, str] = NOTHING, stdin: str = "") -> Done:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.repository,
            env={**self.environ, **environ},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def agree(self) -> None:
        """To the servers that the repository names, as Claude Code asks a person to."""
        self.write(".claude/settings.json", {"enableAllProjectMcpServers": True}, at_home=True)

    # -- the agents

    def claude(self, *arguments: str, environ: Mapping[str, str] = NOTHING) -> Done:
        return self.run(claude(), *arguments, environ=environ)

    def codex(self, *arguments: str) -> Done:
        return self.run(codex(), *arguments)

    def ask_claude(
        self,
        model: Model,
        prompt: str,
        *arguments: str,
        under: Sequence[str] = (),
        environ: Mapping[str, str] = NOTHING,
    ) -> dict[str, Any]:
        """One prompt to its last answer, with the tools allowed that the scripts call."""
        done = self.run(
            *under, claude(), "-p", prompt, "--output-format", "json",
            "--allowedTools", "Read,Edit,Write,Bash,mcp__tallystick,mcp__plugin_tallystick_tallystick", *arguments,
            environ={"ANTHROPIC_BASE_URL": model.url, **environ},
        )  # fmt: skip
        answer = json.loads(done.stdout)
        assert isinstance(answer, dict)
        assert not answer["is_error"], answer
        return answer

    def ask_codex(
        self,
        model: Model,
        prompt: str,
        *arguments: str,
        name: str = "gpt-5.5",
        under: Sequence[str] = (),
        environ: Mapping[str, str] = NOTHING,
    ) -> list[dict[str, Any]]:
        """One prompt to its last answer: all that it reports on the way. What it may do is not limited: the script
        is ours. By a model's name Codex decides how it offers its tools, so it is one that Codex knows."""
        done = self.run(
            *under, codex(), "exec", "--json", "--dangerously-bypass-approvals-and-sandbox",
            "--dangerously-bypass-hook-trust", "-m", name,
            "-c", f'model_providers.stand-in.base_url="{model.url}/v1"', *arguments, prompt,
            environ=environ,
        )  # fmt: skip
        events = [json.loads(line) for line in done.stdout.splitlines()]
        assert events[-1]["type"] == "turn.completed", events
        return events

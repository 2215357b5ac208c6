"""The names tools are listed under: dotted as written, underscored for clients that refuse dots.

MCP allows dots. But clients that hand their tool list to a model provider unchanged fail on
them, since the providers accept only letters, digits, underscore and hyphen, and one such
name makes the client refuse the whole list. Calls are understood under both names, always.
"""

from __future__ import annotations

from tallystick.server import ToolNames
from tallystick.server.dispatch import OfferedTool

FRAMEWORKS = {
    "mcp": "the Python SDK's own name, which agent frameworks leave as it is: LangChain, openai-agents, pydantic-ai,"
    " fastmcp, smolagents and llama-index pass names on to whatever provider is selected",
}
"""A client's whole name, lower-cased, and who is behind it. As part of a name it would be found in too many."""

CLIENTS_WITHOUT_DOTS = {
    "ai-sdk-mcp-client": "the AI SDK passes names on to the provider that is selected",
    "langchain": "the adapters for JavaScript do the same",
    "pydantic-ai": "the same, where it is told to name itself",
    "claude-ai": "Claude Desktop checks names against its provider's pattern and shows no tools",
    "claude desktop": "the same program under its plain name",
    "cursor": "passes names on to the provider that is selected",
    "codex": "passes names on to the provider",
    "openai": "the provider's own clients: function names have no dots",
    "chatgpt": "the same",
    "copilot": "Copilot's command line and IntelliJ plugin pass names on to the provider",
    "visual studio code": "renames them itself, with a warning for each",
    "vscode": "the same",
    "windsurf": "passes names on to the provider",
}
"""Part of a client's name, lower-cased, and what it does with dots. In doubt listed: underscores harm none."""


def listed_name(entry: OfferedTool, tool_names: ToolNames, client: str | None) -> str:
    if tool_names == "dotted":
        return entry.dotted
    if tool_names == "underscore" or _refuses_dots(client):
        return entry.underscored
    return entry.dotted


def _refuses_dots(client: str | None) -> bool:
    name = (client or "").strip().lower()
    return name in FRAMEWORKS or any(part in name for part in CLIENTS_WITHOUT_DOTS)

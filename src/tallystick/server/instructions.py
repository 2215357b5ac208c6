"""The server's instructions: what a client's agent reads first, and with some clients all it reads before it asks."""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.server import ToolNames
from tallystick.server.dispatch import Tools
from tallystick.toolsets import Toolset


def write_instructions(tools: Tools, tool_names: ToolNames = "auto") -> str:
    lines = [
        "A memory that outlives the conversation, shared by agents; every write is a commit with author, time and"
        " reason.",
        *(line for toolset in tools.toolsets_on if toolset.is_listed for line in _guide(tools, toolset)),
        "Ids and names have 1 to 256 characters (types, relations and fields 128, links 1,000), no control characters;"
        " lists of them 100 at most (links and dependencies 1,000). No text is blank. Times are ISO 8601.",
        "Errors name the field or rule; fix the call and retry. Long answers are paged.",
    ]
    off = tools.toolsets_off
    if off:
        described = "; ".join(f"{toolset.name} ({toolset.summary})" for toolset in off)
        lines.append(f"Off until the server is started with --toolsets NAMES or all: {described}.")
    return _named("\n".join(lines), tools, tool_names)


def _guide(tools: Tools, toolset: Toolset) -> Iterator[str]:
    on = {entry.dotted for entry in tools if entry.toolset.name == toolset.name}
    lines = [line for name, line in toolset.guide.items() if name in on]
    yield from (f"- {line}" for line in lines or [f"{toolset.name}: {toolset.summary}"])


def _named(text: str, tools: Tools, tool_names: ToolNames) -> str:
    """Without dots unless they are insisted on: most clients show the model their tools with underscores."""
    if tool_names != "dotted":
        for entry in tools:
            text = text.replace(entry.dotted, entry.underscored)
    return text

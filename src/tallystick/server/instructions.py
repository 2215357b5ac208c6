"""The server's instructions: what a client's agent reads first, in about ten lines."""

from __future__ import annotations

from tallystick.server import ToolNames
from tallystick.server.dispatch import Tools
from tallystick.server.names import listed_name
from tallystick.toolsets import Toolset


def write_instructions(tools: Tools, tool_names: ToolNames = "auto") -> str:
    lines = [
        "A memory that outlives the conversation: every write is a commit in an append-only, hash-chained log,"
        " with its author and reason.",
        "Toolsets that are on:",
        *(
            f"- {toolset.name}: {toolset.summary} ({_names(tools, toolset, tool_names)})"
            for toolset in tools.toolsets_on
        ),
        "Look before you write: what you need may already be known.",
        "Ids and names have 1 to 256 characters (types, relations and fields 128, links 1,000), none of them control"
        " characters; lists of them 100 at most (links and dependencies 1,000). Times are ISO 8601.",
        "Errors name the field or the rule; mend the call and try again. Long answers are paged.",
    ]
    off = tools.toolsets_off
    if off:
        described = "; ".join(f"{toolset.name} ({toolset.summary})" for toolset in off)
        lines.append(f"Toolsets that are off, turned on by starting the server with --toolsets: {described}.")
    return "\n".join(lines)


def _names(tools: Tools, toolset: Toolset, tool_names: ToolNames) -> str:
    return ", ".join(listed_name(entry, tool_names, None) for entry in tools if entry.toolset.name == toolset.name)

"""What a client is told before it calls anything: who we are, and which tools there are. Plain JSON, for every door."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tallystick.server import Offer
from tallystick.server.dispatch import OfferedTool
from tallystick.server.instructions import write_instructions
from tallystick.server.names import listed_name
from tallystick.server.prompts import Prompts
from tallystick.server.resources import Resources
from tallystick.server.schemas import output_schema, shown_schema

TITLE = "Tallystick"
SEARCH_HINT, ALWAYS_LOAD = "anthropic/searchHint", "anthropic/alwaysLoad"
FRESH_MILLISECONDS = 300_000
"""How long a client may keep the list of tools."""


class Listing:
    """Made when it is first asked for: building the schemas takes longer than most answers."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer

    @cached_property
    def prompts(self) -> Prompts:
        return Prompts(self._offer)

    @cached_property
    def resources(self) -> Resources:
        return Resources(self._offer)

    def capabilities(self, *, pushes: bool) -> dict[str, Any]:
        """`pushes`: whether there is a stream on which changes can be told. The lists of tools and prompts never change
        while we serve."""
        told: dict[str, Any] = {"tools": {"listChanged": False}}
        if self.prompts:
            told["prompts"] = {"listChanged": False}
        if self.resources:
            told["resources"] = {"subscribe": pushes, "listChanged": pushes}
        if self.prompts or self.resources:
            told["completions"] = {}
        return told

    @cached_property
    def instructions(self) -> str:
        return self._offer.instructions or write_instructions(self._offer.tools, self._offer.tool_names)

    @cached_property
    def _tools(self) -> list[tuple[OfferedTool, dict[str, Any]]]:
        return [(entry, _described(entry)) for entry in self._offer.tools]

    def tools(self, client: str | None) -> list[dict[str, Any]]:
        """For a client of that name: some refuse dots."""
        names = self._offer.tool_names
        return [{**described, "name": listed_name(entry, names, client)} for entry, described in self._tools]

    def find_input_schema(self, name: str) -> dict[str, Any] | None:
        entry = self._offer.tools.find(name)
        return next((described["inputSchema"] for known, described in self._tools if known is entry), None)


def _described(entry: OfferedTool) -> dict[str, Any]:
    tool = entry.tool
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": shown_schema(tool),
        "outputSchema": output_schema(entry),
        "annotations": _annotations(entry),
        **_for_lookup(entry),
    }


def _for_lookup(entry: OfferedTool) -> dict[str, Any]:
    """For clients that defer tools: the words a tool is found by, and which one is never deferred."""
    toolset, name = entry.toolset, entry.tool.name
    meta: dict[str, Any] = {}
    if name in toolset.keywords:
        meta[SEARCH_HINT] = toolset.keywords[name]
    if name == toolset.always_loaded:
        meta[ALWAYS_LOAD] = True
    return {"_meta": meta} if meta else {}


def _annotations(entry: OfferedTool) -> dict[str, bool]:
    """Only what differs from what a client assumes of a tool that says nothing."""
    tool = entry.tool
    if tool.reads_only:
        return {"readOnlyHint": True, "openWorldHint": False}
    told = {"openWorldHint": False}
    if not tool.destructive:
        told["destructiveHint"] = False
    if tool.idempotent:
        told["idempotentHint"] = True
    return told

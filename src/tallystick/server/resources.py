"""Resources: what a tool would answer, at an address that a client can show, attach and watch.

A resource is read by calling its tool, so the policy, the quotas and the audit log see no difference, and where the
tool is off there is no such resource. What may not be read is not there.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal
from urllib.parse import quote, unquote

import msgspec
import orjson

from tallystick.errors import Denied, InvalidArgument, NotFound
from tallystick.policy import Principal
from tallystick.server import Client, Offer
from tallystick.server.dispatch import Broken, Done, OfferedTool, Outcome, call
from tallystick.toolsets import browse

SCHEME = "tallystick://"
URI_CHARACTERS_MAX = 16_384
"""A path of 4,096 characters, each of them encoded in the longest way that is usual."""
MIME_TYPE = "application/json"

Kind = Literal["entity", "work", "knowledge"]
Scope = Mapping[str, Any] | None
JsonObject = dict[str, Any]


class ResourceTemplate(msgspec.Struct, frozen=True):
    kind: Kind
    tool: str
    """That it is read by."""
    argument: str
    choice: browse.Choice
    title: str
    description: str

    @property
    def uri_template(self) -> str:
        return f"{SCHEME}{self.kind}/{{{self.argument}}}"


TEMPLATES: dict[Kind, ResourceTemplate] = {
    each.kind: each
    for each in (
        ResourceTemplate(
            "entity", "memory.read", "id", "id", "Entity", "A node or edge with its provenance and the edges around it."
        ),
        ResourceTemplate(
            "work", "graph_query", "project", "project", "Work of a project", "Its work nodes, what can be done first."
        ),
        ResourceTemplate(
            "knowledge", "query_graph", "path", "path", "Knowledge of a path", "What is known of a file or directory."
        ),
    )
}


class Address(msgspec.Struct, frozen=True):
    """What a URI names; two spellings of a name are one address."""

    kind: Kind
    name: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.kind}/{quote(self.name, safe='/' if self.kind == 'knowledge' else '')}"


class NoSuchResource(Exception):
    """Nothing is there, or nothing that the caller may read: nobody is told which."""


class ResourceBroken(Exception):
    """A bug of ours, logged already."""

    def __init__(self, error_id: str) -> None:
        super().__init__(error_id)
        self.error_id = error_id


_ADDRESS = re.compile(r"tallystick://(entity|work|knowledge)/([^?#\s\x00-\x1f\x7f]+)")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def parse_uri(uri: str) -> Address | None:
    """None where it names nothing that could be here."""
    found = _ADDRESS.fullmatch(uri) if len(uri) <= URI_CHARACTERS_MAX else None
    if found is None or _ESCAPE.search(found[2]):
        return None
    try:
        name = unquote(found[2], errors="strict")
    except UnicodeDecodeError:
        return None
    kind: Kind = found[1]  # type: ignore[assignment]  # the expression names the kinds
    return Address(kind, name)


Caller = Callable[[OfferedTool], Principal]
"""Who calls a tool, and counted; may raise."""


class Resources:
    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        found = ((each, offer.tools.find(each.tool)) for each in TEMPLATES.values())
        self._tools: dict[Kind, OfferedTool] = {each.kind: tool for each, tool in found if tool is not None}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def caller(self, scope: Scope, client: Client) -> Caller:
        return lambda entry: self._offer.caller(scope, entry.tool, client)

    def offers(self, kind: Kind) -> bool:
        return kind in self._tools

    def first_tool(self) -> OfferedTool:
        return next(iter(self._tools.values()))

    @property
    def templates(self) -> list[JsonObject]:
        return [
            {
                "name": each.kind,
                "title": each.title,
                "uriTemplate": each.uri_template,
                "description": each.description,
                "mimeType": MIME_TYPE,
            }
            for each in TEMPLATES.values()
            if each.kind in self._tools
        ]

    async def page(self, caller: Caller, cursor: str | None = None) -> JsonObject:
        """{resources, nextCursor?}. Raises InvalidArgument, and what the store raises but Denied."""
        try:
            found = await browse.browse(
                self._offer.store,
                caller(self.first_tool()),
                cursor,
                projects="work" in self._tools,
                entities="entity" in self._tools,
            )
        except Denied:
            return {"resources": []}
        page: JsonObject = {"resources": [_listed(each) for each in found.items]}
        return page if found.cursor is None else {**page, "nextCursor": found.cursor}

    async def read(self, caller: Caller, uri: str) -> JsonObject:
        """{contents}. Raises NoSuchResource, ResourceBroken, and what the tool raises for other reasons."""
        address = parse_uri(uri)
        if address is None or address.kind not in self._tools:
            raise NoSuchResource
        text = await _READERS[address.kind](self, self._tools[address.kind], caller, address.name)
        return {"contents": [{"uri": uri, "mimeType": MIME_TYPE, "text": text}]}

    async def complete(self, caller: Caller, kind: browse.Choice, begun: str) -> browse.Choices:
        """Nothing where nothing may be searched."""
        try:
            return await browse.choices(self._offer.store, caller(self.first_tool()), kind, begun)
        except Denied:
            return browse.Choices([])

    async def _call(self, entry: OfferedTool, caller: Caller, arguments: JsonObject) -> Done:
        outcome: Outcome = await call(entry, arguments, self._offer.store, lambda: caller(entry))
        if isinstance(outcome, Done):
            return outcome
        if isinstance(outcome, Broken):
            raise ResourceBroken(outcome.error_id)
        if isinstance(outcome.error, NotFound | Denied | InvalidArgument):
            # What is no id at all is the id of nothing.
            raise NoSuchResource
        raise outcome.error

    async def _entity(self, entry: OfferedTool, caller: Caller, name: str) -> str:
        done = await self._call(entry, caller, {"entity_id": name, "include_edges": True})
        if done.data.get("entity") is None:
            raise NoSuchResource
        return done.text

    async def _work(self, entry: OfferedTool, caller: Caller, name: str) -> str:
        return (await self._call(entry, caller, {"project": name, "limit": browse.PAGE})).text

    async def _knowledge(self, entry: OfferedTool, caller: Caller, name: str) -> str:
        try:
            projects = await browse.projects_of_path(self._offer.store, caller(entry), name)
        except Denied:
            raise NoSuchResource from None
        asked = {"operation": "context", "paths": [name], "includeChangelog": False}
        known = []
        for each in projects:
            done = await self._call(entry, caller, {**asked, "projectId": each})
            known.append({"projectId": each, **_without_envelope(done.data)})
        return orjson.dumps({"path": name, "projects": known}).decode()


_READERS: dict[Kind, Callable[[Resources, OfferedTool, Caller, str], Awaitable[str]]] = {
    "entity": Resources._entity,
    "work": Resources._work,
    "knowledge": Resources._knowledge,
}


def _without_envelope(said: JsonObject) -> JsonObject:
    data: JsonObject = said.get("data", said)
    return {name: value for name, value in data.items() if name != "unmatchedPaths"}


def _listed(item: browse.Listed) -> JsonObject:
    if item.kind == "project":
        address, words = Address("work", item.name), "work of a project"
    else:
        address, words = Address("entity", item.name), item.type
    return {"uri": address.uri, "name": item.name, "description": words, "mimeType": MIME_TYPE}

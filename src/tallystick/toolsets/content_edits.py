"""The rewriting of a content: what an edited text becomes in the log, whoever edited it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tallystick.commits import FILE_EDIT, Draft, Operation, Verb
from tallystick.errors import InvalidArgument, NotFound
from tallystick.policy import Action, Principal
from tallystick.projections.content import Contents, Kind
from tallystick.state import Edge, Node
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets.drafts import Outdated, repeated, write_prepared

if TYPE_CHECKING:
    from tallystick.engine.store import Store


async def rewrite(
    store: Store,
    principal: Principal,
    contents: Contents,
    kind: Kind,
    entity_id: str,
    change: Callable[[str], str],
    *,
    tool: str,
    reason: str | None = None,
) -> int | None:
    """Commit `change` of the content's text. Returns the position, or None when it changes nothing."""

    async def attempt() -> int | None:
        seen: Node | Edge = await store.read(
            principal,
            Action.WRITE,
            lambda state, read_filter: _get(state, read_filter, kind, entity_id),
            resource=entity_id,
        )
        content = _text_content(seen)
        old = (await asyncio.to_thread(contents.read, content)).decode()
        new = change(old)
        if new == old:
            return None
        # The file of a hand edit would differ from a masked content.
        new = await asyncio.to_thread(store.screened, new, "content", may_mask=tool != FILE_EDIT)
        prepared = await asyncio.to_thread(
            contents.prepare, kind, entity_id, content["format"], content["encoding"], new.encode()
        )

        def propose(state: State, read_filter: ReadFilter) -> Draft:
            now = _get(state, read_filter, kind, entity_id)
            if now.content != content:
                raise Outdated
            return Draft((_written(state, now, prepared.content),), actor=principal.actor, tool=tool, reason=reason)

        receipt = await write_prepared(store, principal, Action.WRITE, propose, prepared, resource=entity_id)
        return receipt.commits[-1].lamport

    return await repeated(attempt)


def _get(state: State, read_filter: ReadFilter, kind: Kind, entity_id: str) -> Node | Edge:
    """What may not be read is not there, nor is a connection to it."""
    found = state.node(entity_id) if kind == "nodes" else state.edge_by_id(entity_id)
    shows = read_filter.allows(entity_id) if kind == "nodes" else read_filter.allows_edge(entity_id)
    if found is None or not shows:
        code = "NODE_NOT_FOUND" if kind == "nodes" else "CONNECTION_NOT_FOUND"
        raise NotFound(f"there is no {'node' if kind == 'nodes' else 'connection'} '{entity_id}'", code=code)
    return found


def _text_content(entity: Node | Edge) -> dict[str, Any]:
    content = entity.content
    if content is None or content.get("encoding") != "utf-8":
        raise InvalidArgument(f"the content of '{entity.id}' is not text", code="NOT_TEXT", hint="use update_node")
    return content


def _written(state: State, entity: Node | Edge, content: dict[str, Any]) -> Operation:
    if isinstance(entity, Node):
        payload = {"id": entity.id, "type": entity.type, "attrs": entity.attrs, "content": content}
        return Operation(Verb.UPSERT_NODE, payload)
    name = state.edge_name(entity.id) or {}
    return Operation(Verb.UPSERT_EDGE, {**name, "attrs": entity.attrs, "content": content})

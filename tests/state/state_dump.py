"""Everything a state holds, in a form in which two of them can be compared."""

from __future__ import annotations

from typing import Any

from pyroaring import BitMap

from tallystick.state.attributes import Postings
from tallystick.state.columns import Columns
from tallystick.state.graph import linked
from tallystick.state.state import State


def dump_state(state: State) -> dict[str, Any]:
    columns = state._columns
    return {
        "head": state.head,
        "nodes": [_node(columns, handle) for handle in range(len(columns.nodes.ids))],
        "handles": dict(columns.nodes.handles),
        "types": {name: list(members) for name, members in columns.nodes.by_type.items()},
        "edges": [_edge(columns, handle) for handle in range(len(columns.edges.source))],
        "by_chosen": dict(columns.edges.by_chosen),
        "attributes": {key: _postings(each) for key, each in columns.attributes.keys.items()},
        "history": [list(each) for each in (columns.history.offset, columns.history.prev, columns.history.entity)],
        "redactions": list(columns.history.redactions),
        "lamports": (list(columns.history.lamports.starts), list(columns.history.lamports.seqs)),
        "prefixes": list(columns.history.commit_ids.prefixes),
        "slots": [sorted(filter(None, block)) for block in columns.history.commit_ids.blocks],
        "nonces": (dict(columns.nonces.seqs), dict(columns.nonces.replaced)),
    }


def _node(columns: Columns, handle: int) -> dict[str, Any]:
    nodes, edges = columns.nodes, columns.edges
    return {
        "id": nodes.ids[handle],
        "type": nodes.type_of(handle),
        "owner": nodes.owner_of(handle),
        "columns": [nodes.created[handle], nodes.last[handle], nodes.doc[handle], nodes.commits[handle]],
        "alive": handle in nodes.alive,
        "actors": {nodes.actors.texts[actor]: seq for actor, seq in nodes.extra_actors.get(handle, {}).items()},
        "out": list(linked(edges.out, handle)),
        "into": list(linked(edges.into, handle)),
    }


def _edge(columns: Columns, handle: int) -> dict[str, Any]:
    edges = columns.edges
    return {
        "ends": (edges.source[handle], edges.rel_of(handle), edges.target[handle]),
        "last": edges.last[handle],
        "alive": bool(edges.alive[handle]),
        "owner": columns.nodes.actors.texts[edges.owner[handle]],
        "chosen": edges.chosen.get(handle),
    }


def _postings(postings: Postings) -> dict[str, Any]:
    return {
        # A bare handle must become a bitmap and back exactly at the second member, hence the type.
        "values": {
            (type(value).__name__ in ("str", "tuple"), value): (type(found) is BitMap, list(postings.members(value)))
            for value, found in postings.values.items()
        },
        "present": list(postings.present),
        "long": list(postings.long),
    }

"""A log in a dictionary, with a state that follows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from tallystick.clock import to_text
from tallystick.commits import Commit, Draft, Operation, Verb, chain
from tallystick.state.state import State
from tallystick.system.turns import finished

T = TypeVar("T")

START = 1_700_000_000_000
HOUR = 3_600_000


class LoggedState:
    def __init__(self) -> None:
        self.lines: dict[int, bytes] = {}
        self.commits: list[Commit] = []
        self.offsets: list[int] = []
        self.now = START
        self.state = State(self.line)
        self._end = 0

    def line(self, offset: int, *, checked: bool = True) -> bytes:
        return self.lines[offset]

    # -- writing

    def write(
        self,
        verb: Verb,
        payload: dict[str, Any],
        *,
        actor: str = "ann",
        nonce: str | None = None,
        redacts: dict[str, str] | None = None,
        skip: int = 0,
    ) -> Commit:
        """`skip` lamports are left out before it."""
        operation = Operation(verb, payload, nonce=nonce, redacts=redacts)
        last = self.commits[-1] if self.commits else None
        commit = chain.seal(
            Draft((operation,), actor=actor, tool="test"),
            operation,
            tenant="default",
            lamport=(last.lamport if last else 0) + 1 + skip,
            timestamp=to_text(self.now),
            prev=last.commit_id if last else None,
            prev_record_hash=last.record_hash if last else "",
        )
        self.add(commit)
        return commit

    def add(self, commit: Commit) -> None:
        line = chain.encode(commit)
        offset = self._end
        self.lines[offset] = line[:-1]
        self.state.apply(commit, offset, offset + len(line))
        self.commits.append(commit)
        self.offsets.append(offset)
        self._end += len(line)

    def undo(self, count: int) -> None:
        self.state.undo(count)
        for _ in range(count):
            self.commits.pop()
            self._end = self.offsets.pop()
            del self.lines[self._end]

    def node(self, node_id: str, type: str = "note", *, actor: str = "ann", **attrs: Any) -> Commit:
        return self.write(Verb.UPSERT_NODE, {"id": node_id, "type": type, "attrs": attrs}, actor=actor)

    def edge(
        self, source: str, rel: str, target: str, *, actor: str = "ann", id: str | None = None, **attrs: Any
    ) -> Commit:
        payload = {"from": source, "rel": rel, "to": target, "attrs": attrs} | ({} if id is None else {"id": id})
        return self.write(Verb.UPSERT_EDGE, payload, actor=actor)

    def delete_edge(self, source: str, rel: str, target: str, *, actor: str = "ann", id: str | None = None) -> Commit:
        payload = {"from": source, "rel": rel, "to": target} | ({} if id is None else {"id": id})
        return self.write(Verb.DELETE_EDGE, payload, actor=actor)

    def delete(self, node_id: str, *, actor: str = "ann") -> Commit:
        for name in list(self.state.edge_names(node_id)):
            self.write(Verb.DELETE_EDGE, name, actor=actor)
        return self.write(Verb.DELETE_NODE, {"node_id": node_id}, actor=actor)

    def redact(self, node_id: str, fields: Iterable[str] | None = None, *, actor: str = "ann") -> dict[int, bytes]:
        """Returns the masks, which are not in the log until `scrub`."""
        named = None if fields is None else tuple(fields)
        redacts = finished(self.state.redaction(node_id, named))
        payload = {"node_id": node_id, "reason": "asked"} | ({} if named is None else {"redacted_fields": list(named)})
        masks = self.masks(redacts, named)
        self.write(Verb.REDACT_NODE, payload, actor=actor, redacts=redacts or None)
        return masks

    def redact_edge(self, edge_id: str, fields: Iterable[str] | None = None, *, actor: str = "ann") -> dict[int, bytes]:
        """Likewise."""
        named = None if fields is None else tuple(fields)
        redacts = finished(self.state.edge_redaction(edge_id, named))
        payload: dict[str, Any] = {**(self.state.edge_name(edge_id) or {}), "reason": "asked"}
        payload |= {} if named is None else {"redacted_fields": list(named)}
        masks = self.masks(redacts, named)
        self.write(Verb.REDACT_EDGE, payload, actor=actor, redacts=redacts or None)
        return masks

    def masks(self, redacts: dict[str, str], fields: tuple[str, ...] | None) -> dict[int, bytes]:
        """Offset → what a redaction leaves of the payloads that it names."""
        places = {str(commit.lamport): offset for commit, offset in zip(self.commits, self.offsets, strict=True)}
        offsets = [places[lamport] for lamport in redacts]
        return {offset: chain.redacted_payload(self.lines[offset], fields) or b"" for offset in offsets}

    def scrub(self, masks: dict[int, bytes]) -> None:
        for offset, payload in masks.items():
            self.lines[offset] = chain.mask(self.lines[offset], payload)

    # -- reading

    def follow(self, state: State, until: int | None = None) -> State:
        """Bring another state to the end, or to a sequence number, from the lines as they are now."""
        for offset in self.offsets[state.count : until]:
            line = self.lines[offset]
            state.apply(chain.decode(line), offset, offset + len(line) + 1)
        return state

    def replayed(self) -> State:
        return self.follow(State(self.line))

"""Whether a fact still holds: four reserved attributes, in every vocabulary, and the rule that follows from them (X24).

    stale_after   a time: past it the fact does not count as known any more
    verified      {by, at}: who saw that it holds, and when; filled by the server where a write says true
    supersedes    ids of the entities that this one takes the place of
    cites         files that it rests on: paths, or {path, hash, at, …} once they are pinned

Nothing here reads a clock or a file: the time is passed in, and so is what became of the files. What has none of
these attributes costs a lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.clock import from_text, to_text
from tallystick.commits import Draft, Operation, Verb
from tallystick.commits.payloads import name_of_edge
from tallystick.commits.reserved_attributes import CITES, NAMES, STALE_AFTER, SUPERSEDES, VERIFIED
from tallystick.errors import InvalidArgument
from tallystick.state import asof
from tallystick.state.attributes import TEXT_MAX
from tallystick.state.columns import Columns
from tallystick.state.knowledge import ATOM

if TYPE_CHECKING:
    from tallystick.state.read_filter import ReadFilter
    from tallystick.state.state import State

IDS_MAX = 100
ID_CHARACTERS_MAX = 256
FILES_MAX = 50
PATH_CHARACTERS_MAX = 512
CHAIN_MAX = 32
"""How far a successor's successors are followed."""
_VERSIONS_MAX = 50

Attrs = Mapping[str, Any]


class Citation(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A file, and what it was when the fact was last known to hold."""

    path: str
    hash: str
    """Its git blob."""
    at: str
    commit: str | None = None
    """HEAD at that time: a repository that does not know it is another one."""
    work_tree: str | None = None
    """Where there was no commit yet: a hash of the place, by which to know it again."""


Citations = tuple[Citation, ...]


class PinnedFiles(msgspec.Struct, frozen=True):
    """The patterns of an atom, and the files that matched them when it was last known to hold."""

    patterns: tuple[str, ...]
    hash: str
    at: str
    commit: str | None = None
    files: str | None = None
    work_tree: str | None = None


Watched = Citations | PinnedFiles
"""What a fact rests on, to be compared with the files as they are."""
PIN = "pin"
_PIN_KEY = f"{PIN}.hash"


class Dated(msgspec.Struct, frozen=True):
    """What is known of one entity, to be judged by the clock, by its files and by who asks."""

    attrs: Attrs
    successors: tuple[str, ...] = ()
    """Nodes that say that they supersede it, newest first."""


class Stale(msgspec.Struct, frozen=True, omit_defaults=True):
    why: str
    since: str
    superseded_by: str | None = None
    files: tuple[str, ...] = ()
    successor_redacted: bool = False


PAST = "past its time"
SUPERSEDED = "superseded"
CHANGED = "cited files changed"
PIN_CHANGED = "pinned files changed"


# -- the rule


def judge(
    attrs: Attrs,
    now: int,
    superseded: tuple[str, str] | None,
    changed: tuple[str, ...],
    pinned: tuple[str, tuple[str, ...]] | None = None,
) -> Stale | None:
    """`superseded`: by which entity, and since when; `changed`: those of the cited files that are not as they were;
    `pinned`: when files were pinned that are not as they were, and which."""
    reasons: list[tuple[str, str]] = []
    if superseded is not None:
        reasons.append((SUPERSEDED, superseded[1]))
    past = _past(attrs, now)
    if past is not None:
        reasons.append((PAST, past))
    if changed:
        reasons.append((CHANGED, min(each.at for each in citations(attrs) if each.path in changed)))
    if pinned is not None:
        reasons.append((PIN_CHANGED, pinned[0]))
        changed = tuple(dict.fromkeys((*changed, *pinned[1])))[:FILES_MAX]
    if not reasons:
        return None
    why = ", ".join(reason for reason, _ in reasons)
    return Stale(why, min(since for _, since in reasons), superseded[0] if superseded else None, changed)


def _past(attrs: Attrs, now: int) -> str | None:
    """Since when. A verification later than that holds until another time is set."""
    after = milliseconds(attrs.get(STALE_AFTER))
    if after is None or now <= after:
        return None
    verified = verified_at(attrs)
    return None if verified is not None and verified > after else to_text(max(after, 0))


def verified_at(attrs: Attrs) -> int | None:
    said = attrs.get(VERIFIED)
    return milliseconds(said.get("at")) if isinstance(said, dict) else None


def citations(attrs: Attrs) -> Citations:
    """Those that are pinned, whatever else stands there."""
    found = attrs.get(CITES)
    pinned = (_citation(each) for each in found) if isinstance(found, list) else ()
    return tuple(each for each in pinned if each is not None)


def pinned_files(attrs: Attrs) -> PinnedFiles | None:
    """None where nothing is pinned, or a redaction left something else."""
    pin, paths = attrs.get(PIN), attrs.get("paths")
    patterns = [each for each in paths if isinstance(each, str)] if isinstance(paths, list) else []
    try:
        found = msgspec.convert({**pin, "patterns": patterns}, PinnedFiles) if isinstance(pin, dict) else None
    except msgspec.ValidationError:
        return None
    return found if found is not None and milliseconds(found.at) is not None else None


def _citation(value: Any) -> Citation | None:
    try:
        found = msgspec.convert(value, Citation)
    except msgspec.ValidationError:
        return None
    return found if milliseconds(found.at) is not None else None


def milliseconds(value: Any) -> int | None:
    """None for what is no time: others than the tools may have written it, or a redaction left it."""
    try:
        return from_text(value) if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


# -- what the index knows


def find(columns: Columns, entity_id: str, at: int | None) -> Dated | None:
    """None for what says nothing of it and is superseded by nothing. A node's document is read only if it does.

    Of the past: what was so after `at` commits, except for successors that have been deleted or think otherwise by
    now.
    """
    attrs = _attrs(columns, entity_id, at)
    successors = _successors(columns, entity_id, at)
    return Dated(attrs, successors) if attrs or successors else None


def _attrs(columns: Columns, node_id: str, at: int | None) -> Attrs:
    handle = columns.nodes.handles.get(node_id)
    if handle is None:
        return {}
    if at is None and not _has(columns, STALE_AFTER, handle) and not _has(columns, CITES, handle):
        return {}
    found = asof.version(columns, handle, asof.clamped(columns, at))
    return {} if found is None else found.attrs


def _has(columns: Columns, key: str, handle: int) -> bool:
    postings = columns.attributes.keys.get(key)
    return postings is not None and handle in postings.present


def find_pinned(columns: Columns, node_id: str) -> PinnedFiles | None:
    """At the head. A document is read only if it has a pin."""
    handle = columns.nodes.handles.get(node_id)
    if handle is None or not _has(columns, _PIN_KEY, handle):
        return None
    found = asof.version(columns, handle, columns.history.count)
    return pinned_files(found.attrs) if found is not None and found.type == ATOM else None


def has_pins(columns: Columns) -> bool:
    return _PIN_KEY in columns.attributes.keys


def pinned(columns: Columns) -> list[str]:
    """All nodes that may have a pin."""
    return [columns.nodes.ids[handle] for handle in columns.attributes.find(_PIN_KEY).present]


def _successors(columns: Columns, entity_id: str, at: int | None) -> tuple[str, ...]:
    postings = columns.attributes.keys.get(SUPERSEDES)
    is_long = len(entity_id) > TEXT_MAX
    if postings is None or (not is_long and entity_id not in postings.values):
        return ()
    handles = [*(postings.long if is_long else postings.members(entity_id))]
    if is_long or at is not None:
        then = asof.clamped(columns, at)
        handles = [handle for handle in handles if _names(columns, handle, entity_id, then)]
    handles.sort(key=columns.nodes.last.__getitem__, reverse=True)
    found = [columns.nodes.ids[handle] for handle in handles]
    return tuple(each for each in found if each != entity_id)


def _names(columns: Columns, handle: int, entity_id: str, at: int) -> bool:
    found = asof.version(columns, handle, at)
    return found is not None and entity_id in superseded_by_it(found.attrs)


def superseded_by_it(attrs: Attrs) -> list[str]:
    said = attrs.get(SUPERSEDES)
    return [each for each in (said if isinstance(said, list) else [said]) if isinstance(each, str)]


def superseded_since(columns: Columns, entity_id: str, successor: str, at: int | None) -> str:
    """When the successor first said so, without a break. Reads its versions, a few at most."""
    handle = columns.nodes.handles[successor]
    seq = columns.history.newest(columns.nodes.last[handle], asof.clamped(columns, at))
    for _ in range(_VERSIONS_MAX):
        before = columns.history.prev[seq]
        if not before or not _names(columns, handle, entity_id, before):
            break
        seq = before
    return columns.timestamp(seq)


def candidates(columns: Columns, now: int) -> list[str]:
    """All that may be stale at this time, once each: past their time, superseded, or citing files."""
    attributes, ids = columns.attributes, columns.nodes.ids
    found: dict[str, None] = {}
    for value in attributes.find(SUPERSEDES).values:
        if isinstance(value, str):
            found[value] = None
    for handle in attributes.find(SUPERSEDES).long:
        version = asof.version(columns, handle, columns.history.count)
        found.update(dict.fromkeys(superseded_by_it(version.attrs) if version is not None else ()))
    times = attributes.find(STALE_AFTER)
    for value in times.values:
        after = milliseconds(value)
        if after is not None and after < now:
            found.update((ids[handle], None) for handle in times.members(value))
    found.update((ids[handle], None) for handle in attributes.find(CITES).present)
    return list(found)


# -- what may be written

Pins = dict[str, Citation | None]
"""Path → its file as it is now; None where git knows no such file. What git did not tell anything of is not in it."""


class FilesPending(Exception):
    """Files are to be pinned, which takes a while: path → the pin that it has, perhaps another repository's."""

    def __init__(self, wanted: dict[str, Citation | None]) -> None:
        super().__init__("files are to be pinned")
        self.wanted = wanted


def settle(
    state: State, draft: Draft, now: Callable[[], str], read_filter: ReadFilter, pins: Pins | None = None
) -> Draft:
    """The draft with what the server fills in. Raises InvalidArgument for what is none of these attributes' values.

    What stays as it is was judged when it was written, or before these names were reserved. `pins` are those of files
    that were looked up; with None for them FilesPending is raised where there are some to be looked up.
    """
    draft = _keep_successions(state, draft)
    if not any(map(_is_concerned, draft.operations)):
        return draft
    changes = [
        _change(state, each, draft.actor, now, read_filter) if _is_concerned(each) else None
        for each in draft.operations
    ]
    wanted = {path: pin for each in changes if each is not None for path, pin in each.wanted()}
    if pins is None and wanted:
        raise FilesPending(wanted)
    settled = (
        operation if change is None else change.made_to(operation, pins or {}, now)
        for operation, change in zip(draft.operations, changes, strict=True)
    )
    return msgspec.structs.replace(draft, operations=tuple(settled))


def _keep_successions(state: State, draft: Draft) -> Draft:
    """What a redacted node supersedes stays superseded: the redaction names it, since the node no longer does."""
    if all(each.verb is not Verb.REDACT_NODE for each in draft.operations):
        return draft
    return msgspec.structs.replace(
        draft, operations=tuple(_naming_superseded(state, each) for each in draft.operations)
    )


def _naming_superseded(state: State, operation: Operation) -> Operation:
    if operation.verb is not Verb.REDACT_NODE:
        return operation
    node_id = operation.payload["node_id"]
    node = state.node(node_id) if state.owner(node_id) is not None else None
    superseded = superseded_by_it(node.attrs) if node is not None else []
    # A value that no entity has as its id may be any text, and would outlive its redaction here.
    superseded = [each for each in superseded if state.knows(each)]
    payload = {**operation.payload, SUPERSEDES: superseded}
    return msgspec.structs.replace(operation, payload=payload) if superseded else operation


class _Change(msgspec.Struct, frozen=True):
    """What an operation sets of the reserved attributes, filled in and checked."""

    values: dict[str, Any]
    cites: list[Any] | None
    """None where nothing of them changes."""
    anew: bool
    """Whether files that are pinned are to be pinned again."""

    def wanted(self) -> Iterator[tuple[str, Citation | None]]:
        for each in self.cites or ():
            if isinstance(each, str):
                yield each.removeprefix("./"), None
            elif self.anew and (pinned := _citation(each)) is not None:
                yield pinned.path, pinned

    def made_to(self, operation: Operation, pins: Pins, now: Callable[[], str]) -> Operation:
        values = dict(self.values)
        if self.cites is not None:
            values[CITES] = [self._cited(each, pins, now) for each in self.cites]
        attrs = {**operation.payload["attrs"], **values}
        return msgspec.structs.replace(operation, payload={**operation.payload, "attrs": attrs})

    def _cited(self, cited: Any, pins: Pins, now: Callable[[], str]) -> Any:
        if not isinstance(cited, str) and not self.anew:
            return cited
        path = cited.removeprefix("./") if isinstance(cited, str) else cited["path"]
        if path not in pins:
            return path if isinstance(cited, str) else cited
        found = pins[path]
        return path if found is None else msgspec.to_builtins(msgspec.structs.replace(found, at=now()))


def _is_concerned(operation: Operation) -> bool:
    """Only upserts have attributes."""
    attrs = operation.payload.get("attrs")
    return isinstance(attrs, dict) and not NAMES.isdisjoint(attrs)


def _change(
    state: State, operation: Operation, actor: str, now: Callable[[], str], read_filter: ReadFilter
) -> _Change | None:
    attrs: dict[str, Any] = operation.payload["attrs"]
    is_node = operation.verb is Verb.UPSERT_NODE
    entity_id = operation.payload["id"] if is_node else name_of_edge(operation.payload)
    before = _before(state, entity_id, read_filter) if is_node else _edge_before(state, entity_id, read_filter)
    changed = {name: attrs[name] for name in NAMES & attrs.keys() if not _is_same(before, name, attrs[name])}
    for name, value in changed.items():
        problem = None if value is None else _CHECKS[name](value)
        if problem is not None:
            raise _refusal(name, problem, value).at(operation.place)
    if entity_id in superseded_by_it(changed):
        raise _refusal(SUPERSEDES, "must not name the entity itself", entity_id).at(operation.place)
    is_verified = changed.get(VERIFIED) is True
    if is_verified:
        changed[VERIFIED] = {"by": actor, "at": now()}
    # Whoever verifies a fact saw what it rests on, so that its files count as they are now.
    cites = attrs.get(CITES) if is_verified else changed.get(CITES)
    settles = isinstance(cites, list) and _check_cites(cites) is None
    return _Change(changed, cites if settles else None, is_verified) if changed else None


def _before(state: State, node_id: str, read_filter: ReadFilter) -> Attrs:
    found = state.node(node_id) if state.owner(node_id) is not None and read_filter.allows(node_id) else None
    return found.attrs if found is not None else {}


def _edge_before(state: State, edge_id: str, read_filter: ReadFilter) -> Attrs:
    found = state.edge_by_id(edge_id) if read_filter.allows_edge(edge_id) else None
    return found.attrs if found is not None else {}


def _is_same(before: Attrs, name: str, value: Any) -> bool:
    return name in before and type(before[name]) is type(value) and bool(before[name] == value)


def _refusal(name: str, problem: str, value: Any) -> InvalidArgument:
    return InvalidArgument(
        f"the reserved attribute '{name}' {problem}",
        hint="stale_after, verified, supersedes and cites say whether a fact still holds:"
        " for anything else use another name",
        details={"attribute": name, "given": str(value)[:100]},
    )


def _check_time(value: Any) -> str | None:
    return None if milliseconds(value) is not None else "must be an ISO 8601 time"


def _check_verified(value: Any) -> str | None:
    return None if value is True else "must be true: who verified it, and when, is filled in"


def _check_supersedes(value: Any) -> str | None:
    is_list = isinstance(value, list) and len(value) <= IDS_MAX
    if is_list and all(isinstance(each, str) and 0 < len(each) <= ID_CHARACTERS_MAX for each in value):
        return None
    return f"must be an array of at most {IDS_MAX} entity ids"


def _check_cites(value: Any) -> str | None:
    if not isinstance(value, list) or len(value) > FILES_MAX:
        return f"must be an array of at most {FILES_MAX} files"
    for each in value:
        path = each.removeprefix("./") if isinstance(each, str) else _path_of(each)
        if path is None:
            return "must hold paths, or {path, hash, at, …} as they were"
        if not is_path(path):
            return "must hold paths relative to the repository: no '..', no leading '/', no control characters"
    return None


def _path_of(value: Any) -> str | None:
    found = _citation(value)
    return None if found is None else found.path


def is_path(text: str) -> bool:
    """Of a file in the repository, as git spells it."""
    if not 0 < len(text) <= PATH_CHARACTERS_MAX or not text.isprintable() or "\\" in text or text[1:2] == ":":
        return False
    return not any(part in ("", ".", "..") for part in text.split("/"))


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    STALE_AFTER: _check_time,
    VERIFIED: _check_verified,
    SUPERSEDES: _check_supersedes,
    CITES: _check_cites,
}

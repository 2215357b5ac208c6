"""What is worth saying at an event: a function of the event, the graph and what was said before.

The same for whoever asks: the command that a client starts, and the tool that a server offers to hooks. First the notes
are gathered, each with the entities that it tells of; whoever has to ask a policy leaves out what may not be read; then
what fits is put together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from tallystick.extensions.hooks.cited_files import WorkTree
from tallystick.extensions.hooks.clients import Event, Kind
from tallystick.extensions.hooks.graph import Graph, Note, WorkItem
from tallystick.extensions.hooks.quoting import framed, plain, quoted
from tallystick.extensions.hooks.session_file import Item

BUDGETS: dict[Kind, int] = {
    "session-start": 400,
    "prompt": 300,
    "before-tool": 300,
    "stop": 120,
    "before-compact": 300,
}
"""Tokens."""
NOTES_MAX = 5
"""Of a file, and of a prompt."""
_TEXT_CHARACTERS = 320
_LINE_CHARACTERS = 110
_LINE_CHARACTERS_MAX = 2_000
_CLAIMS_MAX = 3
_NEXT_MAX = 2
_CHANGES_MAX = 5
_STALE_MAX = 3
_BOOKKEEPING = ("trust/", "ontology/", "tasks/", "knowledge/changelog", "work/")
"""What follows from other changes, or is told of as work."""


class Window(msgspec.Struct, frozen=True):
    """Which claims are of the client window that the event comes from, and which sessions live."""

    is_own: Callable[[str], bool]
    is_alive: Callable[[str], bool | None]
    """None if that is not known."""

    def holds(self, item: WorkItem) -> bool:
        """For a claim without a session the agent's name decides, and `Graph.claimed` compared it."""
        return item.session is None or self.is_own(item.session)

    def may_continue(self, item: WorkItem) -> bool:
        """Whether an earlier session of the same agent made the claim and is not known to work on it."""
        return item.session is not None and not self.is_own(item.session) and self.is_alive(item.session) is not True


Search = Callable[[str], list[tuple[str, float]]]
"""Of a prompt: ids of nodes, each with how well it fits, only those that fit well."""


class Line(msgspec.Struct, frozen=True):
    """A line of what is said; without items it only leads in the next."""

    text: str
    items: tuple[Item, ...] = ()


class Asked(msgspec.Struct, frozen=True):
    """Everything that what is said depends on."""

    event: Event
    graph: Graph
    agents: tuple[str, ...]
    window: Window
    search: Search
    work_tree: WorkTree | None
    """Where the files are, if they are at hand."""
    paths: tuple[str, ...] = ()
    """Files that a tool is about to touch, as patterns see them."""
    said: Mapping[str, int] = msgspec.field(default_factory=dict)
    """What was said in this session and is to be said once, by id, with the position at which it was said."""
    since: int = 0
    """Up to where the agent knows of changes."""
    begun: int = 0
    """Where the session began."""
    now: float = msgspec.field(default_factory=time.time)
    claim_ttl_seconds: float = 3_600.0


def gather(asked: Asked) -> list[Line]:
    return list(_GATHER[asked.event.kind](asked))


def put_together(kind: Kind, lines: Sequence[Line]) -> tuple[str, tuple[Item, ...]]:
    """What fits into the budget, and the items that are told of in it."""
    # Each line once more as a whole: parts of it come from rows and records that anything may have written.
    lines = [Line(plain(line.text, _LINE_CHARACTERS_MAX), line.items) for line in lines]
    if kind == "stop":
        text = " ".join(line.text for line in lines)
        return text, tuple(item for line in lines for item in line.items)
    text = framed([line.text for line in lines], BUDGETS[kind])
    kept = set(text.split("\n"))
    return text, tuple(item for line in lines if line.text in kept for item in line.items)


# -- session start


def _session_start(asked: Asked) -> Iterator[Line]:
    graph = asked.graph
    claimed = graph.claimed(asked.agents, asked.window.holds)[:_CLAIMS_MAX]
    unfinished = graph.claimed(asked.agents, asked.window.may_continue)[: _CLAIMS_MAX - len(claimed)]
    project = next(
        (found for each in (*claimed, *unfinished) if each.project and (found := graph.project(each.project))), None
    )
    if project is None and not graph.narrows:
        project = graph.current_project()
    if project is not None:
        goal = f": {quoted(project.goal, 200)}" if project.goal else ""
        yield Line(f"Goal of project {quoted(project.name, 60)}{goal}", (Item(project.id, "goal"),))
    for each in claimed:
        yield _work("You claimed" if _holds(asked, each) else "Your claim lapsed on", each, "claimed")
    for each in unfinished:
        yield _work("Unfinished from an earlier session of yours (graph_next continues it)", each, "unfinished")
    if project is not None and not graph.narrows:
        shown = {each.id for each in unfinished}
        free = (each for each in graph.ready(project.id) if each.id not in shown and not _holds(asked, each))
        trusted = (each for each in free if graph.note(each.id) is not None)
        for each in islice(trusted, _NEXT_MAX):
            yield _work("Next", each, "next")
    yield from _stale_at_hand(asked, claimed)
    yield from _changed(asked)


def _work(lead: str, item: WorkItem, why: str) -> Line:
    return Line(f"{lead}: {plain(item.id, 60)} {quoted(item.summary, _LINE_CHARACTERS)}", (Item(item.id, why),))


def _holds(asked: Asked, item: WorkItem) -> bool:
    """Whether anybody's claim on it counts."""
    if item.claimed_by is None or item.claimed_at is None:
        return False
    claimed = _seconds(item.claimed_at)
    return claimed is not None and asked.now - claimed < asked.claim_ttl_seconds


def _seconds(text: str) -> float | None:
    from tallystick.clock import from_text

    try:
        return from_text(text) / 1000
    except (ValueError, OverflowError):
        return None


def _changed(asked: Asked) -> Iterator[Line]:
    if not asked.since:
        return
    changes = asked.graph.changes(asked.since, asked.agents)
    notes = ((each, note) for each in changes if (note := asked.graph.note(each.entity)) is not None)
    shown = [(each, note) for each, note in notes if not note.type.startswith(_BOOKKEEPING)]
    if shown:
        yield Line("Changed by others since you last looked:")
    for each, note in shown[:_CHANGES_MAX]:
        yield Line(f"- {headline(note, _LINE_CHARACTERS)} by {plain(each.actor, 40)}", (Item(each.entity, "changed"),))
    if len(shown) > _CHANGES_MAX:
        yield Line(f"- and {len(shown) - _CHANGES_MAX} more")


def _stale_at_hand(asked: Asked, claimed: Sequence[WorkItem]) -> Iterator[Line]:
    """Of the files that the claimed work links to, and what this session was told of already."""
    work_tree = asked.work_tree
    linked = [link for each in claimed for link in each.links][:20]
    paths = [path for link in linked if work_tree and (path := work_tree.relative(link, work_tree.root))]
    ids = dict.fromkeys([*asked.said, *(each for path in paths for each in asked.graph.about_file(path)[:NOTES_MAX])])
    found = 0
    for node_id in islice(ids, 50):
        note = asked.graph.note(node_id)
        why = stale(asked, note) if note is not None else None
        if note is not None and why is not None and found < _STALE_MAX:
            found += 1
            text = f"No longer certain ({why}): {headline(note, _LINE_CHARACTERS)}"
            yield Line(text, (Item(node_id, "stale"),))


# -- a file, a prompt


def _before_tool(asked: Asked) -> Iterator[Line]:
    known = 0
    told: set[str] = set()
    for path in asked.paths:
        others = (each for each in asked.graph.about_file(path) if each not in told)
        notes = [note for each in others if (note := _new(asked, each)) is not None][: NOTES_MAX - known]
        if notes:
            known += len(notes)
            told |= {note.id for note in notes}
            yield Line(f"Known of {plain(path, 120)}:")
            yield from (_full(asked, note, Item(note.id, "about a file")) for note in notes)


def _prompt(asked: Asked) -> Iterator[Line]:
    if not asked.event.prompt.strip() or asked.graph.narrows:
        return
    found = 0
    for node_id, score in asked.search(asked.event.prompt):
        note = _new(asked, node_id) if found < NOTES_MAX else None
        if note is not None and not note.type.startswith(_BOOKKEEPING):
            if not found:
                yield Line("Perhaps of use for this prompt:")
            found += 1
            yield _full(asked, note, Item(node_id, "fits the prompt", round(score, 2)))


def _new(asked: Asked, node_id: str) -> Note | None:
    """Return the note unless this session was told it as it is; superseding it is a change too."""
    note = asked.graph.note(node_id)
    if note is None or (told := asked.said.get(node_id)) is None or told < note.position:
        return note
    successor = asked.graph.successor(node_id)
    later = asked.graph.note(successor.id) if successor is not None else None
    return note if later is not None and told < later.position else None


def _full(asked: Asked, note: Note, item: Item) -> Line:
    why = stale(asked, note)
    doubt = f" [no longer certain: {why}]" if why else ""
    text = f"- {headline(note, 60)}{_body(note)} (by {plain(note.author, 40)}, {note.at[:10]}){doubt}"
    return Line(text, (item,))


_TITLES = ("name", "title", "summary")
_BODIES = ("knowledge", "text", "description", "content", "body", "note", "fact", "decision", "summary")
_HIDDEN = frozenset({"pin", "paths", "cites", "stale_after", "verified", "supersedes", "version", "relatedAtoms"}) | {
    "projectId", "moleculeId", "createdByTaskId", "lastTaskId", "createdAt", "updatedAt"
}  # fmt: skip


def headline(note: Note, characters: int) -> str:
    title = _first(note.attrs, _TITLES)[1]
    lead = plain(note.id, 60)
    return f"{lead} {quoted(title, characters)}" if title and title != note.id else lead


def _body(note: Note) -> str:
    name, _ = _first(note.attrs, _TITLES)
    said = _first(note.attrs, [each for each in _BODIES if each != name])[1] or note.text or _values(note.attrs, name)
    return f": {quoted(said, _TEXT_CHARACTERS)}" if said else ""


def _first(attrs: dict[str, Any], names: Sequence[str]) -> tuple[str, str]:
    """The first of these attributes that is a text."""
    texts = ((name, attrs.get(name)) for name in names)
    return next(((name, text) for name, text in texts if isinstance(text, str) and text), ("", ""))


def _values(attrs: dict[str, Any], title: str) -> str:
    shown = [(name, value) for name, value in attrs.items() if name not in _HIDDEN and name != title]
    return "; ".join(f"{name}: {value}" for name, value in shown[:8] if isinstance(value, str | int | float))


# -- whether it still holds


def stale(asked: Asked, note: Note) -> str | None:
    """Why it may not; None where nothing speaks against it."""
    successor = asked.graph.successor(note.id)
    if successor is None and note.attrs.keys().isdisjoint({"cites", "stale_after", "pin"}):
        return None
    from tallystick.state.staleness import judge

    superseded = (successor.id, note.at) if successor is not None else None
    found = judge(note.attrs, int(asked.now * 1000), superseded, tuple(_changed_files(asked.work_tree, note)))
    if found is None:
        return "its files changed" if _pin_is_broken(asked.work_tree, note) else None
    if successor is None:
        return found.why
    return f"superseded by {plain(successor.id, 60)}{', which was redacted' if successor.redacted else ''}"


def _changed_files(work_tree: WorkTree | None, note: Note) -> Iterator[str]:
    from tallystick.state.staleness import citations

    if work_tree is None:
        return
    for each in citations(note.attrs):
        if work_tree.has_changed(each.path, each.hash, each.commit):
            yield each.path


_PINNED_LOOKED_AT = 20


def _pin_is_broken(work_tree: WorkTree | None, note: Note) -> bool:
    pin = note.attrs.get("pin")
    if work_tree is None or not isinstance(pin, dict) or not isinstance(pin.get("files"), str):
        return False
    commit = pin.get("commit")
    lines = (line.partition(" ") for line in pin["files"].split("\n")[:_PINNED_LOOKED_AT] if line)
    return any(
        work_tree.has_changed(path, blob, commit if isinstance(commit, str) else None) for blob, _, path in lines
    )


# -- the end


def _stop(asked: Asked) -> Iterator[Line]:
    if asked.event.is_repeated:
        return
    held = asked.graph.claimed(asked.agents, asked.window.holds)
    open_claims = [each for each in held if _holds(asked, each) and each.id not in asked.said]
    if open_claims:
        names = ", ".join(plain(each.id, 40) for each in open_claims[:_CLAIMS_MAX])
        text = (
            f"Memory: you claimed {names} and have not resolved it: resolve it with evidence (graph_update),"
            " or release it (graph_next with release)."
        )
        yield Line(text, tuple(Item(each.id, "claimed") for each in open_claims))
    unpinned = [each for each in asked.graph.unpinned(asked.agents, asked.begun) if each not in asked.said]
    if unpinned and asked.work_tree is not None:
        names = ", ".join(plain(each, 40) for each in unpinned[:_CLAIMS_MAX])
        yield Line(
            f"Knowledge you wrote is not pinned to its files: {names}.",
            tuple(Item(each, "not pinned") for each in unpinned),
        )


def _before_compact(asked: Asked) -> Iterator[Line]:
    claimed = asked.graph.claimed(asked.agents, asked.window.holds)[:_CLAIMS_MAX]
    told = asked.said.keys() - {each.id for each in claimed}
    if not claimed and not told:
        return
    yield Line("Keep in the summary, word for word, these ids of the shared memory:")
    for each in claimed:
        yield _work("- work you claimed", each, "claimed")
    notes = (note for each in sorted(told) if (note := asked.graph.note(each)) is not None)
    for note in islice(notes, 8):
        yield Line(f"- told before: {headline(note, 60)}", (Item(note.id, "said before"),))


_GATHER: dict[Kind, Callable[[Asked], Iterator[Line]]] = {
    "session-start": _session_start,
    "prompt": _prompt,
    "before-tool": _before_tool,
    "stop": _stop,
    "before-compact": _before_compact,
}

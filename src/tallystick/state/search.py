"""The search: nodes by id, type, attributes and time, at the head or at any commit before it.

Results are in the order in which the nodes were first made. Everything the index is sure of
costs no document; documents are read for the page, and where the index says "perhaps".
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from pyroaring import BitMap

from tallystick.state import Breathing, Node, Page, Query
from tallystick.state.asof import AsOf, Version, node_at, version, window
from tallystick.state.columns import Columns
from tallystick.state.conditions import Candidates, Criterion, Matching, NodeAttributes, ready

_DOCUMENTS = 256
_ROWS = 20_000
_NO_ACTOR = -1
_DOCUMENT_EFFORT = 100
"""Judging by a document takes about as long as looking up this many values in an index."""


class _Question(msgspec.Struct, frozen=True):
    columns: Columns
    query: Query
    criteria: list[Criterion]
    moment: AsOf
    window: range | None
    author: int | None
    """The number of the author that is wanted; _NO_ACTOR for one who wrote nothing."""

    def is_by_author(self, handle: int) -> bool:
        return self.author is None or self.columns.nodes.was_written_by(handle, self.author, self.moment.at)

    def holds(self, handle: int) -> bool:
        """As it was at the moment; by the document where the columns do not tell."""
        # A node that others made and took back while we were looking has no row any more.
        if handle >= len(self.columns.nodes.ids):
            return False
        if not self.is_by_author(handle):
            return False
        nodes = self.columns.nodes
        if self.window is None and not self.criteria and self.moment.at == self.columns.history.count:
            return handle in nodes.alive and self._is_of_type(nodes.type_of(handle))
        found = version(self.columns, handle, self.moment.at)
        return found is not None and self._accepts(found)

    def _is_of_type(self, name: str) -> bool:
        return self.query.type in (None, name) and (self.query.types is None or name in self.query.types)

    def _accepts(self, found: Version) -> bool:
        if not self._is_of_type(found.type):
            return False
        if self.window is not None and found.seq not in self.window:
            return False
        if not self.criteria:
            return True
        facts = NodeAttributes(found.attrs)
        return all(criterion.holds(facts) for criterion in self.criteria)


class Located(msgspec.Struct, frozen=True):
    """A page of a search by the ids of its nodes."""

    ids: list[str]
    total: int
    indexed: bool


def locate(columns: Columns, query: Query) -> Breathing[Located]:
    """As `search`, without the documents of the page."""
    hits, indexed = yield from _hits(_question(columns, query))
    ids = columns.nodes.ids
    page = _page(hits, query)
    columns.expect_documents(page)
    return Located([ids[handle] for handle in page if handle < len(ids)], len(hits), indexed)


def search(columns: Columns, query: Query) -> Breathing[Page]:
    question = _question(columns, query)
    hits, indexed = yield from _hits(question)
    nodes = yield from _read(question, _page(hits, query))
    return Page(nodes, len(hits), indexed)


def _hits(question: _Question) -> Breathing[tuple[BitMap, bool]]:
    columns, query = question.columns, question.query
    if query.ids is not None:
        handles = {columns.nodes.handles.get(node_id) for node_id in query.ids}
        return (yield from _judge(question, sorted(handle for handle in handles if handle is not None))), True
    return (yield from _sift(question))


def _page(hits: BitMap, query: Query) -> BitMap:
    return hits[max(query.offset, 0) : max(query.offset, 0) + max(query.limit, 0)]


def find_ids(columns: Columns, query: Query, most: int) -> Breathing[list[str] | None]:
    """The ids of all that is found, without its documents; None for more than `most`."""
    hits, _ = yield from _hits(_question(columns, query))
    ids = columns.nodes.ids
    return [ids[handle] for handle in hits if handle < len(ids)] if len(hits) <= most else None


def _question(columns: Columns, query: Query) -> _Question:
    criteria = [ready(condition) for condition in query.conditions]
    moment = AsOf(columns, query.at)
    timed = query.since is not None or query.until is not None
    chosen = window(columns, query.since, query.until, moment.at) if timed else None
    author = None if query.author is None else columns.nodes.actors.find(query.author)
    return _Question(
        columns, query, criteria, moment, chosen, _NO_ACTOR if author is None and query.author is not None else author
    )


def _sift(question: _Question) -> Breathing[tuple[BitMap, bool]]:
    """The index for what is as it was, the past for what was touched since."""
    moment = question.moment
    yield from moment.begin()
    in_the_past = bool(moment.touched)
    found = yield from moment.during(_ask_index(question))
    touched = moment.touched.copy()
    hits = found.sure - touched
    if perhaps := found.perhaps - touched:
        hits |= yield from _judge(question, (yield from _having_literals(question, perhaps)))
    if touched:
        hits |= yield from _judge(question, touched)
    return hits, not in_the_past and not found.perhaps


def _ask_index(question: _Question) -> Breathing[Candidates]:
    """Cheapest first; what is left over is all that the dearer ones have to look at."""
    columns = question.columns
    left = yield from _by_author(question, _start(question))
    doubtful = BitMap()
    for criterion in sorted(question.criteria, key=lambda each: each.effort(columns.attributes)):
        if not left:
            break
        if len(left) * _DOCUMENT_EFFORT < criterion.effort(columns.attributes):
            doubtful |= left
        else:
            found = yield from criterion.find(columns.attributes, columns.nodes.alive)
            left &= found.sure | found.perhaps
            doubtful |= found.perhaps
    if question.window is not None:
        left = yield from _in_window(question, left, question.window)
    return Candidates(left - doubtful, left & doubtful)


def _start(question: _Question) -> BitMap:
    nodes, wanted, any_of = question.columns.nodes, question.query.type, question.query.types
    found = (nodes.alive if wanted is None else nodes.by_type.get(wanted, BitMap())).copy()
    if any_of is None:
        return found
    return found & BitMap.union(BitMap(), *(nodes.by_type[name] for name in any_of if name in nodes.by_type))


def _by_author(question: _Question, handles: BitMap) -> Breathing[BitMap]:
    if question.author is None:
        return handles
    found = BitMap()
    rows = handles.to_array()
    for part in _parts(range(len(rows)), _ROWS):
        limit = len(question.columns.nodes.ids)  # A row may go while others run: it was taken back.
        found.update([row for row in rows[part.start : part.stop] if row < limit and question.is_by_author(row)])
        yield
    return found


def _in_window(question: _Question, handles: BitMap, window: range) -> Breathing[BitMap]:
    """By whichever is shorter: the nodes in question, or the commits in the window."""
    history, last = question.columns.history, question.columns.nodes.last
    found = BitMap()
    if len(window) < len(handles):
        for part in _parts(window, _ROWS):
            found.update([row >> 1 for row in history.entity[part.start : part.stop] if not row & 1])
            yield
        handles = handles & found
        found = BitMap()
    start, stop = window.start, window.stop
    rows = handles.to_array()
    for part in _parts(range(len(rows)), _ROWS):
        limit = len(last)  # Rows may go while others run, and what came after the moment is judged apart.
        found.update([row for row in rows[part.start : part.stop] if row < limit and start <= last[row] < stop])
        yield
    return found


def _parts(whole: range, size: int) -> Iterable[range]:
    return (range(start, min(start + size, whole.stop)) for start in range(whole.start, whole.stop, size))


def _having_literals(question: _Question, handles: BitMap) -> Breathing[BitMap]:
    """Those in whose lines everything stands that no expression matches without: to look is far less than to judge."""
    columns, nodes = question.columns, question.columns.nodes
    literals = [each.literal for each in question.criteria if isinstance(each, Matching) and each.literal]
    if not literals:
        return handles
    found = BitMap()
    for handle in handles:
        # Of one that was taken back meanwhile, or redacted, the newest line does not tell.
        is_told = handle < len(nodes.ids) and nodes.doc[handle] == nodes.last[handle]
        if not is_told or columns.may_say(nodes.last[handle], literals):
            found.add(handle)
        yield
    return found


def _judge(question: _Question, handles: Iterable[int]) -> Breathing[BitMap]:
    # A document may be large, and what is asked of it may take long.
    breath = 1 if question.criteria else _DOCUMENTS
    found = BitMap()
    for number, handle in enumerate(handles, 1):
        if question.holds(handle):
            found.add(handle)
        if number % breath == 0:
            yield
    return found


def _read(question: _Question, handles: BitMap) -> Breathing[list[Node]]:
    nodes: list[Node] = []
    question.columns.expect_documents(handles)
    for handle in handles:
        node = node_at(question.columns, handle, question.moment.at)
        if node is not None:
            nodes.append(node)
        yield
    return nodes

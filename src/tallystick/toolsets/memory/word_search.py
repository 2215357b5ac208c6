"""The search by words: which entities they find, best first, now or at a moment of the past.

Now, the text index ranks and the state says what of it there is and may be read. In the past, what was not touched
since is found by the index all the same; what was is read as it was then, as far as a second goes. Without an
index everything is read.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from tallystick.clock import from_text
from tallystick.projections.text import Hit
from tallystick.projections.text.entity_words import NAME_KEYS, NAME_WORDS_MAX
from tallystick.projections.text.ranking import EDGE, LENGTH_WEIGHT, NAMED, SATURATION, asked_words
from tallystick.projections.text.words import stem, words_in, words_of
from tallystick.state import Breathing, Edge, EntityKind, Node, Query
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets.memory import hit_text
from tallystick.toolsets.memory.scope import Within
from tallystick.toolsets.truncation import size_of

Entity = Node | Edge

PAST_SECONDS = 0.8
"""A look that takes a whole second is given up."""
_BATCH = 64
_HELD_BYTES_MAX = 16 << 20
"""Of the attributes of the hits on a page."""
_BLOCK = 64
_PIECE_CHARACTERS = 16 << 10
_BLANK = re.compile(r"\s")


class Ranked(msgspec.Struct, frozen=True):
    entity: Entity
    score: float

    @property
    def shown_score(self) -> float:
        return float(f"{self.score:.3g}")


class Matches(msgspec.Struct, frozen=True):
    """Those on the page, best first."""

    hits: list[Ranked]
    has_more: bool
    truncated: bool = False
    is_short: bool = False
    """More of what the index finds may belong on the page, or behind it."""
    is_cut: bool = False
    """The page is shorter than was asked for, since its entities are large."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for, and among what."""

    query: str
    filter: Query
    """Without its page."""
    within: Within
    nodes_only: bool = False
    offset: int
    limit: int

    @property
    def end(self) -> int:
        return self.offset + self.limit

    @property
    def first_block(self) -> int:
        """The start of the block that the page begins in."""
        return self.offset // _BLOCK * _BLOCK

    def stems(self) -> frozenset[str]:
        return frozenset(map(stem, asked_words(self.query)))


# -- now


def page_of(state: State, read_filter: ReadFilter, wanted: Wanted, hits: Sequence[Hit]) -> Breathing[Matches]:
    """Of what the index found, the page of what is there, passes the filter and may be read."""
    found: list[Ranked] = []
    passed, held = 0, 0
    for start in range(0, len(hits), _BATCH):
        batch = hits[start : start + _BATCH]
        entities = yield from _readable(state, read_filter, wanted, [(hit.kind, hit.id) for hit in batch])
        for hit in batch:
            entity = entities.pop((hit.kind, hit.id), None)
            if entity is None or (passed := passed + 1) <= wanted.first_block:
                continue
            found.append(Ranked(entity, hit.score))
            if passed > wanted.offset:
                held += size_of(entity.attrs)
            if held > _HELD_BYTES_MAX and passed < wanted.end and passed % _BLOCK == 0:
                shorter = msgspec.structs.replace(wanted, limit=passed - wanted.offset)
                return msgspec.structs.replace(_page(state, read_filter, shorter, found), has_more=True, is_cut=True)
            yield
        if passed > wanted.end and passed >= _whole_blocks(wanted.end):
            break
    return _page(state, read_filter, wanted, found)


def _page(
    state: State, read_filter: ReadFilter, wanted: Wanted, found: list[Ranked], *, truncated: bool = False
) -> Matches:
    """Of those that are shown with the same score, the stale ones come last.

    `found` begins with the block that the page begins in.
    Within blocks, so that no more need be known than the blocks that the page is in; and these whole, so that each
    page takes what the others leave.
    """
    first, end = wanted.first_block, _whole_blocks(wanted.end)
    has_more = first + len(found) > wanted.end
    if not state.dates_any and not (read_filter.judges_pins and state.has_pins):
        return Matches(found[wanted.offset - first : wanted.end - first], has_more, truncated, is_short=not has_more)
    ordered: list[Ranked] = []
    is_settled = True
    for start in range(0, min(end - first, len(found)), _BLOCK):
        block = [(each, _is_stale(read_filter, each.entity)) for each in found[start : start + _BLOCK]]
        last = block[-1][0].shown_score
        # What follows is as good at most: it comes before none but the stale ones of the last score.
        is_settled = len(block) == _BLOCK or not any(stale and each.shown_score == last for each, stale in block)
        block.sort(key=lambda pair: (-pair[0].shown_score, pair[1]))
        ordered += [each for each, _ in block]
    page = ordered[wanted.offset - first : wanted.end - first]
    return Matches(page, has_more, truncated, is_short=not (has_more and is_settled))


def _whole_blocks(end: int) -> int:
    return -(-end // _BLOCK) * _BLOCK


def _is_stale(read_filter: ReadFilter, entity: Entity) -> bool:
    return read_filter.stale(entity.id, entity.attrs if isinstance(entity, Edge) else None) is not None


# -- then


def past(state: State, read_filter: ReadFilter, wanted: Wanted, hits: Sequence[Hit] | None) -> Breathing[Matches]:
    """As of `wanted.filter.at`, all scored alike: what the index found and nobody touched since, and of the rest as
    much as there is time for, what was written last first. Without hits, everything."""
    deadline = time.monotonic() + PAST_SECONDS
    at = wanted.filter.at or 0
    touched = yield from state.touched_since(0 if hits is None else at)
    changed = frozenset(touched)
    candidates = [*((hit.kind, hit.id) for hit in hits or () if (hit.kind, hit.id) not in changed), *touched]
    if wanted.within.ids is not None:
        among = frozenset(wanted.within.ids)
        candidates = [each for each in candidates if each[1] in among]
    scorer, late = _Scorer(wanted), False
    for start in range(0, len(candidates), _BATCH):
        entities = yield from _readable(state, read_filter, wanted, candidates[start : start + _BATCH])
        for entity in entities.values():
            yield from scorer.add(entity)
        late = time.monotonic() > deadline and start + _BATCH < len(candidates)
        if late:
            break
        yield
    return _page(state, read_filter, wanted, scorer.best()[wanted.first_block :], truncated=late)


class _Scorer:
    """Scores what it was given as the index would, if that were all there is."""

    def __init__(self, wanted: Wanted) -> None:
        self._stems = wanted.stems()
        self._query = " ".join(words_of(wanted.query.casefold()))
        self._seen = self._words = 0
        self._matching: list[tuple[Entity, Counter[str], int]] = []

    def add(self, entity: Entity) -> Breathing[None]:
        """A long text is taken apart in pieces, at blanks."""
        found: Counter[str] = Counter()
        count = 0
        for text in _split(hit_text.searched_text(entity)):
            words = [stem(word) for word in words_in(text)]
            found.update(word for word in words if word in self._stems)
            count += len(words)
            yield
        self._seen += 1
        self._words += count
        if found:
            self._matching.append((entity, found, count))

    def best(self) -> list[Ranked]:
        holders = Counter(word for _, found, _ in self._matching for word in found)
        rarity = {word: math.log(1 + (self._seen - count + 0.5) / (count + 0.5)) for word, count in holders.items()}
        mean = self._words / max(self._seen, 1)
        ranked = [
            Ranked(entity, self._score(entity, found, long / mean, rarity)) for entity, found, long in self._matching
        ]
        ranked.sort(key=lambda each: -each.score)
        return ranked

    def _score(self, entity: Entity, found: Counter[str], long: float, rarity: dict[str, float]) -> float:
        norm = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * long)
        score = sum(rarity[word] * count * (SATURATION + 1) / (count + norm) for word, count in found.items())
        if any(self._says(entity.attrs.get(key)) for key in NAME_KEYS):
            score *= NAMED
        return score * (EDGE if isinstance(entity, Edge) else 1)

    def _says(self, name: object) -> bool:
        words = words_of(name.casefold()) if isinstance(name, str) and len(name) < 100 else []
        return 0 < len(words) <= NAME_WORDS_MAX and f" {' '.join(words)} " in f" {self._query} "


def _split(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > _PIECE_CHARACTERS:
        blank = _BLANK.search(text, start + _PIECE_CHARACTERS)
        end = len(text) if blank is None else blank.end()
        yield text[start:end]
        start = end
    yield text[start:]


# -- what there is of it


Named = tuple[EntityKind, str]


def _readable(
    state: State, read_filter: ReadFilter, wanted: Wanted, named: Sequence[Named]
) -> Breathing[dict[Named, Entity]]:
    """Those that are there, pass the filter and may be read, in their order."""
    ids = tuple(each for kind, each in named if kind == "node" and read_filter.allows(each))
    types = wanted.within.types
    page = yield from state.search(msgspec.structs.replace(wanted.filter, ids=ids, types=types, limit=len(ids)))
    nodes = {node.id: node for node in page.nodes}
    found: dict[Named, Entity] = {}
    for kind, each in named:
        entity = nodes.get(each) if kind == "node" else _edge(state, read_filter, wanted, each)
        if entity is not None:
            found[kind, each] = entity
    return found


def _edge(state: State, read_filter: ReadFilter, wanted: Wanted, edge_id: str) -> Edge | None:
    """An edge is of the type that is its relation, and of the vocabulary that its source is of."""
    query, types = wanted.filter, wanted.within.types
    edge = state.edge_by_id(edge_id, query.at)
    if (
        wanted.nodes_only
        or edge is None
        or query.type not in (None, edge.rel)
        or not read_filter.allows_all((edge.source, edge.target))
    ):
        return None
    owner = state.last_owner(edge.source)
    if types is not None and (owner is None or owner[0] not in types):
        return None
    return edge if _is_within(edge.timestamp, query) and _is_by(state, edge, query) else None


def _is_by(state: State, edge: Edge, query: Query) -> bool:
    origin = None if query.author is None else state.edge_provenance(edge.id, query.at)
    return query.author is None or (origin is not None and query.author in (origin.created_by, origin.updated_by))


def _is_within(timestamp: str, query: Query) -> bool:
    written = from_text(timestamp)
    return (query.since is None or written >= query.since) and (query.until is None or written < query.until)

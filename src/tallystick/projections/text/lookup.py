"""What one thread looks with: a connection to the database, and the mapped files."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from heapq import nlargest
from typing import Literal

import msgspec
from pyroaring import BitMap

from tallystick.commits.mask import REDACTED
from tallystick.projections.database import Connection, Reader
from tallystick.projections.text.entity_words import NAMED, OF_TYPE
from tallystick.projections.text.postings import RecentWords, decode_levels, words_beginning
from tallystick.projections.text.projection import DATABASE, At, TextProjection, read_place
from tallystick.projections.text.ranking import Collected, Filter, Ranking, asked_words
from tallystick.projections.text.slots import SlotTable
from tallystick.projections.text.snippets import snippet
from tallystick.projections.text.substring_index import Mapped, folded
from tallystick.projections.text.words import fragment, stem, words_in

Kind = Literal["node", "edge"]

SIMILAR = 0.8
"""The share of their words that two texts have in common, to say nearly the same."""
_SIMILAR_WORDS = 6
_SIMILAR_MAX = 50
_EXACT_IDS_MAX = 64
_HOLDING_TERMS_MAX = 1_000
"""With more words that hold what is looked for, looking through everything costs no more."""
_NEAR_PREFIX = 2
_AROUND = ".,;:?!\"'()[]{}<>`"


class Hit(msgspec.Struct, frozen=True):
    id: str
    kind: Kind
    score: float


class TextHits(msgspec.Struct, frozen=True):
    hits: list[Hit]
    """Best first."""
    is_partial: bool
    """There may be more than were scored or are returned."""
    skipped: list[str]
    """Nodes whose content could not be read, so that nobody knows whether it matches."""
    position: int | None = None
    """Up to which commit it was looked, where that was not the last."""


class ContentHit(msgspec.Struct, frozen=True):
    node_id: str
    score: float | None = None
    """Ranked only: higher is better."""
    snippet: str | None = None
    """Ranked only: some of the text around the words that were found."""


class ContentMatches(msgspec.Struct, frozen=True):
    hits: list[ContentHit]
    """By substring: as the nodes were made. Ranked: those with all words, then those with any, best first."""
    skipped: list[str]


class Lookup:
    def __init__(self, projection: TextProjection, slots: SlotTable, recent: RecentWords) -> None:
        """`slots` and `recent` are what all threads of the process know."""
        self._projection = projection
        self._slots, self._recent = slots, recent
        self._reader = Reader(projection.directory / DATABASE)
        self._mapped: Mapped | None = None
        self._position: int | None = None

    def begin(self) -> None:
        """Before each question."""
        self._position = None

    def position(self) -> int:
        """The position of the index as it is stored. Raises Damaged, StorageRefused."""
        with self._reader.snapshot() as db:
            return read_place(db).position

    def was_behind(self, position: int) -> bool:
        """Whether the index that the question looked at, if at any, did not go up to there."""
        return self._position is not None and self._position < position

    def _place(self, db: Connection) -> At:
        at = read_place(db)
        self._position = at.position
        return at

    def search(
        self,
        words: str,
        types: Collection[str] | None,
        kinds: Collection[Kind],
        among: Collection[str] | None,
        limit: int,
        *,
        spreads: bool,
    ) -> TextHits:
        with self._reader.snapshot() as db:
            is_edge = None if len(set(kinds)) != 1 else "edge" in kinds
            slots = None if among is None else BitMap(_slots_of(db, among))
            filter = Filter(types, is_edge, slots)
            at = self._place(db)
            found = self._ranking(db, at).scores(words, filter, spreads=spreads)
            totals = dict(found.by_slot)
            best = max(totals.values(), default=1.0)
            for slot in _exact(db, words, is_edge, types):
                if slots is None or slot in slots:
                    totals[slot] = totals.get(slot, 0.0) + 2 * best
            # Of two that score alike the newer one comes first.
            order = nlargest(limit, zip(totals.values(), totals, strict=True))
            hits = [hit for score, slot in order if (hit := _hit(db, slot, score)) is not None]
            return TextHits(hits, found.is_partial or len(totals) > limit, _skipped(db, types), at.position)

    def ranked(self, query: str, node_type: str | None, limit: int) -> ContentMatches:
        types = None if node_type is None else [node_type]
        words = asked_words(query)
        with self._reader.snapshot() as db:
            found = self._ranking(db, self._place(db)).scores(query, Filter(types, is_edge=False), spreads=False)
            order = sorted(found.by_slot, key=lambda slot: (slot not in found.all_words, -found.by_slot[slot], slot))
            hits: list[ContentHit] = []
            for slot in order:
                if len(hits) == limit:
                    break
                hits += self._content_hit(db, slot, found.by_slot[slot], words)
            return ContentMatches(hits, _skipped(db, types))

    def substring(self, query: str, node_type: str | None, limit: int | None) -> ContentMatches | None:
        """None when texts were moved or wiped meanwhile."""
        with self._reader.snapshot() as db:
            at = self._place(db)
            if db.execute("SELECT 1 FROM wipes").fetchone():
                return None
            type_number = _type_number(db, node_type)
            if type_number == 0:
                return ContentMatches([], [])
            skipped = _skipped(db, None if node_type is None else [node_type])
            try:
                hits = self._substring(db, at, query, type_number, limit)
            except FileNotFoundError:
                return None
        with self._reader.snapshot() as db:
            now = read_place(db)
        is_same = (now.generation, now.rewrites) == (at.generation, at.rewrites)
        return ContentMatches(hits, skipped) if is_same else None

    def holding(self, text: str, types: Collection[str]) -> list[str] | None:
        """Nodes of the types that may hold the text, in any case: whoever asks looks himself. None for any of them."""
        sought = fragment(text)
        # What a redaction leaves is in no index.
        if sought is None or sought in REDACTED.casefold():
            return None
        with self._reader.snapshot() as db:
            terms = [term for (term,) in db.execute("SELECT id FROM terms WHERE instr(word, ?)", (sought,))]
            if len(terms) > _HOLDING_TERMS_MAX:
                return None
            slots = self._ranking(db, self._place(db)).having(terms, types)
            rows = db.execute(
                "SELECT entities.id FROM json_each(?) AS wanted JOIN entities ON slot = wanted.value",
                (msgspec.json.encode(list(slots)).decode(),),
            )
            return [node_id for (node_id,) in rows]

    def nearest_words(self, words: str, limit: int) -> list[str]:
        found: dict[str, None] = {}
        with self._reader.snapshot() as db:
            recent = self._ranking(db, self._place(db)).recent_terms()
            for word in asked_words(words):
                found.update(dict.fromkeys(_near(db, word, recent)[:limit]))
        return list(found)[:limit]

    def similar(self, texts: Sequence[str], node_type: str, besides: str, limit: int, deadline: float) -> list[str]:
        """Nobody waits for it after the deadline: what was found by then."""
        sought = {stem(word) for text in (node_type, *texts) for word in words_in(text)}
        with self._reader.snapshot() as db:
            ranking = self._ranking(db, self._place(db))
            found = []
            for slot in ranking.sharing(sought, _SIMILAR_WORDS, node_type)[-_SIMILAR_MAX:]:
                if time.monotonic() > deadline:
                    break
                # Of one with a content, only the other words stand there.
                row = db.execute("SELECT id, words FROM entities WHERE slot = ? AND file IS NULL", (slot,)).fetchone()
                if row is not None and row[0] != besides:
                    of_id = {stem(word) for word in words_in(row[0])}
                    said = _stems(db, row[1]) - (of_id - sought)
                    share = len(said & sought) / max(len(said | sought), 1)
                    if share >= SIMILAR:
                        found.append((-share, row[0]))
            return [node_id for _, node_id in sorted(found)[:limit]]

    def close(self) -> None:
        self._reader.close()

    def _ranking(self, db: Connection, at: At) -> Ranking:
        fields = self._slots.refresh(db, at.generation, at.change)
        recent = self._recent.read(db, at.merged, at.next_slot, (at.generation, at.recent_rewrites))
        return Ranking(db, Collected(at.entities, at.length, fields, recent))

    def _content_hit(self, db: Connection, slot: int, score: float, words: Sequence[str]) -> Iterator[ContentHit]:
        """None where its attributes have the words, and not its content."""
        row = db.execute("SELECT id, log_offset FROM entities WHERE slot = ? AND file IS NOT NULL", (slot,)).fetchone()
        if row is None:
            return
        text = self._projection.content(row[1])
        if {stem(word) for word in words} & {stem(word) for word in words_in(text)}:
            yield ContentHit(row[0], float(f"{score:.4g}"), snippet(text, words))

    def _substring(
        self, db: Connection, at: At, query: str, type_number: int | None, limit: int | None
    ) -> list[ContentHit]:
        needle = folded(query)
        if not needle:
            return []
        if self._mapped is None or not self._mapped.covers(at.generation, at.ends):
            self._mapped = Mapped(self._projection.directory, at.generation, at.ends)
        slots = self._mapped.search(needle, at.ends, type_number, limit)
        rows = db.execute(
            "SELECT entities.id FROM json_each(?) AS wanted JOIN entities ON slot = wanted.value ORDER BY wanted.id",
            (msgspec.json.encode(slots).decode(),),
        )
        return [ContentHit(node) for (node,) in rows]


def _hit(db: Connection, slot: int, score: float) -> Hit | None:
    row = db.execute("SELECT id, is_edge FROM entities WHERE slot = ?", (slot,)).fetchone()
    return None if row is None else Hit(row[0], "edge" if row[1] else "node", float(f"{score:.4g}"))


def _slots_of(db: Connection, ids: Iterable[str]) -> Iterator[int]:
    wanted = msgspec.json.encode(list(ids)).decode()
    for (slot,) in db.execute(
        "SELECT slot FROM json_each(?) AS wanted JOIN entities ON entities.id = wanted.value", (wanted,)
    ):
        yield slot


def _exact(db: Connection, query: str, is_edge: bool | None, types: Collection[str] | None) -> Iterator[int]:
    """The slots of what the question names by its id."""
    said = [query.strip(), *(word.strip(_AROUND) for word in query.split()[:_EXACT_IDS_MAX])]
    for entity_id in dict.fromkeys(each for each in said if each):
        rows = db.execute(
            "SELECT slot, is_edge, name FROM entities JOIN types ON number = type WHERE id = ?",
            (entity_id.encode("utf-8", "replace").decode(),),
        )
        for slot, edge, name in rows:
            if is_edge in (None, bool(edge)) and (types is None or name in types):
                yield slot


def _skipped(db: Connection, types: Collection[str] | None) -> list[str]:
    rows = db.execute(
        "SELECT id, name FROM entities JOIN types ON number = type WHERE unread IS NOT NULL ORDER BY slot"
    )
    return [entity_id for entity_id, name in rows if types is None or name in types]


def _type_number(db: Connection, node_type: str | None) -> int | None:
    """None for any type, 0 for one that no node has."""
    if node_type is None:
        return None
    row = db.execute("SELECT number FROM types WHERE name = ?", (node_type,)).fetchone()
    return 0 if row is None else int(row[0])


def _near(db: Connection, word: str, recent: Collection[int]) -> list[str]:
    """Those that begin alike, the likest first."""
    known = words_beginning(db, stem(word)[:_NEAR_PREFIX], recent)
    return get_close_matches(word, known, n=10, cutoff=0.6)


def _stems(db: Connection, words: bytes) -> set[str]:
    terms = msgspec.json.encode(decode_levels(words)[0]).decode()
    rows = db.execute("SELECT stem FROM json_each(?) AS wanted JOIN terms ON terms.id = wanted.value", (terms,))
    return {root for (root,) in rows if root[0] not in (NAMED, OF_TYPE)}

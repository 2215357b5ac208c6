"""The order of what words find.

BM25 over the stems of the words that say what a question is about. Each word also counts, less, for what was written
just before and after an entity that has it: what is said in one breath belongs together. An entity whose name or
author the question says counts more.

A word that very many have says little about any of them: the rarest words decide who is looked at, and the common ones
only score them. So the cost of a search stays bounded however many entities there are.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable

import msgspec
from pyroaring import BitMap

from tallystick.projections.database import Connection
from tallystick.projections.text.entity_words import IS_EDGE, NAME_WORDS_MAX, name_mark, type_mark
from tallystick.projections.text.postings import LEVELS, Recent, slots_with, terms_of_stem
from tallystick.projections.text.slots import length_of, neighbours
from tallystick.projections.text.words import STOP_WORDS, stem, words_in, words_of

WORDS_MAX = 32
CANDIDATES_MAX = 4_000
SPREADING_MAX = 600
"""So many of the best give some of their score to their neighbours."""
SPREAD = (0.6, 0.4, 0.25)
"""How much of a word's score goes to the next, to the one after that, …"""
NAMED = 1.5
EDGE = 0.5
"""An edge mostly says the names of the two that it connects."""
SATURATION, LENGTH_WEIGHT = 1.2, 0.5
"""Of BM25: how soon a word that is said again counts no more, and how much a long text is held against it."""


class Collected(msgspec.Struct, frozen=True):
    """What the whole index says about itself."""

    entities: int
    length: int
    fields: array[int]
    """Of the slots."""
    recent: Recent


class Scores(msgspec.Struct, frozen=True):
    by_slot: dict[int, float]
    all_words: BitMap
    """Those that have every word of the question."""
    is_partial: bool


class Filter(msgspec.Struct, frozen=True):
    types: Collection[str] | None = None
    is_edge: bool | None = None
    among: BitMap | None = None


def asked_words(query: str) -> list[str]:
    """Those that say what it is about, each once; all of them where none does."""
    words = list(dict.fromkeys(words_in(query)))
    return ([word for word in words if word not in STOP_WORDS] or words)[:WORDS_MAX]


class Ranking:
    """One question, asked of one snapshot."""

    def __init__(self, db: Connection, collected: Collected) -> None:
        self._db = db
        self._all = collected

    def scores(self, query: str, filter: Filter, *, spreads: bool = True) -> Scores:
        postings = self._postings(map(stem, asked_words(query)))
        if not postings:
            return Scores({}, BitMap(), False)
        wanted = self._wanted(filter)
        all_words = BitMap.intersection(*(levels[0] for levels in postings))
        candidates, is_partial = _candidates([levels[0] for levels in postings], all_words, wanted)
        by_word = [self._score_word(levels, candidates) for levels in postings]
        totals = _sum(by_word)
        if spreads:
            self._spread(by_word, totals)
        self._weigh(totals, query)
        if wanted is not None:
            totals = {slot: score for slot, score in totals.items() if slot in wanted}
            all_words &= wanted
        return Scores(totals, all_words, is_partial)

    def weights(self, query: str) -> dict[str, float]:
        """What each word of the question weighs that somebody has, by its stem: the rarer, the more."""
        found = {root: self._slots(root) for root in dict.fromkeys(map(stem, asked_words(query)))}
        return {root: self._weight(levels) for root, levels in found.items() if levels[0]}

    def weighed(self, query: str, slots: Iterable[int]) -> dict[int, tuple[int, float]]:
        """Of each slot: how many words of the question it has, and what they weigh."""
        words = self._postings(map(stem, asked_words(query)))
        weights = [self._weight(levels) for levels in words]
        had = {slot: [w for w, levels in zip(weights, words, strict=True) if slot in levels[0]] for slot in slots}
        return {slot: (len(found), sum(found)) for slot, found in had.items()}

    def having(self, terms: Collection[int], types: Collection[str]) -> BitMap:
        """The nodes of the types that have any of the terms."""
        wanted = self._wanted(Filter(types, is_edge=False)) or BitMap()
        return self._merged_and_recent(terms)[0] & wanted

    def recent_terms(self) -> Collection[int]:
        """Those of the newest entities, which are not counted with the words yet."""
        return self._all.recent.keys()

    def sharing(self, stems: Collection[str], count: int, node_type: str) -> BitMap:
        """Nodes of the type that have all but one of the rarest `count` of the stems."""
        rarest = [levels[0] for levels in self._postings(stems)[:count]]
        typed = self._slots(type_mark(node_type, is_edge=False))[0]
        if len(rarest) < 2:
            return BitMap.intersection(typed, *rarest) if rarest else BitMap()
        missing = (rarest[:at] + rarest[at + 1 :] for at in range(len(rarest)))
        return BitMap.union(*(BitMap.intersection(typed, *others) for others in missing))

    # -- which

    def _postings(self, stems: Iterable[str]) -> list[list[BitMap]]:
        """Of each stem that somebody has, the rarest first: by level, the slots."""
        found = [self._slots(each) for each in dict.fromkeys(stems)]
        return sorted((levels for levels in found if levels[0]), key=lambda levels: len(levels[0]))

    def _slots(self, root: str) -> list[BitMap]:
        return self._merged_and_recent(terms_of_stem(self._db, root))

    def _merged_and_recent(self, terms: Collection[int]) -> list[BitMap]:
        levels = slots_with(self._db, terms)
        for term in terms:
            for level, slots in enumerate(self._all.recent.get(term, ())):
                levels[level].update(slots)
        return levels

    def _wanted(self, filter: Filter) -> BitMap | None:
        """None for any."""
        wanted = filter.among
        if filter.types is not None:
            kinds = (False, True) if filter.is_edge is None else (filter.is_edge,)
            marks = [type_mark(name, is_edge=is_edge) for name in filter.types for is_edge in kinds]
            typed = BitMap.union(BitMap(), *(self._slots(mark)[0] for mark in marks))
            return typed if wanted is None else wanted & typed
        if filter.is_edge is None:
            return wanted
        edges = self._slots(IS_EDGE)[0]
        everything = BitMap(range(len(self._all.fields) // 3)) if wanted is None else wanted
        return everything & edges if filter.is_edge else everything - edges

    # -- how much

    def _score_word(self, levels: list[BitMap], candidates: BitMap) -> dict[int, float]:
        weight = self._weight(levels) * (SATURATION + 1)
        by_length = SATURATION * LENGTH_WEIGHT * self._all.entities / max(self._all.length, 1)
        fields = self._all.fields
        scores = {}
        for slots, times in zip(levels, LEVELS, strict=True):
            most, rest = weight * times, times + SATURATION * (1 - LENGTH_WEIGHT)
            for slot in slots & candidates:
                scores[slot] = most / (rest + by_length * length_of(fields, slot))
        return scores

    def _weight(self, levels: list[BitMap]) -> float:
        found = len(levels[0])
        return math.log(1 + (max(self._all.entities - found, 0) + 0.5) / (found + 0.5))

    def _spread(self, by_word: list[dict[int, float]], totals: dict[int, float]) -> None:
        """Each word's score to the neighbours of the best: the largest that reaches an entity counts."""
        best = sorted(totals, key=totals.__getitem__, reverse=True)[:SPREADING_MAX]
        near = [(slot, neighbours(self._all.fields, slot, SPREAD)) for slot in best]
        for scores in by_word:
            reached: dict[int, float] = {}
            for slot, around in near:
                score = scores.get(slot)
                if score is not None:
                    for other, share in around:
                        given = score * share
                        if given > reached.get(other, 0.0):
                            reached[other] = given
            for slot, given in reached.items():
                own = scores.get(slot, 0.0)
                if given > own:
                    totals[slot] = totals.get(slot, 0.0) + given - own

    def _weigh(self, totals: dict[int, float], query: str) -> None:
        scored = BitMap(totals)
        for slot in self._named(query) & scored:
            totals[slot] *= NAMED
        for slot in self._slots(IS_EDGE)[0] & scored:
            totals[slot] *= EDGE

    def _named(self, query: str) -> BitMap:
        """The slots of what the question calls by its name."""
        words = words_of(query.casefold())[: 2 * WORDS_MAX]
        marks = {
            name_mark(words[start : start + size])
            for size in range(1, NAME_WORDS_MAX + 1)
            for start in range(len(words) - size + 1)
        }
        return BitMap.union(BitMap(), *(self._slots(mark)[0] for mark in marks))


def _candidates(words: list[BitMap], all_words: BitMap, wanted: BitMap | None) -> tuple[BitMap, bool]:
    """Who is looked at: whoever has all words, and whoever has one of the rarest. Also whether that is not everybody
    who has one."""
    chosen = BitMap()
    is_partial = False
    for slots in (all_words, *([words[0] & words[1]] if len(words) > 1 else []), *words):
        # What is wanted comes first; the others may be neighbours of it.
        for some in (slots,) if wanted is None else (slots & wanted, slots):
            room = CANDIDATES_MAX - len(chosen)
            is_partial |= len(some) > room
            chosen |= _newest(some, room)
    return chosen, is_partial


def _newest(slots: BitMap, count: int) -> BitMap:
    if count >= len(slots):
        return slots
    return slots[-count:] if count > 0 else BitMap()


def _sum(by_word: list[dict[int, float]]) -> dict[int, float]:
    totals = dict(by_word[0])
    for scores in by_word[1:]:
        for slot, score in scores.items():
            totals[slot] = totals.get(slot, 0.0) + score
    return totals

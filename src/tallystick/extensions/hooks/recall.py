"""What the words of a prompt find in the text index: the ranking that searches use, asked once and with a threshold.

What the index has not seen yet is looked through as it is now, so that a prompt finds what was written a moment ago.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from tallystick.extensions.hooks.graph import Graph, Note

_WORDS_MIN = 2
_SHARE_MIN = 0.5
"""Of what the rarest words of the prompt weigh."""
_RAREST = 5
_FOUND_MAX = 40

Hits = dict[str, tuple[int, float]]
"""By id: how many of the words it has, and what they weigh."""


def search(home: Path, graph: Graph, prompt: str) -> list[tuple[str, float]]:
    """Best first, and only what fits well. Raises what a damaged index raises."""
    from tallystick.projections.text.ranking import asked_words
    from tallystick.projections.text.words import stem

    stems = frozenset(map(stem, asked_words(prompt)))
    if len(stems) < _WORDS_MIN:
        return []
    position, entities, weights, hits = _indexed(home, prompt)
    unseen = graph.written_after(position)
    said = {each: _stems(note) & stems for each in unseen if (note := graph.note(each)) is not None}
    for word in stems - weights.keys():
        if has := sum(word in words for words in said.values()):
            weights[word] = math.log(1 + (entities + 0.5) / (has + 0.5))
    for each in unseen:
        hits.pop(each, None)
    hits |= {each: (len(words), sum(weights[word] for word in words)) for each, words in said.items()}
    return _fitting(hits, weights)


def _indexed(home: Path, prompt: str) -> tuple[int, int, dict[str, float], Hits]:
    """Up to where the index has seen the log, how many it knows, what each word weighs, and who has them."""
    from tallystick.projections.text.projection import database_path

    path = database_path(home)
    if not path.exists():
        return 0, 1, {}, {}
    from tallystick.projections.database import Reader
    from tallystick.projections.text.postings import RecentWords
    from tallystick.projections.text.projection import read_place
    from tallystick.projections.text.ranking import Collected, Filter, Ranking
    from tallystick.projections.text.slots import SlotTable

    with closing(Reader(path)) as reader, reader.snapshot() as db:
        at = read_place(db)
        fields = SlotTable().refresh(db, at.generation, at.change)
        recent = RecentWords().read(db, at.merged, at.next_slot, (at.generation, at.recent_rewrites))
        ranking = Ranking(db, Collected(at.entities, at.length, fields, recent))
        found = ranking.scores(prompt, Filter(is_edge=False), spreads=False)
        best = sorted(found.by_slot, key=lambda slot: (-found.by_slot[slot], -slot))[:_FOUND_MAX]
        weights = ranking.weights(prompt)
        had = ranking.weighed(prompt, best)
        rows = {slot: db.execute("SELECT id FROM entities WHERE slot = ?", (slot,)).fetchone() for slot in best}
    return at.position, at.entities, weights, {rows[slot][0]: had[slot] for slot in best if rows[slot] is not None}


def _stems(note: Note) -> frozenset[str]:
    from tallystick.commits.reserved_attributes import said
    from tallystick.projections.text.entity_words import values
    from tallystick.projections.text.words import stem, words_in

    text = "\n".join([note.id, note.type, *values(said(note.attrs)), note.text[:10_000]])
    return frozenset(map(stem, words_in(text[:20_000])))


def _fitting(hits: Hits, weights: Mapping[str, float]) -> list[tuple[str, float]]:
    most = sum(sorted(weights.values(), reverse=True)[:_RAREST]) or 1.0
    fits = [(each, weight) for each, (words, weight) in hits.items() if words >= _WORDS_MIN]
    return sorted(((each, weight) for each, weight in fits if weight / most >= _SHARE_MIN), key=lambda hit: -hit[1])

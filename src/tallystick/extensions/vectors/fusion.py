"""What words found and what vectors found, in one order: by rank, since their scores cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.projections.text.lookup import Hit

WORDS_WEIGHT, VECTORS_WEIGHT = 2.0, 1.0
WORDS_MIN = 200
"""So many that words find, if there are, have to be known for the order to be the same on every page."""
_RANK_OFFSET = 10
"""The usual 60 lets what both found far down overtake what words found first."""
_BEST = (_RANK_OFFSET + 1) / (WORDS_WEIGHT + VECTORS_WEIGHT)
_FIRST_MAX = 5
_FAR_AHEAD = 2.0


def fused(by_words: Sequence[Hit], by_vectors: Sequence[Hit]) -> list[Hit]:
    """Best first, scored 1 at most; above it what words put far ahead of all others, such as an id that was named."""
    if not by_vectors:
        return list(by_words)
    first = by_words[: _far_ahead(by_words)]
    scores: dict[tuple[str, str], float] = {}
    hits: dict[tuple[str, str], Hit] = {}
    for weight, found in ((WORDS_WEIGHT, by_words), (VECTORS_WEIGHT, by_vectors)):
        for rank, hit in enumerate(found, 1):
            key = hit.kind, hit.id
            hits.setdefault(key, hit)
            scores[key] = scores.get(key, 0.0) + _BEST * weight / (_RANK_OFFSET + rank)
    for hit in first:
        scores[hit.kind, hit.id] += 1.0
    # Of two that score alike the one that words found comes first: the order of the dictionary.
    order = sorted(scores, key=lambda key: -scores[key])
    return [Hit(hits[key].id, hits[key].kind, scores[key]) for key in order]


def _far_ahead(found: Sequence[Hit]) -> int:
    for count in range(1, min(_FIRST_MAX, len(found) - 1) + 1):
        if found[count - 1].score >= _FAR_AHEAD * found[count].score:
            return count
    return 0

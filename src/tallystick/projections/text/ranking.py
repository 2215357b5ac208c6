"""The order of what words find: BM25 over stemmed words, all words first, then any.

BM25 is a sum over words, so words are scored one by one and added up. A word that very many
texts have is scored in the newest of them only: it says little about any one of them, and
the cost of a search stays bounded however many there are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from heapq import nsmallest

from tallystick.projections.database import Connection

SCORED_MAX = 3_000
WORDS_MAX = 32
_WORD = re.compile(r"\w+")
_PARTIAL_HEAD = re.compile(r"^\S{0,39}\s")
_PARTIAL_TAIL = re.compile(r"\s\S{0,39}$")
_SNIPPET_CHARACTERS = 200
_SNIPPET_LEAD = 40
"""Characters before the first word that is shown."""
_SNIPPET_WORDS = 8
_SNIPPET_WITHIN = 256 << 10
"""Characters in which the words are looked for."""
_SCORED = """
SELECT number, score FROM (
  SELECT ranked.rowid AS number, -bm25(ranked) AS score FROM ranked{join}
  WHERE ranked MATCH :words{only} ORDER BY ranked.rowid DESC LIMIT {most})
"""


def best(db: Connection, query: str, type_number: int | None, limit: int) -> list[tuple[int, float]]:
    """Number and score, best first."""
    words = _words(query)
    if not words:
        return []
    found = _top(_scored(db, _all_of(words), type_number), limit)
    if len(found) < limit and len(words) > 1:
        known = {number for number, _ in found}
        scores = {number: score for number, score in _any_scores(db, words, type_number).items() if number not in known}
        found += _top(scores, limit - len(found))
    return found


def snippet(db: Connection, query: str, number: int) -> str:
    """Some of the text around the words that were found, on one line.

    Ours, since SQLite's own takes minutes for a long text that repeats a word.
    """
    row = db.execute("SELECT substr(text, 1, ?) FROM ranked WHERE rowid = ?", (_SNIPPET_WITHIN, number)).fetchone()
    text: str = row[0]
    words = [word[:_SNIPPET_LEAD] for word in _words(query)[:_SNIPPET_WORDS]]
    places = sorted(place for word in words if (place := _place_of(word, text)) is not None)
    start = max(places, key=lambda place: _shown_with(place, places), default=0)
    return _cut(text, max(0, start - _SNIPPET_LEAD))


def _shown_with(place: int, places: Sequence[int]) -> int:
    return sum(place <= other < place + _SNIPPET_CHARACTERS - _SNIPPET_LEAD for other in places)


def _place_of(word: str, text: str) -> int | None:
    """Where it or another form of it begins: one that shares at least its first half."""
    for length in (len(word), len(word) * 3 // 4, len(word) // 2):
        found = re.search(rf"\b{re.escape(word[: max(1, length)])}", text, re.IGNORECASE)
        if found:
            return found.start()
    return None


def _cut(text: str, start: int) -> str:
    """Between words where there are any near."""
    end = start + _SNIPPET_CHARACTERS
    shown = text[start:end]
    if start:
        shown = _PARTIAL_HEAD.sub("", shown, count=1)
    if end < len(text):
        shown = _PARTIAL_TAIL.sub("", shown, count=1)
    return f"{'…' if start else ''}{' '.join(shown.split())}{'…' if end < len(text) else ''}"


def _any_scores(db: Connection, words: Sequence[str], type_number: int | None) -> dict[int, float]:
    scores: dict[int, float] = defaultdict(float)
    for word in words:
        for number, score in _scored(db, _all_of([word]), type_number).items():
            scores[number] += score
    return scores


def _scored(db: Connection, words: str, type_number: int | None) -> dict[int, float]:
    join = " JOIN texts ON texts.number = ranked.rowid" if type_number is not None else ""
    only = " AND texts.type = :type" if type_number is not None else ""
    statement = _SCORED.format(join=join, only=only, most=SCORED_MAX)
    return dict(db.execute(statement, {"words": words, "type": type_number}).fetchall())


def _top(scores: dict[int, float], limit: int) -> list[tuple[int, float]]:
    return nsmallest(limit, scores.items(), key=lambda item: (-item[1], item[0]))


def _words(query: str) -> list[str]:
    """Those that the index could have, each once. A quoted word is never taken for an operator."""
    found = (word for word in _WORD.findall(query.casefold()) if any(letter.isalnum() for letter in word))
    return list(dict.fromkeys(found))[:WORDS_MAX]


def _all_of(words: Sequence[str]) -> str:
    return " AND ".join(f'"{word}"' for word in words)

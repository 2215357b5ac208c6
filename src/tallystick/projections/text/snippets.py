"""The snippet: some of a text around the words that were asked for, on one line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tallystick.projections.text.words import RUN, words_in

_PARTIAL_HEAD = re.compile(r"^\S{0,39}\s")
_PARTIAL_TAIL = re.compile(r"\s\S{0,39}$")
SNIPPET_CHARACTERS = 200
_LEAD = 40
"""Characters before the first word that is shown."""
_WORDS = 8
_WITHIN = 256 << 10
"""Characters in which the words are looked for."""


def snippet(text: str, words: Sequence[str], characters: int = SNIPPET_CHARACTERS) -> str:
    """The part that shows the most of the words, cut between words."""
    text = text[:_WITHIN]
    sought = [word[:_LEAD] for word in words[:_WORDS]]
    places = sorted(place for word in sought if (place := _place_of(word, text)) is not None)
    start = max(places, key=lambda place: _shown_with(place, places, characters), default=0)
    return _cut(text, max(0, start - _LEAD), characters)


def _shown_with(place: int, places: Sequence[int], characters: int) -> int:
    return sum(place <= other < place + characters - _LEAD for other in places)


def _place_of(word: str, text: str) -> int | None:
    """Where it or another form of it begins: one that shares at least its first half."""
    for length in (len(word), len(word) * 3 // 4, len(word) // 2):
        if length < len(word) and (place := _place_of_folded(word, text)) is not None:
            return place
        found = re.search(rf"\b{re.escape(word[: max(1, length)])}", text, re.IGNORECASE)
        if found:
            return found.start()
    return _place_of_folded(word, text)


def _place_of_folded(word: str, text: str) -> int | None:
    """Of a word that stands there with accents, or within a name."""
    within = re.search(re.escape(word), text, re.IGNORECASE)
    if within:
        return within.start()
    runs = () if text.isascii() else RUN.finditer(text)
    return next((run.start() for run in runs if word in words_in(run[0])), None)


def _cut(text: str, start: int, characters: int) -> str:
    """Between words where there are any near."""
    end = start + characters
    shown = text[start:end]
    if start:
        shown = _PARTIAL_HEAD.sub("", shown, count=1)
    if end < len(text):
        shown = _PARTIAL_TAIL.sub("", shown, count=1)
    return f"{'…' if start else ''}{' '.join(shown.split())}{'…' if end < len(text) else ''}"

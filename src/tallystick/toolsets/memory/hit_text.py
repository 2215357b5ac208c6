"""The text of a hit: what an entity says, once, and as much of it around the words as there is room for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from tallystick.commits.mask import REDACTED
from tallystick.commits.reserved_attributes import said
from tallystick.projections.text.entity_words import values
from tallystick.projections.text.words import RUN, stem, words_in
from tallystick.state import Edge, Node

SEPARATOR = " · "
NAMING = ("title", "name", "speaker", "author", "owner")
"""Keys whose values say what or who it is about: they come first, and without their key."""
TELLING = (
    "date", "text", "summary", "knowledge", "content", "body", "description", "note", "said", "message",
    "observation", "observations",
)  # fmt: skip
"""Keys whose values are told without them, too."""
_HOUSEKEEPING = frozenset({
    "rev", "version", "ordinal", "contentFormat", "entityType", "parentType", "targetEntityType", "entityId",
    "parentId", "parent", "project", "projectId", "root", "moleculeId", "taskId", "createdByTaskId", "lastTaskId",
    "createdAt", "updatedAt", "isBuiltIn", "isProtected",
})  # fmt: skip
"""What vocabularies of their own keep beside what was said."""
_MACHINE_MADE = re.compile(r"[0-9a-f]{16,}|[0-9a-f-]{36}")
_NAMING_CHARACTERS = 60
_WITHIN = 64 << 10
"""Characters in which the words are looked for: nobody else is answered meanwhile."""
_PLACES_MAX = 500
_VALUES_MAX = 10_000
"""Values of an entity that its text is made of."""


def parts_of(entity: Node | Edge) -> list[str]:
    """All that it says, each thing once and on one line: first what names it, then its text, then the rest."""
    by_key: dict[str, list[str]] = {}
    for key, value in islice(_leaves(said(entity.attrs)), _VALUES_MAX):
        text = _told(value)
        if text and text != entity.id and not (_is_reserved(entity) and _is_housekeeping(key, value)):
            by_key.setdefault(key, []).append(text)
    ends = (
        [_flat(f"{entity.source} {entity.rel} {entity.target}")]
        if isinstance(entity, Edge) and "|" not in entity.id
        else []
    )
    naming = [", ".join(by_key.pop(key)) for key in NAMING if key in by_key]
    telling = [text for key in TELLING for text in by_key.pop(key, ())]
    content = _content(entity)[:_WITHIN]
    prose = [text for told in by_key.values() if any(" " in each for each in told) for text in told]
    short = [f"{_flat(key)}: {', '.join(told)}" for key, told in by_key.items() if not any(" " in it for it in told)]
    return list(dict.fromkeys(part for part in (*ends, *naming, *telling, _flat(content), *prose, *short) if part))


def searched_text(entity: Node | Edge) -> str:
    """Everything that words may be found in."""
    kind = entity.type if isinstance(entity, Node) else entity.rel
    return "\n".join([entity.id, kind, *values(said(entity.attrs)), _content(entity)])


def snippet(parts: list[str], words: frozenset[str], characters: int) -> str:
    """All of it where there is room. Else of a long part, best one that has some of the words (stems), what is around
    them, and of the others those that leave half of the room to it."""
    text = SEPARATOR.join(parts)
    if len(text) <= characters:
        return text
    room = characters // 2
    places = {part: _places(part, words) for part in parts if len(part) > room}
    main = max([part for part in places if places[part]] or parts, key=len)
    kept = []
    for part in parts:
        if part is main or len(part) + len(SEPARATOR) <= room:
            kept.append(part)
            room -= 0 if part is main else len(part) + len(SEPARATOR)
    left = characters - sum(len(part) + len(SEPARATOR) for part in kept if part is not main)
    return SEPARATOR.join(_window(part, places.get(part, []), left) if part is main else part for part in kept)


Place = tuple[int, str]
"""Where a word stands, and its stem."""


def _window(text: str, places: list[Place], characters: int) -> str:
    if len(text) <= characters:
        return text
    start = min(_best_start(places, characters), len(text) - characters)
    shown = text[start : start + characters]
    if start:
        shown = "…" + (shown.partition(" ")[2] or shown)
    if start + characters < len(text):
        shown = (shown.rpartition(" ")[0] or shown) + "…"
    return shown


def _best_start(places: list[Place], characters: int) -> int:
    """Of the windows that begin a little before a word, the first that shows most different words, then most of them.
    One pass: a text may have a word very often."""
    best, most = 0, (0, 0)
    shown: Counter[str] = Counter()
    first = last = 0
    for place, _ in places:
        start = max(0, place - characters // 4)
        while last < len(places) and places[last][0] < start + characters:
            shown[places[last][1]] += 1
            last += 1
        while places[first][0] < start:
            shown[places[first][1]] -= 1
            first += 1
        count = len(+shown), last - first
        if count > most:
            best, most = start, count
    return best


def _places(text: str, words: frozenset[str]) -> list[Place]:
    found: list[Place] = []
    for match in RUN.finditer(text, 0, _WITHIN):
        said = words_in(match[0])
        for number, word in enumerate(said):
            if stem(word) in words:
                # Where it stands within a run of several, near enough.
                found.append((match.start() + len(match[0]) * number // len(said), stem(word)))
        if len(found) >= _PLACES_MAX:
            break
    return found[:_PLACES_MAX]


# -- what an entity says


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Scalars by the innermost key that they stand under."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, key)
    elif value is not None and value != REDACTED:
        yield key, value


def _told(value: Any) -> str:
    if isinstance(value, str):
        return _flat(value[:_WITHIN])
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value)


def _is_reserved(entity: Node | Edge) -> bool:
    return isinstance(entity, Node) and "/" in entity.type


def _is_housekeeping(key: str, value: Any) -> bool:
    return key in _HOUSEKEEPING or (isinstance(value, str) and _MACHINE_MADE.fullmatch(value) is not None)


def _content(entity: Node | Edge) -> str:
    """What travels in the commit; larger ones lie elsewhere."""
    text = (entity.content or {}).get("text")
    return text if isinstance(text, str) and text != REDACTED else ""


def _flat(text: str) -> str:
    """On one line, so that no text can pass for several hits."""
    return " ".join(text.split())


# -- how much it is

_PIECE = re.compile(r"[A-Za-z]+|\d{1,3}|[^\W\dA-Za-z_]+|[^\w\s]+|_+")


def tokens_of(text: str) -> int:
    """About as many as a model counts, rather more than fewer."""
    return round(sum(map(_tokens_in, _PIECE.findall(text))))


def _tokens_in(piece: str) -> float:
    if not piece[0].isascii():
        return len(piece) * (0.9 if piece[0] >= "\u2e80" else 0.4)
    if piece[0].isalpha():
        return 1 if len(piece) <= 8 else len(piece) / 5
    return 1 if piece[0].isdigit() else (len(piece) + 1) // 2

"""The globs: which patterns there are, and what one segment of a path must look like.

`*` and `?` stay within a segment, `**` as a whole segment crosses any number of them (at the
end at least one), `[a-z]`, `[!a]` and `[^a]` take one character, `{a,b}` is either, and `\\`
takes the meaning from the character behind it. Case counts, and dots are nothing special.

Immune by construction: braces are counted before they are expanded, and a segment is matched
by an automaton that looks at each character once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from functools import lru_cache
from itertools import product
from typing import NoReturn

import msgspec

from tallystick.errors import InvalidArgument

PATTERN_CHARACTERS_MAX = 512
ALTERNATIVES_MAX = 64
"""Routes that the braces of one pattern may stand for."""
GROUPS_DEEP_MAX = 8


class Special(Enum):
    """Segments that need no looking at."""

    ANY = 1
    DEEP = 2


class Characters(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One character out of these ranges, or none of them."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool = False

    def takes(self, character: str) -> bool:
        return any(first <= character <= last for first, last in self.ranges) is not self.negated


_ONE = Characters((), negated=True)


class Wild(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A segment with wildcards in it."""

    units: str | tuple[str | Characters, ...]
    """What takes one character each, in order; a text where each takes the one that it is."""
    loops: int
    """A bit for each unit, and one for the end: any number of characters may come before it."""
    head: str
    tail: str
    """The literal beginning and end; between them is something wild."""
    is_plain: bool
    """Nothing but a star stands between them."""

    def fits(self, text: str) -> bool:
        if len(text) < len(self.units) or not text.startswith(self.head) or not text.endswith(self.tail):
            return False
        return self.is_plain or self._runs(text)

    def _runs(self, text: str) -> bool:
        """Each bit of `at` is a unit that may come next: linear in the text, whatever the pattern."""
        masks: dict[str, int] = {}
        at = 1
        for character in text:
            mask = masks.get(character)
            if mask is None:
                mask = masks[character] = self._taking(character)
            at = ((at & mask) << 1) | (at & self.loops)
            if not at:
                return False
        return bool(at >> len(self.units) & 1)

    def _taking(self, character: str) -> int:
        mask = 0
        for number, unit in enumerate(self.units):
            if unit == character if isinstance(unit, str) else unit.takes(character):
                mask |= 1 << number
        return mask


Segment = str | Wild | Special
Route = tuple[Segment, ...]
"""What one pattern, or one alternative of its braces, asks of a path, segment by segment."""


def parse(pattern: str) -> tuple[Route, ...]:
    """The routes that a pattern stands for, each once. Raises InvalidArgument, saying what is wrong with it."""
    _check_outline(pattern)
    if not _ELABORATE.search(pattern):
        return (_route([_simple(part) for part in pattern.split("/")], pattern),)
    tree, _ = _sequence(_Reader(pattern), depth=0)
    if _count(tree) > ALTERNATIVES_MAX:
        _refuse(pattern, f"its braces stand for more than {ALTERNATIVES_MAX} patterns")
    routes = (_route([_segment(part) for part in _split(flat)], pattern) for flat in _expand(tree))
    return tuple(dict.fromkeys(routes))


def normalised(pattern: str) -> str:
    """As it is kept: without the `./` that people put in front."""
    while pattern.startswith("./"):
        pattern = pattern[2:].lstrip("/")
    return pattern


def segments_of(path: str) -> tuple[str, ...] | None:
    """A path as patterns see it; None for one that no pattern can mean: absolute, or nothing at all."""
    if path.startswith("/"):
        return None
    return tuple(part for part in path.split("/") if part not in ("", ".")) or None


def is_directory(path: str) -> bool:
    """Spelt as one: then everything below it is meant."""
    return path.endswith(("/", "/**")) or path == "**"


def literal_head(route: Route) -> str:
    """The directory or file that everything on this route lies in or is; empty when it could be anywhere."""
    head: list[str] = []
    for segment in route:
        if not isinstance(segment, str):
            break
        head.append(segment)
    return "/".join(head)


# -- what is refused

_ELABORATE = re.compile(r"[\\\[{?]")
_LITERALS = re.compile(r"[^\\\[{}*?,/]+")
_STARS = re.compile(r"(\*)")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SHOWN = 100


def _refuse(pattern: str, why: str) -> NoReturn:
    shown = pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "…"
    raise InvalidArgument(f"pattern '{shown}' is not valid: {why}")


def _check_outline(pattern: str) -> None:
    if not pattern.strip():
        raise InvalidArgument("a pattern must not be empty")
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        _refuse(pattern, f"it has {len(pattern)} characters, more than {PATTERN_CHARACTERS_MAX}")
    if "\0" in pattern:
        _refuse(pattern, "it contains a NUL character")
    if pattern.startswith("!"):
        _refuse(pattern, "there is no negation; write \\! for a name that begins so")
    if pattern.startswith("/") or _DRIVE.match(pattern):
        _refuse(pattern, "it must be relative to the repository")


def _route(segments: Sequence[Segment], pattern: str) -> Route:
    if segments[0] == "":
        _refuse(pattern, "it must be relative to the repository")
    if segments[-1] == "":
        _refuse(pattern, "it ends with '/'; write /** for everything below")
    route: list[Segment] = []
    for segment in segments:
        if segment == "..":
            _refuse(pattern, "it must not climb with '..'")
        if segment in ("", ".") or (segment is Special.DEEP and route and route[-1] is Special.DEEP):
            continue
        route.append(segment)
    if not route:
        _refuse(pattern, "it names nothing")
    return tuple(route)


# -- reading


class _Star(Enum):
    STAR = "*"


class _Slash(Enum):
    SLASH = "/"


_Token = str | Characters | _Star | _Slash
_Group = list["_Tree"]
"""The alternatives of a pair of braces."""
_Tree = list["_Token | _Group"]


class _Reader:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def next(self) -> str | None:
        if self.at == len(self.pattern):
            return None
        self.at += 1
        return self.pattern[self.at - 1]

    def run(self) -> str:
        """The characters from here on that stand for themselves, wherever they are."""
        found = _LITERALS.match(self.pattern, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def peek(self) -> str | None:
        return self.pattern[self.at] if self.at < len(self.pattern) else None

    def escaped(self) -> str:
        """The character behind a backslash. Before a letter it is no escape but somebody's separator."""
        character = self.next()
        if character is None or character not in _ESCAPABLE:
            _refuse(self.pattern, "'\\' only escapes special characters; directories are separated by '/'")
        return character


_ESCAPABLE = frozenset("*?[]{},!^-\\")


def _sequence(reader: _Reader, *, depth: int) -> tuple[_Tree, str | None]:
    """Up to the end, or inside braces up to the comma or brace that ends it, which is returned too."""
    found: _Tree = []
    while True:
        if run := reader.run():
            found.append(run)
        character = reader.next()
        if character is None:
            if depth:
                _refuse(reader.pattern, "'{' is not closed")
            return found, None
        if depth and character in ",}":
            return found, character
        found.append(_item(reader, character, depth))


def _item(reader: _Reader, character: str, depth: int) -> _Token | _Group:
    match character:
        case "*":
            return _Star.STAR
        case "?":
            return _ONE
        case "/":
            return _Slash.SLASH
        case "[":
            return _characters(reader)
        case "{":
            return _group(reader, depth + 1)
        case "\\":
            return reader.escaped()
        case _:
            return character


def _group(reader: _Reader, depth: int) -> _Group:
    if depth > GROUPS_DEEP_MAX:
        _refuse(reader.pattern, f"its braces are nested more than {GROUPS_DEEP_MAX} deep")
    alternatives: _Group = []
    ended: str | None = ","
    while ended == ",":
        tree, ended = _sequence(reader, depth=depth)
        alternatives.append(tree)
    return alternatives


def _characters(reader: _Reader) -> Characters:
    negated = reader.peek() in ("!", "^")
    if negated:
        reader.next()
    ranges: list[tuple[str, str]] = []
    # A bracket that comes first is one of the characters.
    while (character := reader.next()) != "]" or not ranges:
        first = _member(reader, character)
        if reader.peek() == "-" and reader.pattern[reader.at + 1 : reader.at + 2] not in ("", "]"):
            reader.next()
            last = _member(reader, reader.next())
            if last < first:
                _refuse(reader.pattern, f"the range {first}-{last} runs backwards")
        else:
            last = first
        ranges.append((first, last))
    return Characters(tuple(sorted(set(ranges))), negated)


def _member(reader: _Reader, character: str | None) -> str:
    if character is None:
        _refuse(reader.pattern, "'[' is not closed")
    if character == "/":
        _refuse(reader.pattern, "'/' cannot stand between brackets")
    if character == "[" and reader.peek() in (":", ".", "="):
        _refuse(reader.pattern, f"'[{reader.peek()}' between brackets is not supported; write ranges, or \\[")
    return reader.escaped() if character == "\\" else character


# -- braces


def _count(tree: _Tree) -> int:
    total = 1
    for item in tree:
        if isinstance(item, list):
            total *= sum(map(_count, item))
    return total


def _expand(tree: _Tree) -> Iterator[list[_Token]]:
    choices = [
        [flat for alternative in item for flat in _expand(alternative)] if isinstance(item, list) else [[item]]
        for item in tree
    ]
    for choice in product(*choices):
        yield [token for part in choice for token in part]


def _split(tokens: list[_Token]) -> list[list[_Token]]:
    parts: list[list[_Token]] = [[]]
    for token in tokens:
        if token is _Slash.SLASH:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


# -- segments


@lru_cache(4096)
def _simple(text: str) -> Segment:
    """Of a pattern that knows nothing but stars."""
    if "*" not in text:
        return text
    if text == "*":
        return Special.ANY
    return _segment([_Star.STAR if part == "*" else part for part in _STARS.split(text) if part])


def _segment(tokens: Sequence[_Token]) -> Segment:
    if all(isinstance(token, str) for token in tokens):
        return "".join(map(str, tokens))
    units: list[str | Characters] = []
    loops = 0
    for token in tokens:
        if token is _Star.STAR:
            loops |= 1 << len(units)
        elif isinstance(token, str):
            units += token
        elif isinstance(token, Characters):
            units.append(token)
    if not units:
        return Special.DEEP if len(tokens) == 2 else Special.ANY
    head, tail = _run(tokens), _run(tokens[::-1])
    between = tokens[len(head) : len(tokens) - len(tail)]
    is_plain = all(token is _Star.STAR for token in between)
    taking = "".join(map(str, units)) if all(isinstance(unit, str) for unit in units) else tuple(units)
    return Wild(taking, loops, "".join(head), "".join(tail[::-1]), is_plain)


def _run(tokens: Sequence[_Token]) -> list[str]:
    """The literal ones that come first."""
    found: list[str] = []
    for token in tokens:
        if not isinstance(token, str):
            break
        found.append(token)
    return found

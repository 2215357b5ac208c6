"""One table spliced into the text of a TOML file, at its end, and cut out of it again.

A table may stand anywhere between others, so the end is its place: all that stands before keeps its bytes. Whether the
result says what it should is asked of `tomllib`, before anybody writes it.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tallystick.extensions.clients.splice import Path, Splice, Unreadable, newline_of, unreadable

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]|\n|[^"\'#\[\]{}\n]+',
    re.DOTALL,
)


def parse(text: str) -> dict[str, Any]:
    """Raises Unreadable with line and column."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None


def value_at(text: str, path: Path) -> Any:
    """What stands there; KeyError where nothing does."""
    value: Any = parse(text)
    for key in path:
        if not isinstance(value, dict):
            raise KeyError(key)
        value = value[key]
    return value


def put(text: str, path: Path, value: Mapping[str, Any]) -> Splice:
    """A table of its own, which must not be there. Its values are texts, lists of texts, and tables of texts."""
    expected = copy.deepcopy(parse(text))
    holder = expected
    for key in path[:-1]:
        holder = holder.setdefault(key, {})
        if not isinstance(holder, dict):
            raise Unreadable(f"'{key}' is no table")
    if path[-1] in holder:
        raise Unreadable(f"'{'.'.join(path)}' is there already")
    holder[path[-1]] = dict(value)
    newline = newline_of(text)
    # Apart from what stands before it by one empty line.
    gap = "" if not text.strip("\ufeff \t\r\n") else newline if text.endswith("\n") else newline * 2
    splice = Splice(len(text), gap + newline.join(_table(path, value)) + newline)
    _require(splice.into(text), expected, path)
    return splice


def cut(text: str, path: Path) -> str:
    """Without the table and those within it. Raises KeyError, and Unreadable where it is not written as a table."""
    expected = parse(text)
    holder = value_at(text, path[:-1]) if path[:-1] else expected
    if path[-1] not in holder:
        raise KeyError(".".join(path))
    spans = list(_spans(text, path))
    for start, end in reversed(spans):
        text = text[:start] + text[end:]
    _require(text, _without(expected, path), path)
    return text


def text_at(text: str, path: Path) -> str:
    return "".join(text[start:end] for start, end in _spans(text, path))


def _require(text: str, expected: dict[str, Any], path: Path) -> None:
    try:
        found = parse(text)
    except Unreadable:
        found = {}
    if found != expected:
        raise Unreadable(f"'{'.'.join(path)}' cannot be a table of its own here: '{path[0]}' is written in another way")


def _without(value: dict[str, Any], path: Path) -> dict[str, Any]:
    """Tables that are there only because of what is in them go with it."""
    changed = copy.deepcopy(value)
    holders = [changed]
    for key in path[:-1]:
        holders.append(holders[-1][key])
    for holder, key in zip(reversed(holders), reversed(path), strict=True):
        del holder[key]
        if holder:
            break
    return changed


def _table(path: Path, value: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{'.'.join(map(_key, path))}]"
    for key, each in value.items():
        if not isinstance(each, Mapping):
            yield f"{_key(key)} = {json.dumps(each, ensure_ascii=False)}"
    for key, each in value.items():
        if isinstance(each, Mapping):
            yield ""
            yield from _table((*path, key), each)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


class _Table(NamedTuple):
    start: int
    """Of its header."""
    end: int
    """Behind the line of its last key: comments below that are about what follows."""
    path: Path | None
    """None for one of an array of tables."""


def _spans(text: str, path: Path) -> Iterator[tuple[int, int]]:
    """Of each table that is the one or in it, with the empty line before it."""
    for table in _tables(text):
        if table.path is not None and table.path[: len(path)] == path:
            line = text[: table.start].removesuffix("\n").removesuffix("\r")
            yield len(line) if line.endswith("\n") else table.start, table.end


def _tables(text: str) -> Iterator[_Table]:
    depth, fresh, start, last = 0, True, None, 0
    for token in _TOKEN.finditer(text, 1 if text.startswith("\ufeff") else 0):
        sign = token.group()
        if sign == "\n":
            fresh = depth == 0
            continue
        if sign == "[" and fresh:
            if start is not None:
                yield _Table(start, _line_end(text, last), _name(text, start))
            start = token.start()
        if sign in ("[", "{"):
            depth += 1
        elif sign in ("]", "}"):
            depth -= 1
        if sign.strip(" \t\r"):
            fresh = False
            last = last if sign.startswith("#") else token.end()
    if start is not None:
        yield _Table(start, _line_end(text, last), _name(text, start))


def _line_end(text: str, at: int) -> int:
    return text.find("\n", at) + 1 or len(text)


def _name(text: str, at: int) -> Path | None:
    line = text[at : _line_end(text, at)].rstrip("\r\n")
    if line.startswith("[["):
        return None
    try:
        value = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        raise unreadable(text, at, "this is no header of a table") from None
    path: list[str] = []
    while value:
        key = next(iter(value))
        path.append(key)
        value = value[key]
    return tuple(path)

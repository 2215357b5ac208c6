"""One key, or one element, spliced into the text of a JSON file, and cut out of it again.

A file that a person keeps is never written anew: order, indentation, line ends, comments and trailing commas are
theirs. Pure functions of text. `comments` says whether the file's reader takes comments and trailing commas.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from tallystick.extensions.clients.splice import Path, Splice, newline_of, unreadable

_DEPTH_MAX = 200
_BOM = "\ufeff"
_TRIVIA = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)+", re.DOTALL)
_BLANK = re.compile(r"[ \t\r\n]+")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_SAME_LINE = re.compile(r"[ \t]*(?:/\*[^\n]*?\*/[ \t]*)*(?://[^\n\r]*)?")
_COMMENT = re.compile(r"[ \t]*(?://|/\*)")


class Node(NamedTuple):
    start: int
    end: int
    value: Any
    """What it means, as `json.loads` would say; of an object the last of equal keys."""
    members: tuple[Member, ...] = ()
    """Of an object or, with empty keys, of an array."""
    trailing_comma: int | None = None
    """Where it stands."""


class Member(NamedTuple):
    key: str
    start: int
    """Of the key, or of the element."""
    node: Node
    after: int
    """The end of the bracket or comma before it."""


def parse(text: str, *, comments: bool = True) -> Node | None:
    """None for a text without a value. Raises Unreadable with line and column."""
    reader = _Reader(text, comments)
    reader.skip()
    if reader.at == len(text):
        return None
    node = reader.value(0)
    reader.skip()
    if reader.at != len(text):
        raise unreadable(text, reader.at, "something follows the value")
    return node


def value_at(text: str, path: Path, *, comments: bool = True) -> Any:
    """What stands there; KeyError where nothing does."""
    return _walk(text, path, comments).value


def text_at(text: str, path: Path, *, comments: bool = True) -> str:
    node = _walk(text, path, comments)
    return text[node.start : node.end]


def put(text: str, path: Path, value: Any, *, comments: bool = True) -> Splice:
    """The key at the end of `path`, which must not be there; containers that are missing are made with it."""
    root = parse(text, comments=comments)
    if root is None:
        return _document(text, path, value)
    node, missing = _reach(text, root, path)
    if not missing:
        raise unreadable(text, node.start, f"{_named(path)} is there already")
    splice = _into(text, node, missing[0], _nested(missing[1:], value), comments)
    return Splice(splice.at, splice.inserted, len(missing))


def append(text: str, path: Path, value: Any, *, comments: bool = True) -> Splice:
    """An element at the end of the array at `path`, which is made where it is missing."""
    root = parse(text, comments=comments)
    node, missing = (None, path) if root is None else _reach(text, root, path)
    if node is None or missing:
        splice = put(text, path, [value], comments=comments)
        return Splice(splice.at, splice.inserted, splice.made + 1)
    if not isinstance(node.value, list):
        raise unreadable(text, node.start, f"{_named(path)} is no array")
    return _into(text, node, "", value, comments)


def cut_key(text: str, path: Path, *, comments: bool = True, made: int = 1) -> str:
    """Without the key, and without those of the `made` - 1 containers around it that are empty then."""
    for length in range(len(path), max(len(path) - made, 0), -1):
        holder = _walk(text, path[: length - 1], comments)
        _walk(text, path[:length], comments)
        text = _without(text, holder, next(n for n, each in enumerate(holder.members) if each.key == path[length - 1]))
        if _walk(text, path[: length - 1], comments).members:
            break
    return text


def cut_element(text: str, path: Path, value: Any, *, comments: bool = True, made: int = 1) -> str:
    """The same for the first element of the array at `path` that means `value`."""
    holder = _walk(text, path, comments)
    index = next((place for place, each in enumerate(holder.members) if same(each.node.value, value)), None)
    if index is None:
        raise KeyError(".".join(path))
    text = _without(text, holder, index)
    emptied = not _walk(text, path, comments).members
    return cut_key(text, path, comments=comments, made=made - 1) if emptied and made > 1 else text


def same(one: Any, other: Any) -> bool:
    """1 and True are different things in JSON."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


# -- where


def _walk(text: str, path: Path, comments: bool) -> Node:
    root = parse(text, comments=comments)
    node, missing = (None, path) if root is None else _reach(text, root, path)
    if node is None or missing:
        raise KeyError(".".join(path))
    return node


def _reach(text: str, node: Node, path: Path) -> tuple[Node, Path]:
    """The innermost on the path that is there, and the keys that are not."""
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise unreadable(text, node.start, f"{_named(path[:depth])} is no object")
        here = [member for member in node.members if member.key == key]
        if len(here) > 1:
            raise unreadable(text, here[1].start, f"'{key}' stands here a second time")
        if not here:
            return node, path[depth:]
        node = here[0].node
    return node, ()


def _named(path: Path) -> str:
    return f"'{'.'.join(path)}'" if path else "the whole"


# -- inserting


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _document(text: str, path: Path, value: Any) -> Splice:
    """Into a file that says nothing: behind its comments, if it has some."""
    newline, made = newline_of(text), len(path)
    written = _lines(_nested(path, value), "", "  ", newline)
    end = len(text.rstrip(" \t\r\n"))
    if end in (0, 1) and text[:end] in ("", _BOM):
        return Splice(end, written + ("" if text[end:] else newline), made)
    return Splice(len(text), ("" if text.endswith("\n") else newline) + written + newline, made)


def _into(text: str, holder: Node, key: str, value: Any, comments: bool) -> Splice:
    """A new last member."""
    named = f"{json.dumps(key, ensure_ascii=False)}: " if isinstance(holder.value, dict) else ""
    last = holder.members[-1] if holder.members else None
    if last is not None and "\n" not in text[holder.start : holder.end]:
        written = named + json.dumps(value, ensure_ascii=False)
        if holder.trailing_comma is not None:
            return Splice(holder.trailing_comma + 1, f" {written},")
        return Splice(last.node.end, f", {written}")
    newline, unit = newline_of(text), _unit(text)
    indent = _indent(text, holder.members[0].start) if last is not None else _indent(text, holder.start) + unit
    written = newline + indent + named + _lines(value, indent, unit, newline)
    if last is None:
        at = _after_comment(text, holder.start + 1, comments)
        closes = "\n" not in text[at : holder.end]
        return Splice(at, written + (newline + _indent(text, holder.start) if closes else ""))
    if holder.trailing_comma is not None:
        return Splice(_after_comment(text, holder.trailing_comma + 1, comments), written + ",")
    if comments and _COMMENT.match(text, last.node.end):
        # It is about what stands before it, and a comma is needed there: one further up is used instead.
        return Splice(_after_comment(text, last.after, comments), written + ",")
    return Splice(last.node.end, "," + written)


def _after_comment(text: str, at: int, comments: bool) -> int:
    """Behind what is said about this line in the same line."""
    found = _SAME_LINE.match(text, at) if comments else None
    if found is None or not found.group().strip():
        return at
    # What follows a comment of the /* */ kind in the same line would be moved away from it.
    return at + len(found.group().rstrip()) if text[found.end() : found.end() + 1] in ("\r", "\n", "") else at


def _lines(value: Any, indent: str, unit: str, newline: str) -> str:
    """As people write it: lists of words in one line."""
    inner = newline + indent + unit
    if isinstance(value, dict) and value:
        members = (
            f"{json.dumps(key, ensure_ascii=False)}: {_lines(each, indent + unit, unit, newline)}"
            for key, each in value.items()
        )
        return "{" + inner + ("," + inner).join(members) + newline + indent + "}"
    if isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        elements = (_lines(each, indent + unit, unit, newline) for each in value)
        return "[" + inner + ("," + inner).join(elements) + newline + indent + "]"
    return json.dumps(value, ensure_ascii=False)


def _indent(text: str, at: int) -> str:
    """Of the line in which this stands."""
    line = text[text.rfind("\n", 0, at) + 1 : at].removeprefix(_BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    if found is None:
        return "  "
    return "\t" if found[1].startswith("\t") else found[1][:8]


# -- cutting


def _without(text: str, holder: Node, index: int) -> str:
    """Without a member, its comma, and the line it leaves behind. What is said in the line before it stays."""
    members, member = holder.members, holder.members[index]
    start, end = _line_kept(text, member.after), member.node.end
    if index + 1 < len(members):
        return _joined(text, text[:start], _line_kept(text, members[index + 1].after))
    if holder.trailing_comma is not None:
        return _joined(text, text[:start], _line_kept(text, holder.trailing_comma + 1))
    if index:
        return _joined(text, text[: member.after - 1] + text[member.after : start], end)
    return _joined(text, text[:start], holder.end - 1 if not text[end : holder.end - 1].strip() else end)


def _joined(text: str, kept: str, end: int) -> str:
    """With what follows `end`, in a line of its own where `kept` ends in a comment that would swallow it."""
    last = kept[kept.rfind("\n") + 1 :]
    rest = text[end:]
    swallows = "//" in last and rest.lstrip(" \t")[:1] not in ("\r", "\n", "")
    return kept + (newline_of(text) if swallows else "") + rest


def _line_kept(text: str, at: int) -> int:
    found = _SAME_LINE.match(text, at)
    return found.end() if found is not None and text[found.end() : found.end() + 1] in ("\r", "\n") else at


# -- reading


class _Reader:
    def __init__(self, text: str, comments: bool) -> None:
        self.text, self.comments = text, comments
        self.at = 1 if text.startswith(_BOM) else 0

    def skip(self) -> None:
        found = (_TRIVIA if self.comments else _BLANK).match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def value(self, depth: int) -> Node:
        start, sign = self.at, self.text[self.at : self.at + 1]
        if depth > _DEPTH_MAX:
            raise unreadable(self.text, start, "it is nested too deeply")
        if sign in ("{", "["):
            return self._container(start, sign, depth)
        if sign == '"':
            said = self._string()
            return Node(start, self.at, said)
        if (number := _NUMBER.match(self.text, start)) is not None:
            self.at = number.end()
            return Node(
                start, self.at, float(number.group()) if len(number.group()) > 300 else json.loads(number.group())
            )
        for word, meant in _WORDS.items():
            if self.text.startswith(word, start):
                self.at = start + len(word)
                return Node(start, self.at, meant)
        raise unreadable(self.text, start, self._unexpected("a value"))

    def _string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise unreadable(self.text, self.at, "this text does not end, or has a character that must be escaped")
        self.at = found.end()
        meant: str = json.loads(found.group())
        return meant

    def _container(self, start: int, sign: str, depth: int) -> Node:
        closing, members = "}" if sign == "{" else "]", list[Member]()
        comma: int | None = None
        self.at += 1
        after = self.at
        while True:
            self.skip()
            if self.text.startswith(closing, self.at):
                break
            members.append(self._member(sign == "{", after, depth))
            comma = None
            self.skip()
            if self.text.startswith(",", self.at):
                comma, after = self.at, self.at + 1
                self.at += 1
            elif not self.text.startswith(closing, self.at):
                raise unreadable(self.text, self.at, self._unexpected(f"',' or '{closing}'"))
        if comma is not None and not self.comments:
            raise unreadable(self.text, comma, "no comma may stand before the end")
        self.at += 1
        value: Any = [member.node.value for member in members]
        if sign == "{":
            value = {member.key: member.node.value for member in members}
        return Node(start, self.at, value, tuple(members), comma)

    def _member(self, keyed: bool, after: int, depth: int) -> Member:
        start, key = self.at, ""
        if keyed:
            if not self.text.startswith('"', self.at):
                raise unreadable(self.text, self.at, self._unexpected("a key in quotes"))
            key = self._string()
            self.skip()
            if not self.text.startswith(":", self.at):
                raise unreadable(self.text, self.at, self._unexpected("':'"))
            self.at += 1
            self.skip()
        return Member(key, start, self.value(depth + 1), after)

    def _unexpected(self, wanted: str) -> str:
        if self.at >= len(self.text):
            return f"it ends where {wanted} is expected"
        if self.text.startswith("/", self.at) and not self.comments:
            return "its reader takes no comments"
        return f"{wanted} is expected"

"""The mask: what a redaction leaves of a document, and how that fits where the document was.

A line of the log never changes its length, and many values are shorter than "[REDACTED]". Where
the word does not fit, the payload is abridged: `attrs` is called `*7` instead, and each member
in it whose value is 7 was redacted; so was a content whose text is 7. The number is one that no
other member has, so a digit almost always, and no value is shorter than a digit.

    {"attrs":{"mail":"a@b.c","pin":4},"id":"ann","type":"person"}
    {"*0":{"mail":"a@b.c","pin":0},"id":"ann","type":"person"}

Whoever reads documents reads them through `unabridged`; hashes are of the stored bytes.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from itertools import count
from typing import Any

import msgspec

from tallystick.commits.canonical import canonical_bytes, parse
from tallystick.errors import Corrupt, InvalidArgument

REDACTED = "[REDACTED]"

Document = dict[str, Any]

_ATTRS = "attrs"
_CONTENT = "content"
_TEXT = "text"
_TAGGED = re.compile("attrs#([0-9a-f]{8})([0-9a-f]{4})")
_ABRIDGED = b'{"*'
ABRIDGED_IN_LINE = b'"payload":' + _ABRIDGED
"""A line without it is whole. A document may hold such bytes too; `unabridged` is not misled."""


class NameTag(msgspec.Struct, frozen=True):
    """An attribute whose name goes with its value, and so is not said by the redaction: `attrs#<salt><tag>`.

    The tag is 16 bits of the name's salted hash. Enough to find it among the names of one entity, since the salt is
    chosen so; too few to confirm a guess.
    """

    salt: str
    tag: str

    def is_of(self, name: str) -> bool:
        return sha256(f"{self.salt}{name}".encode()).hexdigest().startswith(self.tag)


Path = str | NameTag


def tag_name(name: str, names: Collection[str]) -> str:
    """The field of a redaction that takes this attribute with its name, and no other of `names`."""
    while True:
        salt = secrets.token_hex(4)
        tag = NameTag(salt, sha256(f"{salt}{name}".encode()).hexdigest()[:4])
        if not any(tag.is_of(other) for other in names if other != name):
            return f"{_ATTRS}#{tag.salt}{tag.tag}"


def is_field(field: str) -> bool:
    """Whether a redaction can name it."""
    return field == _ATTRS or field[:6] == "attrs." != field or _TAGGED.fullmatch(field) is not None


def paths_of(fields: Sequence[str] | None) -> list[Path] | None:
    """Paths below attrs; None stands for all of them. Raises InvalidArgument for what is no attribute."""
    if fields is None or _ATTRS in fields:
        return None
    wrong = [field for field in fields if not is_field(field)]
    if wrong:
        raise InvalidArgument(
            "only attributes can be redacted",
            problems=[f"'{field}' does not start with 'attrs.'" for field in wrong],
        )
    return [_path(field) for field in fields]


def _path(field: str) -> Path:
    tagged = _TAGGED.fullmatch(field)
    return field[len(_ATTRS) + 1 :] if tagged is None else NameTag(*tagged.groups())


def redact(document: Document, fields: Sequence[str] | None) -> Document:
    """What was given is left as it is. What is not there is not invented; content goes when nothing is named."""
    attrs = document.get(_ATTRS)
    left = document | {_ATTRS: redact_attributes(attrs, paths_of(fields))} if isinstance(attrs, dict) else document
    return left | {_CONTENT: redact_content(left[_CONTENT])} if fields is None and left.get(_CONTENT) else left


def redact_attributes(attrs: Document, paths: Sequence[Path] | None) -> Document:
    if paths is None:
        return dict.fromkeys(attrs, REDACTED)
    for path in paths:
        if isinstance(path, NameTag):
            attrs = {name: value for name, value in attrs.items() if not path.is_of(name)}
        else:
            attrs = _redact_path(attrs, path)
    return attrs


def redact_content(content: Document) -> Document:
    return {name: value for name, value in content.items() if name in ("format", "encoding")} | {_TEXT: REDACTED}


def fitted(document: Document, room: int) -> bytes:
    """The payload of a redacted document, in no more bytes than it had before it was redacted."""
    for spell in (canonical_bytes, _abridged):
        payload = spell(document)
        if len(payload) <= room:
            return payload
    # Ten digits and more stay, and most of what goes was no longer than a digit: the names go too.
    return canonical_bytes(_without_redacted(document))


def unabridged(payload: bytes) -> bytes:
    """The payload as it would be if there had been room for the word. Raises Corrupt for what nobody abridged."""
    if not payload.startswith(_ABRIDGED):
        return payload
    try:
        document: Document = parse(payload)
        name = next(iter(document))
        mark = int(name[1:])
    except (ValueError, msgspec.MsgspecError) as error:
        raise Corrupt(f"the payload is neither whole nor abridged: {error}") from None
    document[_ATTRS] = _each_member(document.pop(name), lambda value: REDACTED if _is_number(value, mark) else value)
    content = document.get(_CONTENT)
    if isinstance(content, dict) and _is_number(content.get(_TEXT), mark):
        content[_TEXT] = REDACTED
    return canonical_bytes(document)


# -- paths


def _redact_path(members: Document, path: str) -> Document:
    """Every reading of the path is followed: names may have dots in them, and lists may hold objects."""
    return {
        name: REDACTED
        if name == path
        else _redact_below(value, path[len(name) + 1 :])
        if path.startswith(name + ".")
        else value
        for name, value in members.items()
    }


def _redact_below(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        return _redact_path(value, path)
    if isinstance(value, list):
        return [_redact_below(each, path) for each in value]
    return value


# -- room


def _abridged(document: Document) -> bytes:
    attrs: Document = document.get(_ATTRS, {})
    taken = {value for value in _members(attrs) if type(value) is int}
    mark = next(number for number in count() if number not in taken)
    left = {name: value for name, value in document.items() if name != _ATTRS}
    left[f"*{mark}"] = _each_member(attrs, lambda value: mark if value == REDACTED else value)
    if _is_redacted(left.get(_CONTENT)):
        left[_CONTENT] = left[_CONTENT] | {_TEXT: mark}
    return canonical_bytes(left)


def _without_redacted(document: Document) -> Document:
    left = document | {_ATTRS: _kept_members(document.get(_ATTRS, {}))}
    return {name: value for name, value in left.items() if name != _CONTENT or not _is_redacted(value)}


def _is_redacted(content: Document | None) -> bool:
    return content is not None and content.get(_TEXT) == REDACTED


def _is_number(value: Any, number: int) -> bool:
    return type(value) is int and value == number


def _members(value: Any) -> Iterator[Any]:
    """The values of all members of all objects in it."""
    if isinstance(value, dict):
        yield from value.values()
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _members(each)


def _each_member(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: _each_member(change(each), change) for name, each in value.items()}
    return [_each_member(each, change) for each in value] if isinstance(value, list) else value


def _kept_members(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _kept_members(each) for name, each in value.items() if each != REDACTED}
    return [_kept_members(each) for each in value] if isinstance(value, list) else value

"""The mentions of a person: where commits name somebody, and what can be done about it.

A redaction reaches the attributes and the content of nodes and edges. Everything else that a
commit says (ids, types, who wrote it and why) is part of what the chain
proves or of what entities are known by: such mentions are found, and reported as they are.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unicodedata import normalize

import msgspec

from tallystick.commits import EDGE_VERBS, Commit
from tallystick.commits.mask import REDACTED
from tallystick.state.derivation import entity_of

ReadBlob = Callable[[dict[str, Any]], bytes]
"""The bytes of a content that is kept in a blob. Raises when they cannot be read."""


class Subject:
    """Somebody, by the texts that name them; upper and lower case are the same, and so are all ways to encode a
    letter."""

    def __init__(self, texts: Iterable[str], *, whole_words: bool = False) -> None:
        self.whole_words = whole_words
        self.texts = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
        self._folded = [folded(text) for text in self.texts]
        words = "|".join(rf"(?<!\w){re.escape(text)}(?!\w)" for text in self._folded)
        self._words = re.compile(words) if whole_words else None

    def is_called(self, text: str) -> bool:
        """Whether the text is one of the names, and nothing more."""
        return folded(text).strip() in self._folded

    def has_id(self, entity_id: str) -> bool:
        """Whether an id, or its last segment, is one of the names; `ada-example` is Ada Example."""
        spelt = _spelt(re.split(r"[/:]", entity_id)[-1])
        return self.is_called(entity_id) or (bool(spelt) and spelt in map(_spelt, self._folded))

    def is_named_in(self, text: str) -> bool:
        searched = folded(text)
        if self._words is not None:
            return self._words.search(searched) is not None
        return any(each in searched for each in self._folded)


def folded(text: str) -> str:
    """Return the text in lower case, with composed letters and without full-width forms and ligatures."""
    if text.isascii():
        return text.casefold()
    return normalize("NFKC", normalize("NFKC", text).casefold())


def _spelt(name: str) -> str:
    """The words of a name, whatever stands between them."""
    return " ".join(re.findall(r"[^\W_]+", folded(name)))


class Mention(msgspec.Struct, frozen=True):
    entity: str
    kind: str
    """node, edge, or commit for what is said beside the payload"""
    place: str
    lamport: int
    commit_id: str
    field: str | None = None
    """What to redact so that it is gone: `attrs.…`, or `content`, which goes with all the rest. None: nothing can."""
    in_name: bool = False
    """Whether it is the name of the attribute that has to go, with its value."""

    @property
    def why(self) -> str:
        """Why no redaction reaches it."""
        if self.kind == "commit":
            return "beside the payload, where the chain's hashes cover it"
        if self.place in ("reason", "redacted_fields"):
            return "said by a redaction, which is never redacted itself"
        return "names the entity: other commits and entities know it by this"


class Unread(msgspec.Struct, frozen=True):
    """A content that could not be searched."""

    entity: str
    lamport: int


CALLED_BY = frozenset(
    {"name", "names", "fullname", "displayname", "title", "label", "email", "mail", "phone", "username", "login",
     "handle"}
)  # fmt: skip
"""Attributes that name the entity itself, if their value, or one in a list of them, is a name and nothing more. Written
without what stands between the words."""


def is_subject(commit: Commit, subject: Subject) -> bool:
    """Whether the commit writes a node that is the person: all its attributes are personal data, not only those that
    contain a name."""
    if commit.operation in EDGE_VERBS:
        return False
    said = commit.document()
    attrs = said.get("attrs") or {}
    if isinstance(said.get("id"), str) and subject.has_id(said["id"]):
        return True
    named = (value for name, value in attrs.items() if _spelt(name).replace(" ", "") in CALLED_BY)
    names = (each for value in named for each in (value if isinstance(value, list) else [value]))
    return any(isinstance(each, str) and subject.is_called(each) for each in names)


def attributes_of(commit: Commit) -> Iterator[str]:
    """What a redaction of everything that the commit's node says has to name: attributes that were not redacted, and
    `content`."""
    said = commit.document()
    yield from (f"attrs.{name}" for name, value in (said.get("attrs") or {}).items() if value != REDACTED)
    content = said.get("content")
    if isinstance(content, dict) and content.get("text") != REDACTED:
        yield "content"


def find_mentions(commit: Commit, subject: Subject, read_blob: ReadBlob) -> Iterator[Mention | Unread]:
    entity = entity_of(commit)

    def mention(kind: str, place: str, field: str | None = None, *, in_name: bool = False) -> Mention:
        return Mention(entity, kind, place, commit.lamport, commit.commit_id, field, in_name)

    for place, text in _record(commit):
        if subject.is_named_in(text):
            yield mention("commit", place)
    said = commit.document()
    kind = "edge" if commit.operation in EDGE_VERBS else "node"
    for place in ("id", "node_id", "type", "from", "rel", "to", "reason"):
        if isinstance(said.get(place), str) and _names(subject, place, said[place]):
            yield mention(kind, place)
    for name in _texts(said.get("redacted_fields", [])):
        if subject.is_named_in(name):
            yield mention(kind, "redacted_fields")
    for name, value in (said.get("attrs") or {}).items():
        place = f"attrs.{name}"
        if subject.is_named_in(name):
            yield mention(kind, place, place, in_name=True)
        else:
            for path in dict.fromkeys(_values(value, place, subject)):
                yield mention(kind, path, path)
    content = said.get("content")
    if isinstance(content, dict):
        try:
            named = subject.is_named_in(_text_of(content, read_blob))
        except Exception:  # Whatever stands against reading it, it was not searched.
            yield Unread(entity, commit.lamport)
        else:
            if named:
                yield mention(kind, "content", "content")


def _names(subject: Subject, place: str, text: str) -> bool:
    return subject.is_named_in(text) or (place in _IDS and subject.has_id(text))


_IDS = frozenset({"id", "node_id", "from", "to"})


def _record(commit: Commit) -> Iterator[tuple[str, str]]:
    """What is said beside the payload, and covered by record_hash."""
    yield "actor", commit.actor
    if commit.reason is not None:
        yield "reason", commit.reason
    if commit.nonce is not None:
        yield "nonce", commit.nonce
    for name, value in (commit.run_context or {}).items():
        yield f"run_context.{name}", value


def _values(value: Any, path: str, subject: Subject) -> Iterator[str]:
    """Paths as a redaction wants them."""
    if isinstance(value, dict):
        for name, each in value.items():
            if subject.is_named_in(name):
                # Names stay when a value is redacted, so it has to be the value that has this name in it.
                yield path
            else:
                yield from _values(each, f"{path}.{name}", subject)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each, path, subject)
    elif isinstance(value, str | int | float) and not isinstance(value, bool) and subject.is_named_in(str(value)):
        yield path


def _texts(values: Sequence[Any]) -> Iterator[str]:
    return (each for each in values if isinstance(each, str))


def _text_of(content: dict[str, Any], read_blob: ReadBlob) -> str:
    data = str(content["text"]).encode() if "text" in content else read_blob(content)
    if content.get("encoding") == "base64" and "text" in content:
        try:
            data = b64decode(data, validate=True)
        except (Base64Error, ValueError):
            return data.decode()
    # What is not text is searched for the bytes that are.
    return data.decode("utf-8", "ignore")

"""File names for ids that may be anything: a path that leaves the directory, two that differ in case, a device.

A name that says an id as it is, is kept; any other gets a hash of the id behind it. So the same id has the same name
in every export, as long as no other one is spelt like it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import sha256
from unicodedata import normalize

STEM_CHARACTERS_MAX = 60
_UNSAFE = re.compile(r"[^\w.-]+")
_EDGES = ".-_ "
_HASH_DIGITS = 10
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³"}
)
_RESERVED = frozenset({"index", "log", "node_modules", "__pycache__"})
"""What the forms, or those who read them, take for something else."""


def file_names(ids: Iterable[str]) -> dict[str, str]:
    """A stem for each id: no two are equal, in whatever case a file system compares them."""
    stems = {each: _stem(each) for each in ids}
    alike = Counter(_folded(stem) for stem in stems.values())
    names: dict[str, str] = {}
    taken = {folded for folded, count in alike.items() if count == 1}
    for each, stem in stems.items():
        if stem and stem == each and alike[_folded(stem)] == 1:
            names[each] = stem
            continue
        name = _with_hash(stem, each, taken)
        taken.add(_folded(name))
        names[each] = name
    return names


def paths(types: Mapping[str, str]) -> dict[str, str]:
    """For each id, by its type: `TYPE/NAME`, without a suffix."""
    directories = file_names(dict.fromkeys(types.values()))
    grouped: dict[str, list[str]] = {}
    for entity_id, kind in types.items():
        grouped.setdefault(kind, []).append(entity_id)
    found = {
        entity_id: f"{directories[kind]}/{name}"
        for kind, ids in grouped.items()
        for entity_id, name in file_names(ids).items()
    }
    return {entity_id: found[entity_id] for entity_id in types}


def _stem(text: str) -> str:
    safe = _UNSAFE.sub("-", normalize("NFC", text))[:STEM_CHARACTERS_MAX].strip(_EDGES)
    is_taken = safe.partition(".")[0].casefold() in _DEVICES or safe.casefold() in _RESERVED
    return f"_{safe}" if is_taken else safe


def _with_hash(stem: str, text: str, taken: set[str]) -> str:
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    for digits in range(_HASH_DIGITS, len(digest) + 1):
        name = f"{stem}-{digest[:digits]}" if stem else digest[:digits]
        if _folded(name) not in taken:
            return name
    raise AssertionError("two ids of one hash")


def _folded(name: str) -> str:
    return normalize("NFKD", normalize("NFKD", name).casefold())

"""What an entity is called by people: the attribute that names it, else its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick.commits.mask import REDACTED

_NAMING = ("title", "name", "summary", "label", "subject", "goal")
CHARACTERS_MAX = 120
VOCABULARIES = ("work", "tasks", "knowledge", "ontology", "trust")
"""Types of theirs begin so; all others are memory."""


def title_of(entity_id: str, attrs: Mapping[str, Any] | None) -> str:
    for key in _NAMING:
        said = (attrs or {}).get(key)
        if isinstance(said, str) and said.strip() and said != REDACTED:
            return shortened(" ".join(said.split()))
    return shortened(entity_id)


def shortened(text: str, characters: int = CHARACTERS_MAX) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def vocabulary_of(type_name: str) -> str:
    prefix, slash, _ = type_name.partition("/")
    return prefix if slash and prefix in VOCABULARIES else "memory"

"""What the importers of trackers share: priorities, and values of any kind as texts."""

from __future__ import annotations

from typing import Any

PRIORITIES = {"critical": 4, "urgent": 4, "high": 3, "medium": 2, "normal": 2, "low": 1}


def priority_of(word: Any) -> int | None:
    """As graph_next ranks it: more comes first."""
    return PRIORITIES.get(word.strip().casefold()) if isinstance(word, str) else None


def present(**properties: Any) -> dict[str, Any]:
    """Those that say something."""
    return {name: value for name, value in properties.items() if value not in (None, "", [], {})}


def ids(value: Any) -> list[str]:
    """Ids are texts or numbers, alone or in a list."""
    found = value if isinstance(value, list) else [value]
    return [str(each) for each in found if isinstance(each, str | int) and not isinstance(each, bool) and str(each)]

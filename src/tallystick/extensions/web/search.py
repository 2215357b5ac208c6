"""The search: hits of every vocabulary, best first, with what they can be narrowed by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.commits.mask import REDACTED
from tallystick.extensions.web.addresses import with_query
from tallystick.extensions.web.reports.titles import shortened, title_of, vocabulary_of
from tallystick.extensions.web.visit import Visit

FOUND_MAX = 200
"""Hits that are looked at for one page: facets count them."""
SHOWN = 20
OFFSET_MAX = 100_000
_FACETS_MAX = 12
_TEXT_CHARACTERS = 280
_NAMING = ["attrs.title", "attrs.name", "attrs.summary", "attrs.label", "attrs.subject", "attrs.goal"]
_FIELDS = ["type", "text", "created_by", "updated_by", "timestamp", "score", "from", "to", "rel", *_NAMING]
_FIELDS_WITHOUT_WORDS = ["type", "attrs", "created_by", "updated_by", "timestamp"]
_DAYS = (("today", 1), ("in the last 7 days", 7), ("in the last 30 days", 30), ("in the last year", 365))


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: str
    vocabulary: str
    title: str
    text: str
    author: str
    timestamp: str
    score: float | None
    is_stale: bool
    is_untrusted: bool
    is_redacted: bool


class Facet(msgspec.Struct, frozen=True):
    value: str
    label: str
    count: int | None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    q: str | None
    type: str | None
    by: str | None
    vocabulary: str | None
    since: str | None
    until: str | None
    as_of: str | int | None
    stale: bool

    def address(self, **changed: str | int | None) -> str:
        """Of the same search with something else in it."""
        said = {name: getattr(self, name) for name in ("q", "type", "by", "vocabulary", "since", "until", "as_of")}
        return with_query("/search", **(said | {"is": "stale" if self.stale else None} | changed))


class SearchView(msgspec.Struct, frozen=True, kw_only=True):
    asked: Asked
    hits: list[SearchHit]
    found: int
    """How many pass all filters."""
    is_cut: bool
    """There are more than `found`, which counts those that were looked at."""
    deleted: str | None
    """The id that was searched for, if an entity was deleted that had it."""
    offset: int
    previous: int | None
    next: int | None
    types: list[Facet]
    authors: list[Facet]
    times: list[Facet]
    nearest: list[str]
    """Words that look like those that nothing was found for."""


async def search_page(visit: Visit) -> SearchView:
    asked = Asked(
        q=visit.said("q"),
        type=visit.said("type"),
        by=visit.said("by"),
        vocabulary=visit.said("vocabulary"),
        since=visit.said("since"),
        until=visit.said("until"),
        as_of=visit.as_of,
        stale=visit.said("is") == "stale",
    )
    offset = visit.number("offset", 0, most=OFFSET_MAX)
    answer = await visit.ask(
        "memory.search",
        query=asked.q,
        type=asked.type,
        scope=None if asked.vocabulary is None else {"vocabulary": asked.vocabulary},
        author=asked.by,
        since=asked.since,
        until=asked.until,
        as_of=asked.as_of,
        stale=asked.stale or None,
        offset=offset,
        limit=FOUND_MAX,
        fields=_FIELDS if asked.q else _FIELDS_WITHOUT_WORDS,
    )
    if asked.q:
        visit.context.report_times.asked(visit.visitor)
    found = [_found(each) for each in answer["entities"]]
    total, is_cut = await _total(visit, answer, offset + len(found))
    end = offset + len(found[:SHOWN])
    return SearchView(
        asked=asked,
        hits=found[:SHOWN],
        found=total,
        is_cut=is_cut,
        deleted=answer.get("deleted"),
        offset=offset,
        previous=max(0, offset - SHOWN) if offset else None,
        next=end if end < total else None,
        types=_facets([each.type for each in found]),
        authors=_facets([each.author for each in found]),
        times=_times(),
        nearest=answer.get("nearest") or [],
    )


async def _total(visit: Visit, answer: dict[str, Any], seen: int) -> tuple[int, bool]:
    """How many there are, and whether there are more than that: only a search without words counts what it does not
    look at, and only if nothing may be withheld."""
    page = answer["pagination"]
    if answer.get("truncated"):
        return seen, True
    if page["next_offset"] is None:
        return seen, False
    if "total" in page and not await visit.is_withheld_from():
        return page["total"], False
    return seen, True


def _found(hit: dict[str, Any]) -> SearchHit:
    attrs = hit.get("attrs") or {}
    text = hit["text"] if "text" in hit else _told(attrs)
    is_edge = "rel" in hit
    title = f"{hit['from']} {hit['rel']} → {hit['to']}" if is_edge else title_of(hit["id"], attrs)
    return SearchHit(
        id=hit["id"],
        type=hit["type"],
        vocabulary=vocabulary_of(hit["type"]),
        title=shortened(title),
        text=shortened(text.removeprefix(title).removeprefix(" · "), _TEXT_CHARACTERS),
        author=hit.get("updated_by") or hit["created_by"],
        timestamp=hit["timestamp"],
        score=hit.get("score"),
        is_stale="stale" in hit,
        is_untrusted="untrusted" in hit,
        is_redacted=REDACTED in text,
    )


def _told(attrs: dict[str, Any]) -> str:
    said = (value if isinstance(value, str) else f"{key}: {value}" for key, value in attrs.items())
    return " · ".join(" ".join(each[:_TEXT_CHARACTERS].split()) for each in list(said)[:8])


def _facets(values: Sequence[str]) -> list[Facet]:
    return [Facet(value, value, count) for value, count in Counter(values).most_common(_FACETS_MAX)]


def _times() -> list[Facet]:
    """To the day, so that a link goes on meaning the same for as long."""
    return [Facet(to_text(wall_clock() - days * 86_400_000)[:10], label, None) for label, days in _DAYS]

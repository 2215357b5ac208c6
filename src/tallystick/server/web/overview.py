"""The overview: what is in the memory, what is being written, and, where nothing is yet, how to begin."""

from __future__ import annotations

import msgspec

from tallystick.operations.log_tail import newest
from tallystick.operations.titles import vocabulary_of
from tallystick.server.web.commit_rows import CommitRow, commit_row
from tallystick.server.web.visit import Visit

COMMITS = 12
COMMITS_SECONDS = 0.5
"""Where policy withholds most of the log, it is not read to its beginning."""


class TypeCount(msgspec.Struct, frozen=True):
    name: str
    count: int | None
    """None where something may be withheld."""


class Vocabulary(msgspec.Struct, frozen=True):
    name: str
    types: list[TypeCount]


class Connection(msgspec.Struct, frozen=True):
    client: str
    command: str


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    is_empty: bool
    entities: int | None
    """None where something may be withheld."""
    largest: int
    """The largest count of a type, for bars."""
    vocabularies: list[Vocabulary]
    commits: list[CommitRow]
    connections: list[Connection]
    """How to connect clients; only where nothing was written yet."""


async def overview(visit: Visit) -> Overview:
    entries, position = await newest(
        visit.context.offer.store,
        visit.principal,
        limit=COMMITS,
        wanted=lambda commit: True,
        seconds_max=COMMITS_SECONDS,
    )
    facets = await visit.ask("memory.search", facets=True)
    types = [TypeCount(each["name"], each.get("count")) for each in facets["facets"]["types"]]
    counts = [each.count for each in types if each.count is not None]
    return Overview(
        position=position,
        is_empty=position == 0,
        entities=sum(counts) if len(counts) == len(types) else None,
        largest=max(counts, default=1),
        vocabularies=_by_vocabulary(types),
        commits=[commit_row(entry.commit) for entry in reversed(entries)],
        connections=[] if position else connections(visit.site),
    )


def _by_vocabulary(types: list[TypeCount]) -> list[Vocabulary]:
    found: dict[str, list[TypeCount]] = {}
    for each in types:
        found.setdefault(vocabulary_of(each.name), []).append(each)
    return [Vocabulary(name, found[name]) for name in sorted(found, key=lambda name: (name != "memory", name))]


def connections(site: str) -> list[Connection]:
    url = f"{site}/mcp"
    entry = f'{{"mcpServers": {{"tallystick": {{"type": "http", "url": "{url}"}}}}}}'
    return [
        Connection("All clients of a repository", "tallystick init"),
        Connection("Claude Code", f"claude mcp add --transport http tallystick {url}"),
        Connection("Codex", f"codex mcp add tallystick --url {url}"),
        Connection("Cursor, and others with a file of servers", entry),
    ]

"""The shapes of what is answered, and how much of it fits.

Lists are cut where an agent's context would overflow, and say so; `next_offset` says where to go on.
What was asked for by its id is never cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tallystick.state import Breathing, Edge, Node, Path, Provenance
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets.memory import hit_text
from tallystick.toolsets.memory.word_search import Matches, Ranked, Wanted
from tallystick.toolsets.truncation import fair_share, fitting, size_of

ANSWER_BYTES_MAX = 50_000
"""25,000 tokens at two bytes each: hashes are that dense, prose takes half as many tokens."""


def provenance_of(found: Provenance) -> dict[str, Any]:
    return {
        "commit_id": found.commit_id,
        "created_by": found.created_by,
        "updated_by": found.updated_by,
        "timestamp": found.timestamp,
        "lamport": found.lamport,
        "content_hash": found.content_hash,
    }


def origin_of(found: Provenance) -> dict[str, Any]:
    """Of a hit: who and when, and the commit to ask more about. Its other hashes come when they are asked for."""
    authors = {"created_by": found.created_by}
    if found.updated_by != found.created_by:
        authors["updated_by"] = found.updated_by
    return {**authors, "commit_id": found.commit_id, "timestamp": found.timestamp}


def entity_of(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "type": node.type,
        "attrs": node.attrs,
        "created_by": node.provenance.created_by,
        "updated_by": node.provenance.updated_by,
    }


def edge_of(edge: Edge) -> dict[str, Any]:
    return {"id": edge.id, "from": edge.source, "to": edge.target, "rel": edge.rel, "attrs": edge.attrs}


def path_of(path: Path, read_filter: ReadFilter) -> dict[str, Any]:
    documents = ({"from": e.source, "to": e.target, "rel": e.rel, "attrs": e.attrs} for e in path.edges)
    edges = [read_filter.warned(edge.id, document) for edge, document in zip(path.edges, documents, strict=True)]
    return {"path": path.ids, "edges": edges}


def listed_paths(paths: Sequence[Path], read_filter: ReadFilter, bytes_max: int) -> Breathing[dict[str, Any]]:
    """Return the paths that fit, and how many do not: what is not shown does not make a walk incomplete."""
    shown = yield from fitting((slim(path_of(path, read_filter), "edges", bytes_max) for path in paths), bytes_max)
    omitted = len(paths) - len(shown)
    return {"paths": shown} | ({"paths_omitted": omitted} if omitted else {})


def only(fields: list[str] | None, document: dict[str, Any]) -> dict[str, Any]:
    """The document with its id and the fields asked for; all of it when none are."""
    if fields is None:
        return document
    found: dict[str, Any] = {}
    for field in ["id", *fields]:
        _copy(field, document, found)
    return found


def _copy(path: str, source: dict[str, Any], target: dict[str, Any]) -> None:
    if path in source:
        target[path] = source[path]
        return
    # A key may itself hold dots, so every way to split the path is tried, the shortest key first.
    at = path.find(".")
    while at > 0:
        key, rest = path[:at], path[at + 1 :]
        child = source.get(key)
        if isinstance(child, dict):
            inner = target.get(key)
            if inner is child:  # All of it is there already.
                return
            copied: dict[str, Any] = dict(inner) if isinstance(inner, dict) else {}
            _copy(rest, child, copied)
            if copied:
                target[key] = copied
                return
        at = path.find(".", at + 1)


def slim(document: dict[str, Any], heavy: str, bytes_max: int) -> dict[str, Any]:
    """Without its heavy field, and marked, when it would not fit on a page of its own."""
    if size_of(document) <= bytes_max:
        return document
    return {key: value for key, value in document.items() if key != heavy} | {"oversize": True}


def pagination(*, total: int, offset: int, limit: int, shown: int, at_least: bool = False) -> dict[str, Any]:
    """`truncated` is there when the page was cut to what fits, not to what was asked for; `at_least` when there may be
    more than `total`."""
    end = offset + shown
    page = {"total": total, "offset": offset, "limit": limit, "next_offset": end if shown and end < total else None}
    page |= {"at_least": True} if at_least else {}
    return page | {"truncated": True} if shown < min(limit, total - offset) else page


# -- what words found

COMMIT_ID_DIGITS = 12
TEXT_CHARACTERS_MAX = 400
TEXT_TOKENS_LEAST = 12
FLAGS = ("untrusted", "stale")
_HIT = ("type", "text", "date", "created_by", "score", "commit_id")


def listed_hits(
    state: State,
    read_filter: ReadFilter,
    wanted: Wanted,
    found: Matches,
    fields: list[str] | None,
    tokens_max: int | None,
    bytes_max: int,
) -> Breathing[dict[str, Any]]:
    """As many hits as there is room for; their texts share it."""
    said: list[list[str]] = []
    for hit in found.hits:
        said.append(hit_text.parts_of(hit.entity))
        yield
    stems = wanted.stems()
    rooms = _rooms(found, [hit_text.SEPARATOR.join(parts) for parts in said], tokens_max)
    origins = [_origin(state, hit.entity, wanted.filter.at) for hit in found.hits[: len(rooms)]]

    def documents() -> Iterator[dict[str, Any]]:
        for hit, origin, parts, room in zip(found.hits, origins, said, rooms, strict=False):
            whole = _whole_hit(hit, origin, hit_text.snippet(parts, stems, room))
            if not read_filter.narrows:
                # Words weigh by how common they are in the whole memory, so a score depends on what may not be read.
                whole["score"] = hit.shown_score
            flags = read_filter.warned(hit.entity.id, whole)
            shown = only(list(_HIT) if fields is None else fields, whole)
            yield slim(shown | {name: flags[name] for name in FLAGS if name in flags}, "attrs", bytes_max)

    entities = yield from fitting(documents(), bytes_max)
    newest = max(origins[: len(entities)], key=lambda origin: origin.lamport, default=None)
    end = wanted.offset + len(entities)
    has_more = found.has_more or len(entities) < len(found.hits)
    page = {"offset": wanted.offset, "limit": wanted.limit, "next_offset": end if has_more and entities else None}
    is_cut = found.is_cut or len(entities) < len(found.hits)
    return {
        "entities": entities,
        "provenance": _short(origin_of(newest)) if newest else None,
        "pagination": page | ({"truncated": True} if is_cut else {}),
    }


def _rooms(found: Matches, texts: list[str], tokens_max: int | None) -> list[int]:
    """How many characters each hit may show, as long as there is room for one more."""
    if tokens_max is None:
        return [TEXT_CHARACTERS_MAX] * len(texts)
    tokens = [hit_text.tokens_of(text[:TEXT_CHARACTERS_MAX]) for text in texts]
    overhead = [hit_text.tokens_of(hit.entity.id) + 2 for hit in found.hits]
    count = len(texts)
    while (
        count > 1 and sum(overhead[:count]) + sum(min(TEXT_TOKENS_LEAST, each) for each in tokens[:count]) > tokens_max
    ):
        count -= 1
    share = max(TEXT_TOKENS_LEAST, fair_share(tokens[:count], tokens_max - sum(overhead[:count])))
    return [
        TEXT_CHARACTERS_MAX if each <= share else max(1, min(len(text), TEXT_CHARACTERS_MAX) * share // each)
        for text, each in zip(texts[:count], tokens, strict=False)
    ]


def _origin(state: State, entity: Node | Edge, at: int | None) -> Provenance:
    found = entity.provenance if isinstance(entity, Node) else state.edge_provenance(entity.id, at)
    assert found is not None, "an edge that was found has commits"
    return found


def _whole_hit(hit: Ranked, origin: Provenance, text: str) -> dict[str, Any]:
    entity = hit.entity
    if isinstance(entity, Node):
        said = entity_of(entity)
    else:
        authors = {"created_by": origin.created_by, "updated_by": origin.updated_by}
        said = {**edge_of(entity), "type": entity.rel, **authors}
    return said | {
        "text": text,
        "date": origin.timestamp[:10],
        "timestamp": origin.timestamp,
        "commit_id": origin.commit_id[:COMMIT_ID_DIGITS],
        "provenance": provenance_of(origin),
    }


def _short(origin: dict[str, Any]) -> dict[str, Any]:
    return origin | {"commit_id": origin["commit_id"][:COMMIT_ID_DIGITS]}


_COMMON = ("type", "date")


def as_lines(answer: dict[str, Any]) -> str:
    """For a model to read: a line for each hit, and what all have in common once."""
    entities = answer["entities"]
    if not entities:
        return _as_nothing(answer)
    common = {
        name: entities[0][name]
        for name in _COMMON
        if len(entities) > 1 and all(each[name] == entities[0][name] for each in entities)
    }
    lines = [f"all {' '.join(common.values())}:"] if common else []
    lines += [_line(each, [each[name] for name in _COMMON if name not in common]) for each in entities]
    if answer["pagination"]["next_offset"] is not None:
        lines.append(f"more: offset {answer['pagination']['next_offset']}")
    if answer.get("truncated"):
        lines.append(_cut_short(answer))
    if "deleted" in answer:
        lines.append(_as_deleted(answer["deleted"]))
    lines += [" → ".join(path["path"]) for path in answer.get("paths", ())]
    return _one_each(lines)


def _line(hit: dict[str, Any], own: list[str]) -> str:
    name = hit["id"] if " " not in hit["id"] else f'"{hit["id"]}"'
    flags = [_flag(flag, hit[flag]) for flag in FLAGS if flag in hit]
    marks = ", ".join([*own, *flags])
    return f"{name}{f' ({marks})' if marks else ''} {hit['text']}".rstrip()


def _flag(name: str, said: dict[str, Any]) -> str:
    why = said.get("why") or said.get("reason")
    successor = f" → {said['superseded_by']}" if "superseded_by" in said else ""
    successor += " (redacted)" if "successor_redacted" in said else ""
    return f"{name}: {why}{successor}" if isinstance(why, str) else name


def _cut_short(answer: dict[str, Any]) -> str:
    if "indexed_position" in answer:
        share = answer["indexed_position"] / max(answer["position"], 1)
        return f"not everything was looked at: {share:.0%} is in the text index yet, ask again in a moment"
    return "not everything was looked at: narrow it"


def _as_nothing(answer: dict[str, Any]) -> str:
    if "looked_for" not in answer:
        return "nothing more"
    words = " ".join(answer["looked_for"])
    told = [f"nothing found for: {words}" if words else "the query has no words"]
    if answer.get("truncated"):
        told = [f"nothing found so far; {_cut_short(answer)}"]
    if "deleted" in answer:
        told.append(_as_deleted(answer["deleted"]))
    near = answer.get("nearest", ())
    if elsewhere := [word for word in near if word in answer["looked_for"]]:
        told.append(f"elsewhere, where the other filters do not look: {', '.join(elsewhere)}")
    if others := [word for word in near if word not in answer["looked_for"]]:
        told.append(f"words that look like it: {', '.join(others)}")
    if answer.get("types"):
        told.append(f"types: {', '.join(answer['types'])}")
    return _one_each(told)


def _as_deleted(entity_id: str) -> str:
    return f"'{entity_id}' was deleted: memory.lineage has its history"


def _one_each(lines: list[str]) -> str:
    """Ids and types may hold U+2028, which is no control character: nothing of theirs may begin a line of its own."""
    return "\n".join(" ".join(line.splitlines()) for line in lines)

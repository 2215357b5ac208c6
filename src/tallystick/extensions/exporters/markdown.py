"""Notes: YAML at the head, Markdown below. What agents wrote stays within its place, whatever is in it.

Titles, ids and relations are escaped and kept on one line; attributes are values in the YAML, which a library writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import yaml

from tallystick.commits.payloads import edge_name
from tallystick.extensions.exporters import Entity, Losses, one_line
from tallystick.telemetry.logs import printable

FRONT_BYTES_MAX = 48 << 10
"""Importers read a front matter of 64 KiB at most."""
DEPTH_MAX = 12
_COLLIDING = "attributes"
"""Holds the attributes that are called like a key of the form."""
_PUNCTUATION = re.compile(r"([\\`*{}\[\]<>()#!|~$&]|(?<![^\W_])_|_(?![^\W_]))")
_PLAIN_OBSERVATION = re.compile(r"[^\s\[\]][^\r\n\[\]]*[^\s)\]\[]|[^\s\[\])]")
_BACKTICKS = re.compile("`+")
_CODE = re.compile(r"(?P<fence>```|~~~).*?(?P<end>(?P=fence)|\Z)|`[^`\n]*`", re.DOTALL)
_LINE_ENDS = re.compile("[\r\n\x85\u2028\u2029]")

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_DUMPER):  # type: ignore[misc]  # the C library's or, where there is none, the one in Python
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    # On one line: so no line of a text can be taken for the end of the front matter.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _LINE_ENDS.search(text) else None)


_Dumper.add_representer(str, _represent_text)


def to_yaml(value: Mapping[str, Any]) -> str:
    text: str = yaml.dump(dict(value), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=1 << 30)
    return text


def note(
    head: Mapping[str, Any],
    attrs: Mapping[str, Any],
    body: Iterable[str],
    *,
    keys: frozenset[str],
    losses: Losses,
    entity_id: str,
) -> bytes:
    """The attributes follow the head, or are put below it where they would be taken for one of the form's `keys`;
    what is too large or too deep for a front matter is in the body."""
    own = {name: value for name, value in attrs.items() if name not in keys and name != _COLLIDING}
    colliding = {name: value for name, value in attrs.items() if name not in own}
    said = {name: value for name, value in head.items() if value is not None} | own
    if colliding:
        said[_COLLIDING] = colliding
    moved = [name for name in (*own, *((_COLLIDING,) if colliding else ())) if _depth(said[name]) > DEPTH_MAX]
    front = to_yaml({name: value for name, value in said.items() if name not in moved})
    if len(front.encode()) > FRONT_BYTES_MAX:
        moved += _largest(said, [name for name in said if name not in head and name not in moved], len(front.encode()))
        front = to_yaml({name: value for name, value in said.items() if name not in moved})
    parts = [each for each in body if each]
    for name in moved:
        losses.note(
            "attribute that is too large or too deep", "in the body of the note as JSON", f"{entity_id}: {name}"
        )
        parts.append(f"## {escaped(name)}\n\n{fenced(orjson.dumps(said[name]).decode(), 'json')}")
    return f"---\n{front}---\n\n{chr(10).join(f'{part}{chr(10)}' for part in parts)}".encode()


def _largest(said: Mapping[str, Any], names: list[str], size: int) -> list[str]:
    """As many as must go, the largest first."""
    sizes = {name: len(to_yaml({name: said[name]}).encode()) for name in names}
    moved: list[str] = []
    for name in sorted(sizes, key=lambda each: -sizes[each]):
        if size <= FRONT_BYTES_MAX:
            break
        moved.append(name)
        size -= sizes[name]
    return moved


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list) or not value:
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value))


def escaped(text: str, most: int = 200) -> str:
    """One line that Markdown shows as it is."""
    return _PUNCTUATION.sub(r"\\\1", printable(one_line(text, most)))


def fenced(text: str, language: str = "") -> str:
    longest = max((len(found) for found in _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def warnings(entity: Entity) -> str:
    """For people; programs find the same in the front matter."""
    told: list[str] = []
    if entity.untrusted is not None:
        told.append(f"> **Recalled**, not to be relied upon: {escaped(str(entity.untrusted.get('reason', '')))}")
    if entity.stale is not None:
        told.append(f"> **Stale**: {escaped(entity.stale['why'])}, since {escaped(entity.stale['since'])}")
    return "\n>\n".join(told)


def plain_observations(attrs: Mapping[str, Any]) -> list[str] | None:
    """Those that stand on a line as they are; None where any of them does not."""
    found = attrs.get("observations")
    if not isinstance(found, list) or not found:
        return None
    texts = [each for each in found if isinstance(each, str) and _PLAIN_OBSERVATION.fullmatch(each)]
    return texts if len(texts) == len(found) and all(each.isprintable() for each in texts) else None


def text_of(entity: Entity) -> tuple[str, list[str]]:
    """What is read as the note itself, and the attributes that are in it."""
    text = entity.attrs.get("text")
    parts = [text.strip("\n")] if isinstance(text, str) else []
    return closed("\n\n".join([*parts, *([entity.text] if entity.text else [])])), ["text"] if parts else []


def closed(text: str) -> str:
    """With an end to code and comments that have none: what follows would be taken for a part of them."""
    for found in _CODE.finditer(text):
        if found["fence"] and not found["end"]:
            is_block = not text[: found.start()].rpartition("\n")[2].strip()
            text = f"{text.rstrip()}{chr(10) if is_block else ' '}{found['fence']}"
    return f"{text}\n-->" if text.rfind("<!--") > text.rfind("-->") else text


def tags_of(attrs: Mapping[str, Any]) -> list[str] | None:
    tags = attrs.get("tags")
    return tags if isinstance(tags, list) and tags and all(isinstance(each, str) for each in tags) else None


def relations_of(entity: Entity) -> list[dict[str, Any]] | None:
    """What edges say besides their ends, which the links in the body have no place for."""
    found: list[dict[str, Any]] = []
    for link in entity.links:
        own_id = link.id if link.id != edge_name(entity.id, link.rel, link.target) else None
        said = {
            "id": own_id,
            "attrs": link.attrs,
            "content": link.text,
            "untrusted": link.untrusted,
            "stale": link.stale,
        }
        more = {name: value for name, value in said.items() if value}
        if more:
            found.append({"rel": link.rel, "to": link.target, **more})
    return found or None

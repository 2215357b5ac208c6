"""The automatic memory of Claude Code: a Markdown file each, `MEMORY.md` as their index.

A memory is a node, a link [[name]] an edge. Its place in the index, title and hook, are attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import Fact, Item, Link, Origin, Unmapped
from tallystick.extensions.importers.files import excerpt, read_text, text_in, texts, unreadable
from tallystick.extensions.importers.front_matter import split
from tallystick.extensions.importers.wiki_links import targets, without_code

INDEX = "MEMORY.md"
_ENTRY = re.compile(r"^\s*[-*]\s+\[([^\]]*)\]\(([^)\s]+)\)\s*(?:[—–:-]+\s*(.*))?$")


def detect(path: Path) -> bool:
    return bool(_directories(path)) or (path.is_dir() and (path / INDEX).is_file())


def read(path: Path) -> Iterator[Item | Unmapped]:
    """A directory of memories, the one above it, or `~/.claude` with those of all projects."""
    found = _directories(path) or ([path] if path.is_dir() and _is_memory(path) else [])
    if not found:
        raise unreadable(path, f"no directory of memories: it has neither {INDEX} nor projects/*/memory")
    for directory in found:
        yield from _of_directory(directory)


def _directories(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    below = [path / "memory", *sorted((path / "projects").glob("*/memory")), *sorted(path.glob("*/memory"))]
    return [each for each in below if each.is_dir() and not each.is_symlink() and _is_memory(each)]


def _is_memory(path: Path) -> bool:
    return (path / INDEX).is_file() or any(path.glob("*.md"))


def _of_directory(directory: Path) -> Iterator[Item | Unmapped]:
    project = (directory.parent if directory.name == "memory" else directory).name or "memory"
    index, faults = _index(directory)
    links: list[Link] = []
    named: set[str] = set()
    for found in texts(directory, ".md"):
        if isinstance(found, Unmapped):
            yield found
        elif found[0] != INDEX:
            named.add(found[0])
            yield from _memory(project, *found, index.get(found[0], {}), links)
    yield from faults
    for file in index.keys() - named:
        yield Unmapped(f"{project}/{INDEX}", file, "the index names a file that is not there")
    yield from links


def _index(directory: Path) -> tuple[dict[str, dict[str, str]], list[Unmapped]]:
    """Of each file its title and hook, and the lines that say something else."""
    found = read_text(directory, directory / INDEX) if (directory / INDEX).is_file() else ("", "")
    if isinstance(found, Unmapped):
        return {}, [found]
    entries: dict[str, dict[str, str]] = {}
    faults: list[Unmapped] = []
    for number, line in enumerate(found[1].splitlines(), 1):
        entry = _ENTRY.match(line)
        if entry is not None:
            title, file, hook = entry.groups()
            entries[file.removeprefix("./")] = {"title": title.strip(), "hook": (hook or "").strip()}
        elif line.strip() and not line.lstrip().startswith("#"):
            faults.append(Unmapped(f"{INDEX}:{number}", excerpt(line), "not an entry of the index"))
    return entries, faults


def _memory(project: str, file: str, text: str, entry: dict[str, str], links: list[Link]) -> Iterator[Item | Unmapped]:
    where = f"{project}/{file}"
    try:
        said, body = split(text)
    except InvalidArgument as error:
        yield Unmapped(where, file, error.message)
        said, body = {}, text
    metadata = said.get("metadata")
    known: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    kind = text_in(known, "type") or text_in(said, "type")
    name = text_in(said, "name") or file.removesuffix(".md")
    node_id = f"{project}/{name}"
    others = {key: value for key, value in said.items() if key not in ("name", "description", "metadata", "type")}
    others |= {key: value for key, value in known.items() if key != "type"}
    yield Fact(
        where=where,
        id=node_id,
        type=f"claude-code/{kind}" if kind else "claude-code/memory",
        attrs={
            "name": name,
            "description": text_in(said, "description"),
            "title": entry.get("title") or None,
            "hook": entry.get("hook") or None,
            "text": body.strip(),
            "front_matter": others or None,
        },
        origin=Origin(id=where),
    )
    for target in dict.fromkeys(targets(without_code(body))):
        end = f"{project}/{target.removesuffix('.md')}"
        links.append(
            Link(where=where, source=node_id, rel="links_to", target=end, origin=Origin(id=f"{where}|{target}"))
        )

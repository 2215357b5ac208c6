"""The context files of a task: the paths that people and agents write down, in whatever form.

One a line, separated by commas, or both; as a list, in backticks, with a note behind. What
does not look like a path is passed over: a line too many must not cost the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TITLE = "context files"

_MARKER = re.compile(r"^(?:[-*+•]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
_ASIDE = re.compile(r"\s+\([^()]*\)")
_NOTE = re.compile(r"\s+(?:[-–—]+>?|=>|→|#|//)\s.*$|:\s.*$|\s+(?:[–—→].*)$")
_TICKED = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_SKIPPED = ("#", "//", "```", "~~~", "<!--", "|")
_NOTHING = frozenset({".", "..", "-", "none", "n/a", "tbd", "todo"})
_QUOTES = "\"'"


def is_context_files(title: str) -> bool:
    return TITLE in title.casefold()


def context_files(content: str) -> list[str]:
    """The paths in a section's content, each once, in order."""
    return list(dict.fromkeys(path for line in content.splitlines() for path in _paths_in(line.strip())))


def _paths_in(line: str) -> Iterator[str]:
    if not line or line.startswith(_SKIPPED):
        return
    line = _MARKER.sub("", line)
    ticked = _TICKED.findall(line)
    if ticked:
        # Whoever marks paths so marks all of them; the rest is prose.
        yield from filter(_is_path, (path for part in ticked for path in map(str.strip, part.split(","))))
        return
    noted = False
    for item in _ASIDE.sub("", line).split(","):
        path = _NOTE.sub("", item.strip())
        # Behind a note, what is after a comma may be more of the note: there it must be plain that it is a path.
        sure = not noted or "/" in path
        noted = noted or path != item.strip()
        link = _LINK.fullmatch(path)
        path = (link[1] if link else path).strip(_QUOTES)
        if sure and _is_path(path):
            yield path


def _is_path(text: str) -> bool:
    if not text or len(text) > 4096 or "://" in text or text.casefold() in _NOTHING:
        return False
    return not any(character.isspace() or character in "<>|\0" for character in text)

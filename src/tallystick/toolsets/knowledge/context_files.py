"""The context files of a task: the paths that people and agents write down, in whatever form.

One a line, separated by commas, or both; as a list, in backticks, with a note behind. A path
stands first; what follows it is a note, whatever that speaks of. A line that begins with
something else is passed over: a line too many must not cost the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

TITLE = "context files"
PATH_CHARACTERS_MAX = 4_096

_MARKER = re.compile(r"^(?:[-*+•]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")
_CODE = re.compile(r"`([^`]+)`")
_ASIDE = re.compile(r"\s+\([^()]*\)")
_ITEMS = re.compile(r"(?:[^,{]|\{[^{}]*\}|\{)+")
"""What stands between commas; those between braces belong to the path."""
_SET_OFF = re.compile(r"`([^`]+)`|\*\*`?([^*`\s/][^*`\s]*)`?\*\*|\[[^\]]*\]\(([^()\s]+)\)|\"([^\"]+)\"|'([^']+)'")
"""Set off from the note behind it: as code, bold, a link, in quotes."""
_BARE = re.compile(r"\S+?(?=:?(?:\s|$))")
_NOTE_SIGN = re.compile(r"[-–—:=→#(/]")
_PLAIN_PATH = re.compile(r"/|\w\.\w+$")
"""What no word of a sentence looks like."""
_LINES = re.compile(r"(?:#L\d[\w-]*|:\d+(?:[:-]\d+)*)$")
_SKIPPED = ("#", "//", "```", "~~~", "<!--", "|")
_NOTHING = frozenset({".", "..", "-", "none", "n/a", "tbd", "todo"})


def is_context_files(title: str) -> bool:
    return TITLE in title.casefold()


def files_in(sections: Iterable[tuple[str, str]]) -> list[str]:
    """What the first of the sections, by title and content, lists that is titled so."""
    return next((context_files(content) for title, content in sections if is_context_files(title)), [])


def context_files(content: str) -> list[str]:
    """The paths in a section's content, each once, in order."""
    return list(dict.fromkeys(path for line in content.splitlines() for path in _paths_in(_flat(line))))


def _flat(line: str) -> str:
    """With single spaces: long runs of them would be slow to look through."""
    return " ".join(line.split())


def _paths_in(line: str) -> Iterator[str]:
    if not line or line.startswith(_SKIPPED):
        return
    noted = False
    for item in _ITEMS.findall(_ASIDE.sub("", _CODE.sub(_apart, _MARKER.sub("", line)))):
        path, note = _read(item.strip())
        # Behind a note, what is after a comma may be more of the note: there it must be plain that it is a path.
        if _is_path(path) and ("/" in path or not noted):
            yield path
        noted = noted or bool(note)
        if _speaks_of_paths(note):
            return


def _apart(code: re.Match[str]) -> str:
    """Several paths between one pair of backticks, each in its own."""
    return ",".join(f"`{part.strip()}`" for part in _ITEMS.findall(code[1]) if part.strip())


def _read(item: str) -> tuple[str, str]:
    """The path that stands first, or nothing, and the note behind it."""
    set_off = _SET_OFF.match(item)
    found = set_off or _BARE.match(item)
    if found is None:
        return "", item
    path = _without_lines(next(filter(None, found.groups()), found[0]))
    note = item[found.end() :].strip()
    if note and set_off is None and not _NOTE_SIGN.match(note) and not _PLAIN_PATH.search(path):
        return "", item
    return path, note


def _without_lines(path: str) -> str:
    return _LINES.sub("", path) if len(path) <= PATH_CHARACTERS_MAX else path


def _speaks_of_paths(note: str) -> bool:
    """Then all the rest of the line may belong to it."""
    return re.search(r"\w/\w", note) is not None


def _is_path(text: str) -> bool:
    if not text.strip("`") or len(text) > PATH_CHARACTERS_MAX or "://" in text or text.casefold() in _NOTHING:
        return False
    if "(" in text and "/" not in text:
        return False  # a function
    return not any(character.isspace() or character in "<>|\0" for character in text)

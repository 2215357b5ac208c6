"""The registry: every source that can be imported from. Extensions bring theirs as `sources`.

Other packages may bring importers, too: an entry point of the group `tallystick.importers` is a module of that kind.
"""

from __future__ import annotations

from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from tallystick.errors import InvalidArgument, NotFound
from tallystick.extension import Source, installed
from tallystick.extensions.importers import Importer

GROUP = "tallystick.importers"
AUTO = "auto"


def sources() -> list[Source]:
    """Those of the extensions, then those of other packages."""
    ours = installed().sources()
    names = {source.name for source in ours}
    return [*ours, *(Source(each.name, each.value, "") for each in _others() if each.name not in names)]


def find(name: str) -> Importer:
    """Raises NotFound, naming those that are called alike."""
    for source in installed().sources():
        if source.name == name:
            return cast(Importer, import_module(source.module))
    for other in _others():
        if other.name == name:
            return cast(Importer, other.load())
    known = [source.name for source in sources()]
    near = " or ".join(f"'{each}'" for each in get_close_matches(name.lower(), known, cutoff=0.5))
    raise NotFound(
        f"there is no importer '{name}'",
        code="NO_IMPORTER",
        hint=f"did you mean {near}?" if near else f"there are {', '.join(known)}; {AUTO} guesses",
    )


def guess(path: Path) -> str:
    """The first whose files these seem to be. Raises InvalidArgument."""
    for source in sources():
        with suppress(OSError):
            if find(source.name).detect(path):
                return source.name
    raise InvalidArgument(
        f"cannot tell what wrote {path}",
        code="FORMAT_UNKNOWN",
        hint="say it with --from NAME; 'tallystick import --from list' names the importers",
    )


def _others() -> list[EntryPoint]:
    return sorted(entry_points(group=GROUP), key=lambda each: each.name)

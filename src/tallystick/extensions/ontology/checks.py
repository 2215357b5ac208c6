"""The check of `doctor`: are the files under `_content` as they should be?"""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.config import Settings
from tallystick.operations.doctor import Finding

_SHOWN_BESIDE = 20


def check_views(settings: Settings) -> Iterator[Finding]:
    if not (settings.system / "views.db").exists():
        return
    from tallystick.extensions.ontology.views import Views

    # They are noted beside the views: no line of the log is asked for.
    problems = Views(settings.home, lambda offset: b"").problems()
    if not problems:
        yield Finding("views", "the files under _content are as they should be")
    for problem in problems:
        yield Finding("views", f"{problem.path}: {problem.problem}", "odd", "put it right; it is tried again by itself")
    beside = sorted(path.relative_to(settings.home) for path in (settings.home / "_content").glob("*/*.edited-*"))
    for path in beside[:_SHOWN_BESIDE]:
        yield Finding("views", f"{path}: a hand edit that was not adopted", "odd", "take what you need, then remove it")

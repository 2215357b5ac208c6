"""The registry: every form that can be exported to besides our own. Extensions bring theirs as `forms`."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import cast

from tallystick.errors import NotFound
from tallystick.extension import Form, installed
from tallystick.extensions.exporters import DirectoryExporter, FileExporter


def find(name: str) -> Form:
    """Raises NotFound, naming those that are called alike."""
    forms = installed().forms()
    for form in forms:
        if form.name == name:
            return form
    known = [form.name for form in forms]
    near = " or ".join(f"'{each}'" for each in get_close_matches(name.lower(), known, cutoff=0.5))
    raise NotFound(
        f"there is no form '{name}' to export to",
        code="NO_EXPORTER",
        hint=f"did you mean {near}?" if near else f"there are {', '.join(known)}",
    )


def file_exporter(form: Form) -> FileExporter:
    return cast(FileExporter, import_module(form.module))


def directory_exporter(form: Form) -> DirectoryExporter:
    return cast(DirectoryExporter, import_module(form.module))

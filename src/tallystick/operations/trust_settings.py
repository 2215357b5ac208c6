"""Confirm the settings files of a base that a clone or an archive may have brought, and withdraw that again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tallystick import work_settings
from tallystick.config import (
    FILE_BYTES_MAX,
    FILE_NAME,
    confirmations_file,
    default_base,
    read_file,
    usable_base,
)
from tallystick.errors import InvalidArgument, NotFound
from tallystick.system.approvals import digest, key_of, read_approvals, write_approvals
from tallystick.system.regular_files import read_bounded
from tallystick.system.repository import find_memory


class FileSetting(msgspec.Struct, frozen=True):
    name: str
    value: Any
    counts: bool
    """Whether it is in force now."""


class ExaminedFile(msgspec.Struct, frozen=True):
    path: str
    sha256: str
    trusted: bool
    settings: tuple[FileSetting, ...]

    @property
    def ignored(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.settings if not each.counts)


class Confirmation(msgspec.Struct, frozen=True):
    path: str
    sha256: str
    state: Literal["confirmed", "changed", "missing"]


def settings_directory(named: Path | None) -> Path:
    """The base that is meant: the one named, the memory of the repository named, or the default."""
    if named is None:
        return usable_base(Path(os.environ.get("BASE_PATH") or default_base())).absolute()
    directory = named.parent if named.name in (FILE_NAME, work_settings.FILE_NAME) else named
    if not directory.is_dir():
        raise NotFound(f"{directory} is not a directory", code="NO_SETTINGS", hint="name a base or its settings file")
    directory = directory.absolute()
    memory = None if (directory / "_system").is_dir() or named != directory else find_memory(directory)
    return directory if memory is None or directory.is_relative_to(memory) else memory


def examine_files(base: Path) -> list[ExaminedFile]:
    """The settings files of a base, with what counts in them now. Raises InvalidArgument for a malformed file."""
    files = (read_file(base), work_settings.read_file(base))
    return [
        ExaminedFile(str(file.path), file.sha256, not file.withheld, _settings(file.values, file.withheld))
        for file in files
        if file.sha256
    ]


def _settings(values: dict[str, Any], withheld: Sequence[str]) -> tuple[FileSetting, ...]:
    return tuple(
        FileSetting(name, str(value) if isinstance(value, Path) else value, name not in withheld)
        for name, value in values.items()
    )


def ignored_settings(base: Path) -> list[str]:
    """One line for each settings file of the base that is not confirmed and sets more than harmless settings."""
    files = ((each.path, each.withheld) for each in (read_file(base), work_settings.read_file(base)))
    return [
        f"{path} lies in a repository and is not confirmed; ignored: {', '.join(names)}"
        for path, names in files
        if names
    ]


def confirm_files(files: Sequence[ExaminedFile], base: Path) -> None:
    """Let everything in these files count, as long as they have the bytes that were examined. Raises InvalidArgument
    if the record would lie in the base."""
    record = confirmations_file()
    if Path(os.path.realpath(record)).is_relative_to(os.path.realpath(base)):
        raise InvalidArgument(
            f"{record} lies in the base: tools that write files there could confirm settings",
            code="SETTINGS_NOT_TRUSTED",
            hint="set XDG_STATE_HOME to another directory",
        )
    added = {key_of(Path(each.path)): each.sha256 for each in files}
    write_approvals(record, {**read_approvals(record), **added})


def list_confirmations() -> list[Confirmation]:
    return [
        Confirmation(path, sha256, _state(path, sha256))
        for path, sha256 in read_approvals(confirmations_file()).items()
    ]


def _state(path: str, sha256: str) -> Literal["confirmed", "changed", "missing"]:
    try:
        data = read_bounded(Path(path), FILE_BYTES_MAX)
    except OSError:
        return "missing"
    return "confirmed" if digest(data) == sha256 else "changed"


def revoke(base: Path) -> list[str]:
    """Withdraw the confirmation of a base's files. Return their paths."""
    record = confirmations_file()
    known = read_approvals(record)
    revoked = [key for name in (FILE_NAME, work_settings.FILE_NAME) if (key := key_of(base / name)) in known]
    if revoked:
        write_approvals(record, {path: sha256 for path, sha256 in known.items() if path not in revoked})
    return revoked

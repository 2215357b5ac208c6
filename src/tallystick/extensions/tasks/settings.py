"""The pipelines that people chose, in `config.yaml` of the orchestrator's home."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tallystick.config import FILE_BYTES_MAX, Settings, unknown_setting
from tallystick.errors import InvalidArgument
from tallystick.extensions.tasks.cards import Pipelines, pipeline_problem
from tallystick.formats.plain_formats import NotPlain, read_plain_yaml
from tallystick.state.work.attributes import CATALOGS
from tallystick.system.regular_files import read_bounded

FILE_NAME = "config.yaml"
HOME = "TASK_ORCHESTRATOR_HOME"
VERSION = "3.0"
_KEYS = ("version", "pipelines")


def read_pipelines(environ: Mapping[str, str]) -> Pipelines:
    """The shipped ones where there is no file. Raises InvalidArgument, naming it, for one that makes no sense."""
    path = find_file(environ)
    return Pipelines() if path is None else _from_file(path)


def find_file(environ: Mapping[str, str]) -> Path | None:
    """Where it is looked for."""
    home = environ.get(HOME)
    return (Path(home).expanduser() / FILE_NAME).absolute() if home else None


def reserved_paths(settings: Settings) -> list[Path]:
    path = find_file(os.environ)
    return [] if path is None else [path]


def _from_file(path: Path) -> Pipelines:
    try:
        said = read_plain_yaml(read_bounded(path, FILE_BYTES_MAX))
    except FileNotFoundError:
        return Pipelines()
    except OSError as error:
        raise _invalid(path, f"cannot be read: {error.strerror}") from error
    except NotPlain as error:
        raise _invalid(path, str(error)) from error
    if said is None:
        return Pipelines()
    if not isinstance(said, dict):
        raise _invalid(path, "must hold keys and values")
    _check_keys(path, said, _KEYS)
    if str(said.get("version", VERSION)) != VERSION:
        raise _invalid(path, f'must be of version "{VERSION}"')
    return _understood(path, said.get("pipelines") or {})


def _understood(path: Path, pipelines: Any) -> Pipelines:
    if not isinstance(pipelines, dict):
        raise _invalid(path, f"pipelines must name {' and '.join(CATALOGS)}")
    _check_keys(path, pipelines, tuple(CATALOGS), "pipelines.")
    for kind, steps in pipelines.items():
        problem = pipeline_problem(kind, steps)
        if problem is not None:
            raise _invalid(path, problem)
    return Pipelines(**{kind: tuple(steps) for kind, steps in pipelines.items()})


def _check_keys(path: Path, said: dict[Any, Any], known: tuple[str, ...], within: str = "") -> None:
    for name in said:
        if name not in known:
            raise unknown_setting(f"{within}{name}", [f"{within}{each}" for each in known], path)


def _invalid(path: Path, problem: str) -> InvalidArgument:
    return InvalidArgument(f"{path}: {problem}", code="SETTING_INVALID")

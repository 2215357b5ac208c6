"""The settings of the work toolset, and the file `graph.config.yaml` in which they are looked for.

Precedence: the environment, the file in the working directory, the file in the base. A clone brings the first of these
files, so that only `CLAIMING` is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tallystick.config import FILE_BYTES_MAX, SettingsFile, settings_file, unknown_setting
from tallystick.errors import InvalidArgument
from tallystick.formats.plain_formats import NotPlain, read_plain_yaml
from tallystick.system.regular_files import read_bounded

FILE_NAME = "graph.config.yaml"
DEFAULT_AGENT = "default-agent"
VARIABLES = {"agent_identity": "GRAPH_AGENT", "db_path": "GRAPH_DB", "claim_ttl_minutes": "GRAPH_CLAIM_TTL"}
CLAIMING = ("agent_identity", "claim_ttl_minutes")
"""The settings that a file in the working directory may hold."""
HARMLESS = (*CLAIMING, "require_evidence")
"""The settings that count in a file of the base whoever wrote it."""


class WorkSettings(msgspec.Struct, frozen=True, kw_only=True):
    agent_identity: str = DEFAULT_AGENT
    db_path: Path | None = None
    """Where the SQL projection lies; None: where it always does. A relative path counts from the file that says it."""
    claim_ttl_minutes: float = 60.0
    """0: every claim is stale at once."""
    require_evidence: bool = False
    """Whether a node can be resolved without any evidence."""

    @property
    def claim_ttl_milliseconds(self) -> int:
        return round(self.claim_ttl_minutes * 60_000)


def read_settings(*, base: Path, working: Path, environ: Mapping[str, str]) -> WorkSettings:
    """Raises InvalidArgument, naming the place, for a key that is unknown or a value that makes no sense."""
    said = read_file(base).taken
    if working != base:
        said |= {name: value for name, value in read_file(working).values.items() if name in CLAIMING}
    for name, variable in VARIABLES.items():
        if environ.get(variable):
            said[name] = _understood(name, environ[variable], f"the environment variable {variable}", working)
    return WorkSettings(**said)


def named_paths(settings: WorkSettings, *, base: Path, working: Path) -> list[Path]:
    """The files that these settings name, and those that they are read from."""
    said = [getattr(settings, name) for name in WorkSettings.__struct_fields__]
    files = [directory / FILE_NAME for directory in (base, working)]
    return [*files, *(value.absolute() for value in said if isinstance(value, Path))]


def read_file(directory: Path) -> SettingsFile:
    """The file of a directory as it is. Raises InvalidArgument, naming it."""
    path = directory / FILE_NAME
    try:
        data = read_bounded(path, FILE_BYTES_MAX)
        content = read_plain_yaml(data)
    except (FileNotFoundError, NotADirectoryError):
        return SettingsFile(path)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}", code="SETTINGS_UNREADABLE") from error
    except NotPlain as error:
        raise InvalidArgument(f"{path} {error}", code="SETTING_INVALID") from error
    if not isinstance(content, dict | None):
        raise InvalidArgument(f"{path} must hold keys and values", code="SETTING_INVALID")
    said = {str(name): _understood(str(name), value, str(path), directory) for name, value in (content or {}).items()}
    values = {name: value for name, value in said.items() if value is not None}
    return settings_file(path, data, values, HARMLESS)


def _understood(name: str, value: Any, source: str, directory: Path) -> Any:
    rule = _RULES.get(name)
    if rule is None:
        raise unknown_setting(name, list(_RULES), source)
    wanted, understand = rule
    try:
        return None if value is None else understand(value, directory)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} from {source} must be {wanted}", code="SETTING_INVALID") from None


def _name(value: Any, directory: Path) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(value)
    value.encode()  # an escape can say half a character, which no memory can hold
    return value


def _path(value: Any, directory: Path) -> Path:
    return directory / Path(_name(value, directory)).expanduser()


def _minutes(value: Any, directory: Path) -> float:
    minutes = float(value)
    if isinstance(value, bool) or not 0 <= minutes <= 525_600:
        raise ValueError(value)
    return minutes


def _flag(value: Any, directory: Path) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


_RULES: dict[str, tuple[str, Callable[[Any, Path], Any]]] = {
    "agent_identity": ("a name", _name),
    "db_path": ("the path of a file", _path),
    "claim_ttl_minutes": ("a number of minutes, from 0 to a year", _minutes),
    "require_evidence": ("true or false", _flag),
}

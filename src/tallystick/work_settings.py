"""The settings of the work toolset, and the file `graph.config.yaml` in which they are looked for.

The environment goes before the file in the working directory, and that before the one in the
base: they belong to the project that the agent is started in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tallystick.config import unknown_setting
from tallystick.errors import InvalidArgument
from tallystick.regular_files import read_regular

FILE_NAME = "graph.config.yaml"
DEFAULT_AGENT = "default-agent"
VARIABLES = {"agent_identity": "GRAPH_AGENT", "db_path": "GRAPH_DB", "claim_ttl_minutes": "GRAPH_CLAIM_TTL"}


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
    said: dict[str, Any] = {}
    for directory in dict.fromkeys((base, working)):
        said |= _from_file(directory / FILE_NAME)
    for name, variable in VARIABLES.items():
        if environ.get(variable):
            said[name] = _understood(name, environ[variable], f"the environment variable {variable}", working)
    return WorkSettings(**said)


def named_paths(settings: WorkSettings, *, base: Path, working: Path) -> list[Path]:
    """The files that these settings name, and those that they are read from."""
    said = [getattr(settings, name) for name in WorkSettings.__struct_fields__]
    files = [directory / FILE_NAME for directory in (base, working)]
    return [*files, *(value.absolute() for value in said if isinstance(value, Path))]


def _from_file(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    import yaml  # it takes longer to load than all else that a start reads, and few have the file

    try:
        content = yaml.safe_load(read_regular(path).decode("utf-8-sig"))
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}", code="SETTINGS_UNREADABLE") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"{path} is not YAML: {error}", code="SETTING_INVALID") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise InvalidArgument(f"{path} must hold keys and values", code="SETTING_INVALID")
    said = {str(name): _understood(str(name), value, str(path), path.parent) for name, value in content.items()}
    return {name: value for name, value in said.items() if value is not None}


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

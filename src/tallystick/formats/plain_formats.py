"""TOML and YAML as settings need them: keys, values and lists, without references, tags or depth.

An alias repeats what its anchor holds, so that a small file can describe a huge one; a tag chooses a type; the time to
read a dotted key grows with the square of its parts. No setting needs any of them.
"""

from __future__ import annotations

import tomllib
from typing import Any

DEPTH_MAX = 8
_LINE_DOTS_MAX = 100


class NotPlain(ValueError):
    """The text is malformed, or uses more of its format than settings need."""


def read_plain_toml(data: bytes) -> dict[str, Any]:
    """Raises NotPlain with the reason."""
    if any(line.count(b".") > _LINE_DOTS_MAX for line in data.split(b"\n")):
        raise NotPlain(f"has a line with more than {_LINE_DOTS_MAX} dots")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise NotPlain(f"is not TOML: {error}") from error


def read_plain_yaml(data: bytes) -> Any:
    """Raises NotPlain with the reason."""
    import yaml  # it takes longer to load than all else that a start reads, and few have such a file

    try:
        text = data.decode("utf-8-sig")
        _check_plain(yaml.parse(text, Loader=yaml.SafeLoader))
        return yaml.safe_load(text)
    except NotPlain:
        raise
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # What looks like a date or a number is made into one, whichever setting it is given to.
        raise NotPlain(f"is not YAML: {error}") from error


def _check_plain(events: Any) -> None:
    import yaml

    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            raise NotPlain(f"is nested deeper than {DEPTH_MAX} levels")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise NotPlain("has an anchor or an alias, which settings do not take: write the value in each place")
        if getattr(event, "tag", None) is not None:
            raise NotPlain("has a tag, which settings do not take: write plain values")

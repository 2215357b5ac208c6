"""The YAML at the head of a Markdown file, read within bounds: no tags, no aliases, no depth, only what JSON has."""

from __future__ import annotations

import datetime
import math
from typing import Any

import msgspec

from tallystick.errors import InvalidArgument

BYTES_MAX = 64 << 10
DEPTH_MAX = 20
_INTEGER_MAX = 2**53 - 1
_FENCE = "---"


def split(text: str) -> tuple[dict[str, Any], str]:
    """The front matter and what follows it; empty where there is none. Raises InvalidArgument if broken."""
    lines = text.split("\n", 1)
    if lines[0].rstrip() != _FENCE or len(lines) == 1:
        return {}, text
    head, found, body = _until_fence(lines[1])
    if not found:
        return {}, text
    said = read_yaml(head)
    if said is None:
        return {}, body
    if not isinstance(said, dict):
        raise InvalidArgument("the front matter has no keys")
    return said, body


def _until_fence(text: str) -> tuple[str, bool, str]:
    place = 0
    while place <= len(text):
        end = text.find("\n", place)
        line = text[place:] if end < 0 else text[place:end]
        if line.rstrip() == _FENCE:
            return text[:place], True, "" if end < 0 else text[end + 1 :]
        if end < 0:
            break
        place = end + 1
    return text, False, ""


def read_yaml(text: str) -> Any:
    """Raises InvalidArgument."""
    import yaml

    if len(text.encode()) > BYTES_MAX:
        raise InvalidArgument(f"the YAML has more than {BYTES_MAX:,} bytes")

    class Loader(yaml.SafeLoader):
        """An alias may stand for a thousand others: a few lines would fill the memory."""

        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise InvalidArgument("the YAML has aliases, which are not read")
            self.depth += 1
            if self.depth > DEPTH_MAX:
                raise InvalidArgument(f"the YAML is nested deeper than {DEPTH_MAX} levels")
            found = super().compose_node(parent, index)
            self.depth -= 1
            return found

    try:
        said = _plain(yaml.load(text, Loader))  # SafeLoader's subclass: it makes nothing but plain values
        msgspec.json.encode(said)  # "\ud800" is half a character, which no memory can hold
        return said
    except UnicodeEncodeError:
        raise InvalidArgument("not YAML: a lone surrogate is not a character") from None
    except yaml.YAMLError as error:
        told = str(getattr(error, "problem", None) or error).splitlines() or ["broken"]
        raise InvalidArgument(f"not YAML: {told[0]}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"not YAML: {error}") from None


def _plain(value: Any) -> Any:
    """As JSON has it: a date is a text, a key too."""
    if isinstance(value, dict):
        return {_text(key): _plain(each) for key, each in value.items()}
    if isinstance(value, set):
        # In one order: what is read twice must be the same.
        return sorted(map(_text, value))
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= _INTEGER_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return _text(value)


def _text(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, datetime.date) else str(value)

"""The skills of the plugin, as their calls to tools and the words that they set in code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PLUGIN = Path(__file__).parents[2] / "plugins/tallystick"
NAMES = ("discovery", "planning", "execution", "remember", "audit")
_BLOCK = re.compile(r"^ *```\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_FENCED = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
_CALL = re.compile(r"^ *([a-z_]+) (?=\{)", re.MULTILINE)


class ToolCall(NamedTuple):
    tool: str
    arguments: dict[str, Any]


def text(name: str) -> str:
    return (PLUGIN / "skills" / name / "SKILL.md").read_text("utf-8")


def front_matter(name: str) -> dict[str, Any]:
    _, matter, _ = text(name).split("---\n", 2)
    loaded = yaml.safe_load(matter)
    assert isinstance(loaded, dict)
    return loaded


def calls(name: str) -> list[ToolCall]:
    """What stands in its blocks without a language, in order. Nothing else may stand there."""
    return [call for block in _BLOCK.findall(text(name)) for call in _calls_in(block)]


def inline_code(name: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", _FENCED.sub("", text(name))))


def _calls_in(block: str) -> Iterator[ToolCall]:
    at = 0
    while block[at:].strip():
        found = _CALL.match(block, at)
        assert found, f"no call of a tool: {block[at:]}"
        arguments, at = json.JSONDecoder().raw_decode(block, found.end())
        at += 1
        yield ToolCall(found[1], arguments)

"""Templates: the one place that knows Jinja, and what templates may call."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

from tallystick.clock import from_text, to_text
from tallystick.extensions.web.addresses import anchor_of, entity_address, with_query
from tallystick.extensions.web.shapes import shape_of
from tallystick.extensions.web.static_files import static_files

DIRECTORY = Path(__file__).parent / "templates"
HASH_DIGITS = 12
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_STEPS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"))


def draw(template: str, **values: Any) -> bytes:
    return _environment().get_template(template).render(**values).encode("utf-8", "replace")


@cache
def _environment() -> Environment:
    # Sixty modules, which a server need not load before somebody looks at a page.
    from tallystick.extensions.web.markdown import render_markdown

    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(DIRECTORY), FunctionLoader(_contributed)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals |= {
        "entity": entity_address,
        "link": with_query,
        "style_of_paper": static_files()["style.css"].content.decode(),
        "static": {name: file.address for name, file in static_files().items()},
    }
    environment.filters |= {
        "decimal": lambda value: f"{value:.10g}",
        "number": lambda value: f"{value:,}",
        "anchor": anchor_of,
        "plain": plain,
        "markdown": render_markdown,
        "second": second,
        "sentence": lambda text: text if text.rstrip().endswith((".", "!", "?", "…")) else f"{text}.",
        "utc": lambda seconds: second(to_text(int(seconds * 1000))),
        "day": day,
        "ago": ago,
        "left": left,
        "elapsed": elapsed,
        "short": lambda text: text[:HASH_DIGITS],
        "seconds_until": lambda since, until: (from_text(until) - from_text(since)) // 1000,
        "initials": initials,
        "counted": counted,
        "shape": shape_of,
    }
    return environment


def _contributed(name: str) -> str | None:
    """Return the template of another extension: "package.module/file" is a file beside the module."""
    module, _, file = name.partition("/")
    found = find_spec(module) if file else None
    if found is None or found.origin is None:
        return None
    return (Path(found.origin).parent / file).read_text("utf-8")


def plain(value: Any) -> str:
    """A value as people read it: text as it is, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def second(timestamp: str) -> str:
    """`2026-03-17T10:44:12.345Z` → `2026-03-17 10:44:12`"""
    return timestamp[:19].replace("T", " ")


def day(timestamp: str) -> str:
    """`2026-03-17T10:44:12.345Z` → `17 Mar 2026`"""
    year, month, number = timestamp[:10].split("-")
    return f"{int(number)} {_MONTHS[int(month) - 1]} {year}"


def ago(timestamp: str, now: int) -> str:
    """`now` in milliseconds. What is no time, since anybody may write one, is shown as it is."""
    try:
        elapsed = max(0, now - from_text(timestamp))
    except (ValueError, OverflowError):
        return timestamp
    for size, word in _STEPS:
        if elapsed >= size:
            return f"{counted(elapsed // size, word)} ago"
    return "just now"


def left(timestamp: str, now: int) -> str:
    """Until then; `now` in milliseconds."""
    milliseconds = from_text(timestamp) - now
    for size, word in (*_STEPS[:2], (60_000, "min")):
        if milliseconds >= size:
            return f"{counted(milliseconds // size, word, 'min' if word == 'min' else None)} left"
    return "less than a minute left" if milliseconds > 0 else "time is up"


def elapsed(since: str, until: str, now: int) -> float:
    """Which share of a time is over, in percent."""
    begun, end = from_text(since), from_text(until)
    return round(100 * min(1.0, max(0.0, (now - begun) / max(1, end - begun))), 1)


def initials(name: str) -> str:
    """Two letters to know an author by."""
    words = "".join(each if each.isalnum() else " " for each in name).split()
    return ("".join(word[0] for word in words[:2]) if len(words) > 1 else "".join(words)[:2]) or "?"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"

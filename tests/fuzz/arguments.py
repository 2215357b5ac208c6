"""Arguments for a tool, made from the schema that clients are shown: proper ones, and ones that are not quite."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

Schema = Mapping[str, Any]
Made = st.SearchStrategy[Any]


class KnownId(msgspec.Struct, frozen=True):
    """Stands for an id that an answer told; which one is seen when the call is made."""

    number: int


def proper(schema: Schema) -> Made:
    """What fits `schema`: a few of the optional members, and ids that exist wherever a text may stand."""
    if "anyOf" in schema:
        return st.one_of(*map(proper, schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "type" not in schema:
        return ANYTHING
    kinds = schema["type"]
    return st.one_of(*(_KINDS[kind](schema) for kind in ([kinds] if isinstance(kinds, str) else kinds)))


@st.composite
def spoilt(draw: st.DrawFn, schema: Schema) -> Any:
    """A proper one with something put in, taken out or put elsewhere, at any depth."""
    arguments = draw(proper(schema))
    spot = arguments
    while inner := [value for value in _members(spot) if isinstance(value, dict | list) and value]:
        if draw(st.booleans()):
            break
        spot = draw(st.sampled_from(inner))
    _spoil(draw, spot)
    return arguments


@st.composite
def tried(draw: st.DrawFn, schema: Schema) -> Attempt:
    """Mostly proper ones. What mends them is made before anything is called, since what is drawn must not depend on
    what was answered."""
    members = schema["properties"]
    arguments = draw(weighed((3, proper(schema)), (1, spoilt(schema))))
    return Attempt(arguments, {name: [draw(proper(each)) for _ in range(2)] for name, each in members.items()})


class Attempt(msgspec.Struct):
    arguments: dict[str, Any]
    spare: dict[str, list[Any]]
    """Further values for each member."""

    def mend(self, required: Sequence[str], problems: Sequence[str]) -> None:
        """After a refusal was read: what is missing is added, what is wrong taken out or said anew.

        Schemas don't tell which arguments belong together; so what lies behind is reached as agents reach it.
        """
        for problem in problems:
            for name in sorted(set(re.findall(r"\w+", problem)) & self.spare.keys()):
                if name in self.arguments and name not in required and "is required" not in problem:
                    del self.arguments[name]
                elif "is not allowed" not in problem:
                    self.arguments[name] = self.spare[name][0]
                    self.spare[name].reverse()
            if found := re.match(r"field '(.*)' is not allowed", problem, re.DOTALL):
                self.arguments.pop(found[1], None)


def settled(value: Any, known: Mapping[str, Sequence[str]], name: str = "") -> Any:
    """`value` with what answers told: mostly under the same noun, if anything, else any id."""
    if isinstance(value, KnownId):
        told = (known.get(_noun(name)) if value.number % 4 else None) or known[""]
        return told[-1 - value.number % len(told)]
    if isinstance(value, dict):
        kind = next((item for key, item in value.items() if key.endswith("Type") and isinstance(item, str)), "id")
        return {key: settled(item, known, kind if key in _OF_A_KIND else key) for key, item in value.items()}
    return [settled(item, known, name) for item in value] if isinstance(value, list) else value


def told(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The short texts of an answer, each under the noun that it can be asked for by; ids under none, too."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from told(item, key)
            if key == "id" and isinstance(item, str):
                yield _noun(name), item
    elif isinstance(value, list):
        for item in value:
            yield from told(item, name)
    elif isinstance(value, str) and 0 < len(value) <= 80:
        yield _noun(name), value
        if re.search(_ID, name):
            yield "", value


_ID = r"(^i|_i|I)ds?$"
_OF_A_KIND = ("id", "entityId", "parentId")
"""Which kind of thing they name is said beside them, as in `containerType`."""


def _noun(name: str) -> str:
    """`task`, `taskId`, `task_ids` and `createdByTaskId` are asked for the same."""
    words = re.findall(r"[A-Z]?[a-z]+", re.sub(_ID, "", name))
    return words[-1].lower().removesuffix("s") if words else "id"


# -- texts, numbers, anything

_PLAIN = (
    "a", "alpha", "note", "idea", "one", "md", "markdown", "json", "src/app.py", "src/**", "notes/today.md", "0", "7",
    "2025-01-01", "2025-01-01T00:00:00Z", "P1D", "all", "low", "HIGH", "done", "TODO", "attrs.said", "said", "a,b",
    "only acme knows this",
)  # fmt: skip
_ODD = (
    "", " ", "\0", "a\0b", "\n", "\r\n", "\t", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u202eabc", "\ufeff", "\uffff",
    "\ud800", "e\u0301", "é", "\u200b", "😀", "\U0010ffff", "ﷺ" * 20, "İ", "ẞ", "x" * 5_000, "é" * 3_000, "a" * 300,
    "..", ".", "~", "/", "//", "/etc/passwd", "../../../etc/passwd", "..\\..\\x", "_system/head", "_system/log",
    "_content/nodes/x.md", "C:\\x", "CON", "a/" * 200, "%00", "%2e%2e%2f", "${x}", "{{7*7}}", "<script>", "'; --",
    '"', "\\", "|", "a|b|c", "*", "?", "[", "[]", "{", "(a+)+$", "**/**/**", "!(x)", "^", "$", "[REDACTED]", "null",
    "true", "NaN", "1e999", "-1", "2025-13-45", "9999-12-31T23:59:59.999999999Z", "0000-00-00", "P", "0" * 64, "----",
    "---\na: b\n---\n", "# ", "- [ ] ", "AND OR NOT", "NEAR(", "content:", "a" + "\u0300" * 100,
)  # fmt: skip


def weighed(*choices: tuple[int, Made]) -> Made:
    """Like `one_of`, which takes each strategy once however often it is named."""
    table = [made for weight, made in choices for _ in range(weight)]
    return st.integers(0, len(table) - 1).flatmap(table.__getitem__)


IDS = st.builds(KnownId, st.integers(0, 20))
TEXTS = weighed((5, IDS), (3, st.sampled_from(_PLAIN)), (1, st.sampled_from(_ODD)), (1, st.text(max_size=12)))
WHOLE = weighed(
    (4, st.sampled_from((0, 1, 2, 3, 10, 100))),
    (
        1,
        st.sampled_from(
            (-1, 1000, 2**31, 2**32, 2**53 - 1, 2**53, -(2**53), 2**63 - 1, 2**63, -(2**63), 2**64, 10**30)
        ),
    ),
)
NUMBERS = WHOLE | st.sampled_from((0.5, -0.0, 1.0, 1e308, -1e308, 5e-324, 1e16, 0.1 + 0.2))
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*_PLAIN, *_ODD)), inner, max_size=3),
    max_leaves=8,
)

EMPTY: Made = st.sampled_from(("", " ", None)) | st.builds(list) | st.builds(dict)


def _deep(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"a": value}
    return value


# Behind the depth the wire refuses is the depth at which recursion ends.
DEEP = st.sampled_from((20, 60, 90, 98, 150, 300)).map(_deep)


# -- what fits


def _text(schema: Schema) -> Made:
    if "pattern" in schema:
        return IDS | st.from_regex(schema["pattern"], fullmatch=True)
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    fitting = TEXTS.map(lambda text: text[:most] if isinstance(text, str) else text)
    return fitting.filter(lambda text: not isinstance(text, str) or len(text) >= least)


def _whole(schema: Schema) -> Made:
    least, most = schema.get("minimum", -(10**30)), schema.get("maximum", 10**30)
    return WHOLE.map(lambda number: max(least, min(most, number)))


def _list(schema: Schema) -> Made:
    most = min(schema.get("maxItems", 3), 3)
    return st.lists(proper(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=most)


def _object(schema: Schema) -> Made:
    members = schema.get("properties")
    if not members:
        return st.dictionaries(st.sampled_from(_PLAIN), ANYTHING, max_size=3)
    return _some_members(members, schema.get("required", ()))


@st.composite
def _some_members(draw: st.DrawFn, members: Mapping[str, Schema], required: Sequence[str]) -> dict[str, Any]:
    optional = [name for name in members if name not in required]
    chosen = draw(st.lists(st.sampled_from(optional), max_size=5, unique=True)) if optional else []
    return {name: draw(proper(members[name])) for name in (*required, *chosen)}


_KINDS: dict[str, Any] = {
    "string": _text,
    "integer": _whole,
    "number": lambda schema: NUMBERS,
    "boolean": lambda schema: st.booleans(),
    "null": lambda schema: st.none(),
    "array": _list,
    "object": _object,
}


# -- what does not


def _members(spot: Any) -> Sequence[Any]:
    return list(spot.values()) if isinstance(spot, dict) else spot


def _spoil(draw: st.DrawFn, spot: Any) -> None:
    if isinstance(spot, list):
        spot.append(draw(ANYTHING))
        return
    names = sorted(spot)
    way = draw(st.sampled_from(("replace", "replace", "replace", "empty", "deepen", "remove", "add", "swap")))
    if not names or way == "add":
        spot[draw(st.sampled_from((*_PLAIN, *_ODD)))] = draw(ANYTHING)
    elif way == "remove":
        del spot[draw(st.sampled_from(names))]
    elif way == "swap":
        one, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        spot[one], spot[other] = spot[other], spot[one]
    else:
        spot[draw(st.sampled_from(names))] = draw({"deepen": DEEP, "empty": EMPTY}.get(way, ANYTHING))

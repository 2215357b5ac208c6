"""Configurations as people keep them: any order, indentation and line ends, comments where they are allowed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

_WORDS = st.sampled_from(
    ["mcpServers", "servers", "hooks", "github", "a b", "naïve", "日本", "", "$schema", "//", "/*", "}"]
)
_TEXTS = st.sampled_from(
    ["npx", "// no comment", "/* nor this */", 'a "quote"', "back\\slash", "tab\t", "ünï", "🪵", ",}", ""]
)
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 10**20), st.floats(allow_nan=False, allow_infinity=False), _TEXTS
)
VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_WORDS, inner, max_size=4)),
    max_leaves=8,
)
OBJECTS = st.dictionaries(_WORDS, VALUES, max_size=4)

_PLAIN = ["", " ", "\n", "\r\n", "\t", "\n\n  ", "\r\n\t", "\n    "]
_COMMENTS = [
    "// about this\n",
    "/* so */",
    " // x, }\r\n",
    "\n  // on its own\n",
    "/* two\n lines */",
    '// "tallystick": {}\n',
]


def trivia(draw: st.DrawFn, comments: bool) -> str:
    parts = st.sampled_from([*_PLAIN, *(_COMMENTS if comments else ())])
    return "".join(draw(st.lists(parts, max_size=3)))


@st.composite
def written(draw: st.DrawFn, value: Any, comments: bool) -> str:
    """The value, as somebody could have written it."""
    before, after = trivia(draw, comments), trivia(draw, comments)
    return ("\ufeff" if draw(st.booleans()) else "") + before + _write(draw, value, comments) + after


def _write(draw: st.DrawFn, value: Any, comments: bool) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def gap() -> str:
        return trivia(draw, comments)

    if isinstance(value, dict):
        keys = [f"{json.dumps(key)}{gap()}:{gap()}" for key in value]
        parts = [key + _write(draw, each, comments) for key, each in zip(keys, value.values(), strict=True)]
    else:
        parts = [_write(draw, each, comments) for each in value]
    body = ",".join(f"{gap()}{part}{gap()}" for part in parts)
    if parts and comments and draw(st.booleans()):
        body += "," + gap()
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + (body or gap()) + closing


@st.composite
def pretty(draw: st.DrawFn, value: Any) -> str:
    """The same by a tidy editor: what most files look like."""
    indent = draw(st.sampled_from([None, 1, 2, 4, "\t"]))
    text = json.dumps(value, indent=indent, ensure_ascii=draw(st.booleans())) + draw(st.sampled_from(["", "\n"]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))

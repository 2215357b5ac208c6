"""Splicing into TOML: a table at the end, and out again byte for byte."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.extensions.clients import toml_splice
from tallystick.extensions.clients.splice import Unreadable

PATH = ("mcp_servers", "tallystick")
ENTRY: dict[str, Any] = {"command": "tallystick", "args": ["serve"], "env": {"A B": 'say "x"'}}
PARTS = [
    'model = "o9"',
    "# a comment with [brackets] and \"quotes'",
    'notes = """\n[mcp_servers.tallystick]\nno header "" here\\n"""',
    "raw = '''\n[not.a.table]\n'''",
    "list = [\n  [1, 2], # [x]\n  [3],\n]",
    "point = { x = 1, y = { z = 2 } }",
    'quoted = "a [b] # c"',
]
TABLES = [
    '[mcp_servers.github]\ncommand = "npx"\nargs = ["-y"]',
    '[mcp_servers."my server"]\ncommand = "x" # why',
    "[mcp_servers.tallystick2]\ncommand = 'x'",
    "[profiles.fast]\nmodel = 'x'\n",
    '[[rules]]\nname = "a"\n\n[[rules]]\nname = "b"',
    '# about the next\n[ projects . "/home/ada" ]\ntrust_level = "trusted"',
    "[hooks]",
]


@st.composite
def _configuration(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.sampled_from(PARTS), unique=True)) + draw(st.lists(st.sampled_from(TABLES), unique=True))
    text = draw(st.sampled_from(["\n", "\n\n"])).join(parts) + draw(st.sampled_from(["", "\n", "\n\n", "\n# end"]))
    return draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def _meant(text: str) -> dict[str, Any]:
    return tomllib.loads(text.removeprefix("\ufeff"))


@given(_configuration())
def test_a_table_is_added_and_taken_out_again(text: str) -> None:
    splice = toml_splice.put(text, PATH, ENTRY)
    after, before = splice.into(text), _meant(text)
    assert _meant(after) == before | {"mcp_servers": before.get("mcp_servers", {}) | {"tallystick": ENTRY}}
    assert splice.undone(after) == text
    assert toml_splice.value_at(after, PATH) == ENTRY
    with pytest.raises(Unreadable, match="already"):
        toml_splice.put(after, PATH, ENTRY)


@given(_configuration(), st.sampled_from([TABLES[1], "# mine\n[later]\nx = 1", ""]))
def test_without_a_record_it_is_cut_by_its_header(text: str, later: str) -> None:
    later = "" if later.partition("\n")[0] in text else later
    full = toml_splice.put(text, PATH, ENTRY).into(text) + later
    cut = toml_splice.cut(full, PATH)
    meant = _meant(full)
    del meant["mcp_servers"]["tallystick"]
    if not meant["mcp_servers"]:
        del meant["mcp_servers"]
    assert _meant(cut) == meant
    assert cut.endswith(later)


def test_it_looks_as_if_its_owner_had_written_it() -> None:
    before = 'model = "o9" # best\n'
    after = toml_splice.put(before, PATH, ENTRY).into(before)
    assert after == (
        'model = "o9" # best\n\n[mcp_servers.tallystick]\ncommand = "tallystick"\nargs = ["serve"]\n\n'
        '[mcp_servers.tallystick.env]\n"A B" = "say \\"x\\""\n'
    )
    assert toml_splice.cut(after, PATH) == before
    assert toml_splice.text_at(after, PATH) == after.removeprefix(before)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = 1\nmodel = x\n", "line 2, column 9"),
        ("a = 1\nb = [\n", "at end of document"),
        ("a = 1\na = 2\n", "overwrite"),
        ('mcp_servers = { github = { command = "npx" } }', "written in another way"),
        ("mcp_servers = 1", "'mcp_servers' is no table"),
        ("[[mcp_servers]]\nname = 'x'", "is no table"),
        ("\x00", "line 1"),
        ("a = " + "[" * 5000, ""),
        ("a = " + "9" * 5000, "Exceeds the limit"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, told: str) -> None:
    with pytest.raises(Unreadable) as refused:
        toml_splice.put(text, PATH, ENTRY)
    assert told in refused.value.message


def test_what_stands_in_one_line_is_not_cut() -> None:
    text = 'mcp_servers = { tallystick = { command = "tallystick" } }\n'
    with pytest.raises(Unreadable):
        toml_splice.cut(text, PATH)

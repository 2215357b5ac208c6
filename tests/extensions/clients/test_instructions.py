"""The block in AGENTS.md: put in, found, replaced and taken out as a whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick import app, config
from tallystick.extensions.clients import instructions
from tallystick.extensions.clients.splice import Unreadable

TEXTS = st.lists(
    st.sampled_from(["# Title", "words – ünï", "", "- item\n", "\ufeff", "<!-- other:begin v1 -->", "@AGENTS.md"])
).map("\n".join)


@given(TEXTS, st.sampled_from(["", "\n", "\n\n"]), st.booleans())
def test_it_is_put_in_and_taken_out_again(text: str, end: str, windows: bool) -> None:
    text = (text + end).replace("\n", "\r\n" if windows else "\n")
    splice = instructions.put(text)
    after = splice.into(text)
    assert splice.undone(after) == text
    block = instructions.find(after)
    assert block is not None
    assert block.is_ours
    assert block.version == instructions.VERSION
    if text.endswith("\n") and text.strip("\ufeff\r\n"):
        assert instructions.cut(after) == text


def test_it_names_tools_that_are_offered_by_default() -> None:
    offered = {
        tool.name.replace(".", "_") for toolset in app.toolsets(config.load(environ={})) for tool in toolset.tools
    }
    named = set(re.findall(r"`(\w+_\w+)`", instructions.BLOCK))
    assert named
    assert named <= offered


def test_an_edited_block_is_not_ours_and_an_older_one_says_its_version() -> None:
    edited = instructions.find(instructions.BLOCK.replace("Look before", "Never look before"))
    older = instructions.find(instructions.BLOCK.replace("begin v1", "begin v0"))
    assert edited is not None
    assert older is not None
    assert (edited.is_ours, older.version) == (False, 0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- tallystick:begin v1 -->\nwords\n", "line 1, column 1: 'tallystick:begin' is followed by no"),
        (f"{instructions.BLOCK}\n{instructions.BLOCK}", "a second time"),
    ],
)
def test_a_torn_block_is_left_alone(text: str, told: str) -> None:
    with pytest.raises(Unreadable) as refused:
        instructions.find(text)
    assert told in refused.value.message


@pytest.mark.parametrize(
    ("text", "imported"),
    [("@AGENTS.md\n", True), ("see @./AGENTS.md first", True), ("mail me@AGENTS.md", False), ("AGENTS.md", False)],
)
def test_an_import_is_seen(text: str, imported: bool) -> None:
    assert instructions.imports_agents(text) is imported


def test_its_lines_end_as_those_of_the_file() -> None:
    text = "# Title\r\n"
    assert "\n" not in instructions.put(text).into(text).replace("\r\n", "")

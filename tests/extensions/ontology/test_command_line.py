"""`tallystick ontology`: a person looks at the types, or starts with a preset."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tallystick import app, config
from tallystick.commits import Draft, Operation, Verb
from tallystick.errors import NotFound
from tallystick.policy import Action, Principal
from tests.command_line import CommandLine
from tests.promises import promise


def tally(base: Path, *arguments: str) -> str:
    return CommandLine(base).run("ontology", *arguments).out


@promise("presets, command line", "a person sees the ontology and starts with a preset")
def test_a_preset_is_used_and_shown(tmp_path: Path) -> None:
    assert tally(tmp_path, "use", "gtd") == "added 5 types: Task, State, Context, UNSPECIFIED, DependsOn\n"
    assert tally(tmp_path, "use", "gtd") == "nothing to add: every type of this preset is there\n"
    shown = tally(tmp_path)
    assert "node types: Task, State, Context, UNSPECIFIED" in shown
    assert "DependsOn" in shown
    assert json.loads(tally(tmp_path, "--json")) == {
        "node_types": ["Task", "State", "Context", "UNSPECIFIED"],
        "connection_types": [
            {
                "name": "DependsOn",
                "from_types": ["Task", "State"],
                "to_types": ["Task", "State", "Context", "UNSPECIFIED"],
            }
        ],
    }
    assert json.loads(tally(tmp_path, "use", "research", "--json"))["added"][:2] == ["Question", "Source"]
    assert "locator" in tally(tmp_path)


def test_what_stood_before_a_preset_and_violates_it_is_shown(tmp_path: Path) -> None:
    tally(tmp_path, "use", "gtd")
    document = {"id": "pat\x1b[2J", "type": "Person", "attrs": {"tags": []}}

    async def write() -> None:
        async with app.opened(config.load({"base": str(tmp_path)}, environ={})) as store:
            draft = Draft((Operation(Verb.UPSERT_NODE, document),), actor="ann", tool="test")
            await store.write(Principal("ann"), Action.WRITE, lambda state, read_filter: draft)

    asyncio.run(write())
    told = CommandLine(tmp_path).run("ontology", "use", "software")
    assert "1 of what was there before violates it" in told.out + told.err
    assert "pat\\x1b[2J" in told.out + told.err


def test_options_may_stand_before_the_word_use(tmp_path: Path) -> None:
    told = CommandLine(tmp_path / "elsewhere").run("ontology", "--base", tmp_path, "--json", "use", "gtd")
    assert told.json["preset"] == "gtd"
    assert tally(tmp_path).startswith("node types: Task")


def test_a_preset_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="gtd, research, software"):
        tally(tmp_path, "use", "cooking")


def test_without_a_memory_or_an_ontology_the_next_step_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refusal:
        tally(tmp_path / "nowhere")
    assert refusal.value.code == "NO_MEMORY"
    (tmp_path / "_system" / "log").mkdir(parents=True)
    with pytest.raises(NotFound) as refusal:
        tally(tmp_path)
    assert (refusal.value.code, "tallystick ontology use" in str(refusal.value.hint)) == ("ONTOLOGY_NOT_FOUND", True)

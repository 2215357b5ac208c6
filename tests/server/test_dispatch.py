"""The tool table: names, choices, faults and outcomes, without any protocol."""

from __future__ import annotations

import errno
import logging
import os
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from tallystick.errors import InvalidArgument, LimitExceeded, NotFound
from tallystick.server import dispatch
from tallystick.server.answers import status_of
from tallystick.server.dispatch import Broken, Done, OfferedTool, Outcome, Refused, Tools, call, choose
from tallystick.toolsets import Answer
from tests.promises import promise
from tests.server.sample import PLAIN, SECRET, TOOLSETS, offer, principal_of

pytestmark = pytest.mark.anyio


async def ask(name: str, arguments: dict[str, Any], tools: Tools | None = None) -> Outcome:
    entry = (tools or choose(TOOLSETS)).get(name)
    return await call(entry, arguments, offer().store, lambda: principal_of(None))


FAULTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "missing": ({}, ["field 'op' is required"]),
    "missing by a rule between fields": ({"op": "UPSERT"}, ["field 'node' is required"]),
    "missing inside": ({"op": "UPSERT", "node": {}}, ["field 'node.id' is required"]),
    "unknown": ({"op": "DELETE", "x": 1}, ["field 'x' is not allowed"]),
    "unknown inside": (
        {"op": "UPSERT", "node": {"id": "a", "colour": 1}},
        ["field 'node.colour' is not allowed"],
    ),
    "no string": ({"op": "UPSERT", "node": {"id": 5}}, ["field 'node.id' must be a string"]),
    "no object": ({"op": "UPSERT", "node": 5}, ["field 'node' must be an object"]),
    "no integer": ({"op": "DELETE", "limit": "5"}, ["field 'limit' must be an integer"]),
    "a fraction": ({"op": "DELETE", "limit": 1.5}, ["field 'limit' must be an integer"]),
    "true is no integer": ({"op": "DELETE", "limit": True}, ["field 'limit' must be an integer"]),
    "too small": ({"op": "DELETE", "limit": 0}, ["field 'limit' must be greater than or equal to 1"]),
    "too large": ({"op": "DELETE", "limit": 2**70}, ["field 'limit' must be less than or equal to 100"]),
    "too large to be repeated": (
        {"op": "DELETE", "as_of": 2**64},
        ["field 'as_of' must be an integer of at most 64 bits"],
    ),
    "too short": ({"op": "UPSERT", "node": {"id": ""}}, ["field 'node.id' must have at least 1 character"]),
    "too many": ({"op": "DELETE", "ids": ["a"] * 4}, ["field 'ids' must have at most 3 items, not 4"]),
    "an item": ({"op": "DELETE", "ids": ["a", 2]}, ["field 'ids[1]' must be a string"]),
    "no choice": ({"op": "MERGE"}, ["field 'op' must be 'UPSERT' or 'DELETE'"]),
    "no colour": ({"op": "DELETE", "colour": "green"}, ["field 'colour' must be 'red' or 'blue'"]),
    "neither of a union": ({"op": "DELETE", "as_of": []}, ["field 'as_of' must be an integer or a string"]),
    "inside a union": ({"op": "DELETE", "where": {"age": {"ge": 1}}}, ["field 'where.age.ge' is not allowed"]),
    "several at once": (
        {"op": "DELETE", "limit": 0, "x": 1, "ids": "a"},
        [
            "field 'limit' must be greater than or equal to 1",
            "field 'ids' must be an array",
            "field 'x' is not allowed",
        ],
    ),
}


@promise("OWASP API3, mass assignment", "arguments that a tool does not know are refused by name")
@pytest.mark.parametrize(("arguments", "problems"), FAULTS.values(), ids=FAULTS)
async def test_every_fault_is_a_sentence_that_names_its_field(arguments: dict[str, Any], problems: list[str]) -> None:
    outcome = await ask("sample.write", arguments)
    assert isinstance(outcome, Refused)
    assert outcome.problems == problems
    assert outcome.shape["error"] == "INVALID_ARGUMENT"


async def test_a_thousand_faults_are_told_in_fifty() -> None:
    outcome = await ask("sample.write", {"op": "DELETE", **{f"x{n}": n for n in range(1000)}})
    assert isinstance(outcome, Refused)
    assert len(outcome.problems) == 51
    assert outcome.problems[-1] == "and 950 more"


async def test_strict_arguments_still_take_json_for_enums() -> None:
    outcome = await ask("sample.write", {"op": "DELETE", "colour": "blue"})
    assert isinstance(outcome, Done)
    assert (outcome.data, outcome.text) == ({"op": "DELETE", "colour": "blue"}, "DELETE done")


@pytest.mark.parametrize("name", ["sample.echo", "sample_echo"])
async def test_a_tool_answers_to_both_of_its_names(name: str) -> None:
    assert await ask(name, {"text": "hé"}) == Done({"said": "hé"}, '{"said":"hé"}'.encode())


@promise("OWASP API4, answers", "an answer past the bound never leaves")
async def test_an_answer_past_the_bound_never_leaves() -> None:
    assert isinstance(await ask("sample.echo", {"text": "x" * 70, "times": 1000}), Done)
    outcome = await ask("sample.echo", {"text": "x" * 76, "times": 1000})
    assert isinstance(outcome, Refused)
    assert isinstance(outcome.error, LimitExceeded)
    assert outcome.shape["error"] == "TOO_MUCH"


async def test_contents_asked_for_by_id_leave_whole() -> None:
    outcome = await ask("sample.blob", {"text": "x" * 76, "times": 1000})
    assert isinstance(outcome, Done)
    assert len(outcome.data["said"]) == 76_000


@pytest.mark.parametrize("name", ["sample.crash", "sample.mistyped"])
async def test_a_bug_is_logged_once_and_leaves_only_its_id(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        outcome = await ask(name, {})
    assert isinstance(outcome, Broken)
    assert SECRET not in outcome.error_id
    [record] = caplog.records
    assert outcome.error_id in record.getMessage()
    assert record.exc_info is not None


LIMITS = {
    "open files": OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    "open files of the machine": OSError(errno.ENFILE, os.strerror(errno.ENFILE)),
    "memory of the kernel": OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    "memory": MemoryError(),
    "threads": RuntimeError("can't start new thread"),
}


@pytest.mark.parametrize("error", LIMITS.values(), ids=LIMITS)
async def test_a_limit_of_the_process_is_a_refusal_and_not_a_bug(error: Exception) -> None:
    entry = choose(TOOLSETS).get("sample.crash")

    async def exhausted(*_: Any) -> Answer:
        raise error

    outcome = await call(
        OfferedTool(entry.toolset, replace(entry.tool, call=exhausted)), {}, offer().store, lambda: principal_of(None)
    )
    assert isinstance(outcome, Refused)
    assert outcome.shape["error"] == "RESOURCES_EXHAUSTED"
    assert "repeat it" in str(outcome.error.hint)
    assert status_of(outcome.error) == 503


async def test_a_toolset_that_cannot_say_its_error_is_a_bug_too() -> None:
    entry = choose(TOOLSETS).get("sample.fail")

    def speechless(error: Exception) -> dict[str, Any]:
        raise KeyError("words")

    toolset = type(entry.toolset)(
        name="s", summary="", tools=entry.toolset.tools, faults="protocol", error_shape=speechless
    )
    outcome = await call(
        type(entry)(toolset, entry.tool), {"kind": "NotFound"}, offer().store, lambda: principal_of(None)
    )
    assert isinstance(outcome, Broken)


CHOICES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "one toolset": ({"names": ["plain"]}, {"plain_echo"}),
    "all by name": ({"names": ["all"], "tools": ["plain_echo"]}, {"plain_echo"}),
    "some tools": ({"tools": ["sample_echo", "sample.crash", "sample.echo"]}, {"sample.echo", "sample.crash"}),
    "both": ({"names": ["sample"], "tools": ["sample.echo"]}, {"sample.echo"}),
    "reading only, some": ({"tools": ["sample.echo"], "read_only": True}, {"sample.echo"}),
}


@pytest.mark.parametrize(("choice", "listed"), CHOICES.values(), ids=CHOICES)
async def test_only_what_is_chosen_is_listed_and_callable(choice: dict[str, Any], listed: set[str]) -> None:
    tools = choose(TOOLSETS, **choice)
    assert {entry.dotted for entry in tools} == listed
    with pytest.raises(NotFound, match=r"'sample\.write' of toolset 'sample' is not on"):
        tools.get("sample_write")


def test_a_tool_whose_name_is_taken_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    echo = PLAIN.tools[0]
    other = replace(PLAIN, name="other", tools=(echo, replace(echo, name="other_echo")))
    tools = choose((*TOOLSETS, other))
    assert tools.get("plain_echo").toolset is PLAIN
    assert tools.get("other_echo").toolset is other
    assert "'plain_echo' of 'other' is left out: 'plain' has a tool of that name" in caplog.text


@promise("OWASP API5, read only", "a server for reading has no tool that writes")
async def test_reading_only_leaves_out_every_tool_that_writes() -> None:
    left_out = {e.dotted for e in choose(TOOLSETS)} - {e.dotted for e in choose(TOOLSETS, read_only=True)}
    assert left_out == {"sample.write"}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no such toolset": ({"names": ["memry"]}, "no toolset 'memry'; the toolsets are sample, plain, or all"),
    "no toolset": ({"names": []}, "no tool would be offered"),
    "no tool": ({"tools": []}, "no tool would be offered"),
    "no such tool": ({"tools": ["sample.eco"]}, "no tool 'sample_eco'"),
    "a tool of a toolset that is off": (
        {"names": ["plain"], "tools": ["sample.echo"]},
        "toolset 'sample', which is not",
    ),
    "a writing tool when only reading": ({"tools": ["sample.write"], "read_only": True}, "'sample.write' writes"),
}


@pytest.mark.parametrize(("choice", "message"), MISTAKES.values(), ids=MISTAKES)
async def test_a_choice_that_matches_nothing_is_refused(choice: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        choose(TOOLSETS, **choice)


OFF: dict[str, tuple[dict[str, Any], str]] = {
    "its toolset is off": ({"names": ["plain"]}, "start it with --toolsets plain,sample"),
    "it is not named": ({"tools": ["plain_echo"]}, "--tools or --read-only leaves it out"),
    "it writes": ({"read_only": True}, "--tools or --read-only leaves it out"),
}


@pytest.mark.parametrize(("choice", "step"), OFF.values(), ids=OFF)
async def test_a_tool_that_is_off_is_told_with_what_turns_it_on(choice: dict[str, Any], step: str) -> None:
    with pytest.raises(NotFound, match=f"is not on in this server: {step}$"):
        choose(TOOLSETS, **choice).get("sample.write")


async def test_an_unknown_tool_is_told_the_tools_there_are() -> None:
    with pytest.raises(NotFound, match="there is no tool 'x'; the tools are plain_echo") as caught:
        choose(TOOLSETS, names=["plain"]).get("x")
    assert caught.value.details == {"tools": ["plain_echo"]}


@pytest.mark.parametrize(
    "data",
    [
        {"items": [{"id": f"n{number}", "é": [number, None]} for number in range(40)], "page": {"next": None}},
        {"data": {"items": list(range(40)), "none": []}, "of": {}},
    ],
)
async def test_an_answer_that_is_encoded_in_pieces_is_the_same(data: dict[str, Any]) -> None:
    done = await dispatch._done(Answer(data))
    assert done.encoded == orjson.dumps(data)

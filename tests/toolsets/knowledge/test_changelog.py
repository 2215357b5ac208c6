"""manage_changelog: entries are added and never changed, and read newest first."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tallystick.clock import to_text
from tests.promises import promise
from tests.toolsets.agent import NOON
from tests.toolsets.knowledge.agents import LATER, PLANNED, TASK, KnowledgeAgent

NOBODY = "f" * 32


@promise("K27", "atoms and molecules have history")
def test_an_entry_is_appended_with_all_its_fields(agent: KnowledgeAgent) -> None:
    for create, kind in ((agent.atom, "atom"), (agent.molecule, "molecule")):
        entity = create()
        said = agent.told(
            "manage_changelog",
            operation="append",
            parentType=kind,
            parentId=str(uuid.UUID(entity["id"])),
            taskId=str(uuid.UUID(LATER)),
            summary=" moved to the registry \n",
        )
        entry = said["data"]["entry"]
        assert said["message"] == "Changelog entry appended"
        assert entry == {
            "id": entry["id"],
            "parentType": kind,
            "parentId": entity["id"],
            "taskId": LATER,
            "summary": "moved to the registry",
            "createdAt": to_text(NOON),
        }
        assert agent.history(entity)["entries"] == [entry]
        assert agent.get(entity)[kind]["version"] == 1, "history is no change of the entity"


@promise("knowledge, changelog", "entries come newest first and in pages")
def test_entries_come_newest_first_and_in_pages(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    for number in range(25):
        agent.append(atom, str(number), taskId=PLANNED)
    found = agent.history(atom)
    assert [entry["summary"] for entry in found["entries"]] == [str(number) for number in range(24, 4, -1)]
    assert {key: found[key] for key in found if key != "entries"} == {
        "count": 20,
        "total": 25,
        "limit": 20,
        "offset": 0,
        "nextOffset": 20,
    }
    rest = agent.history(atom, limit="100", offset="20")
    assert [entry["summary"] for entry in rest["entries"]] == ["4", "3", "2", "1", "0"]
    assert {key: rest[key] for key in rest if key != "entries"} == {"count": 5, "total": 25, "limit": 100, "offset": 20}


@pytest.mark.parametrize(("asked", "limit"), [(0, 1), (-1, 1), (1_000, 100), (None, 20)])
def test_the_limit_is_brought_into_bounds(agent: KnowledgeAgent, asked: int | None, limit: int) -> None:
    assert agent.history(agent.atom(), limit=asked)["limit"] == limit


def test_a_page_of_long_entries_is_cut_and_says_where_to_go_on(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    for number in range(15):
        agent.append(atom, f"{number:02}" + "x" * 4_094)
    found = agent.history(atom)
    assert found["nextOffset"] == found["count"] == 11
    assert agent.history(atom, offset=11)["count"] == 4


@promise("K28", "the history of what never was is empty")
def test_the_history_of_what_never_was_is_empty(agent: KnowledgeAgent) -> None:
    said = agent.told("manage_changelog", operation="search", parentType="atom", parentId=NOBODY)
    assert said["data"] == {"entries": [], "count": 0, "total": 0, "limit": 20, "offset": 0}


def test_an_atom_and_a_molecule_have_histories_of_their_own(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    agent.append(atom, "mine")
    said = agent.told("manage_changelog", operation="search", parentType="molecule", parentId=atom["id"])
    assert said["data"]["total"] == 0


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("no task", {"taskId": None}, "VALIDATION_ERROR", "taskId is required for append operation"),
    ("no summary", {"summary": None}, "VALIDATION_ERROR", "summary is required for append operation"),
    ("a blank summary", {"summary": " \n"}, "VALIDATION_ERROR", "summary must not be empty"),
    ("4 KB and one", {"summary": "x" * 4_097}, "VALIDATION_ERROR", "summary has 4097 bytes, more than 4096"),
    (
        "4 KB in fewer characters",
        {"summary": "é" * 2_049},
        "VALIDATION_ERROR",
        "summary has 4098 bytes, more than 4096",
    ),
    ("no parent", {"parentId": ""}, "VALIDATION_ERROR", "parentId is required for append operation"),
    ("no UUID", {"parentId": "atom-1"}, "VALIDATION_ERROR", "field 'parentId' must be a UUID"),
    ("an unknown type", {"parentType": "task"}, "VALIDATION_ERROR", "field 'parentType' must be 'atom' or 'molecule'"),
    ("an edit", {"operation": "update"}, "VALIDATION_ERROR", "field 'operation' must be 'append' or 'search'"),
    ("an unknown parent", {"parentId": NOBODY}, "NOT_FOUND", f"there is no atom '{NOBODY}'"),
    ("an unknown task", {"taskId": NOBODY}, "NOT_FOUND", f"there is no task '{NOBODY}'"),
]


@promise("knowledge, summary bounds", "a summary is not empty and has at most 4 KB")
@promise("K26", "there is no way to edit history")
@pytest.mark.parametrize(("said", "code", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_an_entry_that_breaks_a_rule_is_refused(
    agent: KnowledgeAgent, said: dict[str, Any], code: str, message: str
) -> None:
    atom = agent.atom()
    good = {"operation": "append", "parentType": "atom", "parentId": atom["id"], "taskId": TASK, "summary": "s"}
    error = agent.refusal("manage_changelog", **good | said)
    assert (error["code"], error["message"]) == (code, message)


def test_the_longest_summary_is_kept_whole(agent: KnowledgeAgent) -> None:
    assert agent.append(agent.atom(), " " + "é" * 2_048)["summary"] == "é" * 2_048


def test_an_atom_is_no_parent_as_a_molecule(agent: KnowledgeAgent) -> None:
    said = {"parentType": "molecule", "parentId": agent.atom()["id"], "taskId": TASK, "summary": "s"}
    assert agent.refusal("manage_changelog", operation="append", **said)["code"] == "NOT_FOUND"


def test_times_follow_the_order_of_the_log_even_when_the_clock_goes_back(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    agent.now -= 5_000
    entry = agent.append(atom, "later, by a clock that is behind")
    assert entry["createdAt"] == atom["createdAt"]
    assert agent.update(atom, name="n")["updatedAt"] == atom["updatedAt"]

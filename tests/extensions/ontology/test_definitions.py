"""The ontology: defined once, added to, never changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import NotFound
from tallystick.extensions.ontology import definitions
from tallystick.extensions.ontology.definitions import SHOWN_MAX, use_preset
from tallystick.extensions.ontology.lookup import presets
from tallystick.policy import Action, Decision, Request
from tests.extensions.ontology.agents import GTD, OntologyAgent, keeping
from tests.promises import promise


@promise("AC4", "the ontology defines what may be made")
@promise("M38", "the ontology keeps its order and omits what is not required")
def test_the_ontology_comes_back_in_the_order_and_shape_it_was_given(agent: OntologyAgent) -> None:
    answer = agent.answer("create_ontology", GTD)
    assert (answer.data, answer.text) == ({"ok": True}, "create_ontology completed successfully")
    assert agent.call("get_ontology") == GTD


@promise("AC17", "types are appended and the rest stays as it was")
def test_types_are_appended_and_the_rest_stays_as_it_was(gtd: OntologyAgent) -> None:
    gtd.call("add_node_type", type_name="Document")
    related = {"from_types": ["Project", "Action"], "to_types": ["Project", "Document"]}
    gtd.call("add_connection_type", type_name="RelatedTo", **related)
    required = {"from_types": ["Document"], "to_types": ["Person"], "required_properties": ["role"]}
    gtd.call("add_connection_type", type_name="SignedBy", **required)
    assert gtd.call("get_ontology") == {
        "node_types": [*GTD["node_types"], "Document"],
        "connection_types": [
            *GTD["connection_types"],
            {"name": "RelatedTo", **related},
            {"name": "SignedBy", **required},
        ],
    }
    gtd.join(gtd.make("Project"), "RelatedTo", gtd.make("Document"))


@promise("AC10, once", "a second ontology is refused")
def test_a_second_ontology_is_refused(gtd: OntologyAgent) -> None:
    assert gtd.code("create_ontology", node_types=["X"], connection_types=[]) == "ONTOLOGY_ALREADY_EXISTS"
    assert gtd.call("get_ontology") == GTD


@promise("AC10, types", "a type that exists is refused")
def test_a_type_is_defined_once(gtd: OntologyAgent) -> None:
    said = gtd.refusal("add_node_type", type_name="Project")
    assert said["code"] == "TYPE_ALREADY_EXISTS"
    assert "Project" in said["message"]
    again = {"type_name": "NextAction", "from_types": ["Person"], "to_types": ["Person"]}
    assert gtd.code("add_connection_type", **again) == "TYPE_ALREADY_EXISTS"
    assert gtd.call("get_ontology") == GTD


def test_of_two_that_define_the_same_at_the_same_time_one_is_told(agent: OntologyAgent) -> None:
    answers = agent.together("create_ontology", [GTD, GTD])
    assert sorted(answer.get("code", "ok") for answer in answers) == ["ONTOLOGY_ALREADY_EXISTS", "ok"]
    answers = agent.together("add_node_type", [{"type_name": "New"}] * 3)
    assert sorted(answer.get("code", "ok") for answer in answers) == ["TYPE_ALREADY_EXISTS"] * 2 + ["ok"]


NEEDS_ONE: list[tuple[str, dict[str, Any]]] = [
    ("create_node", {"type": "Project", "content": "", "format": "text"}),
    ("create_connection", {"type": "NextAction", "from_node_id": "a", "to_node_id": "b"}),
    ("validate_connection", {"connection_type": "a", "from_node_type": "b", "to_node_type": "c"}),
    ("add_node_type", {"type_name": "Project"}),
    ("add_connection_type", {"type_name": "x", "from_types": [], "to_types": []}),
    ("get_ontology", {}),
]


@promise("AC10, before", "what needs an ontology says so when there is none")
@pytest.mark.parametrize(("tool", "asked"), NEEDS_ONE, ids=[tool for tool, _ in NEEDS_ONE])
def test_what_needs_an_ontology_says_so_when_there_is_none(
    agent: OntologyAgent, tool: str, asked: dict[str, Any]
) -> None:
    assert agent.code(tool, **asked) == "ONTOLOGY_NOT_FOUND"


@promise("M14", "without an ontology reads find nothing")
def test_without_an_ontology_nothing_is_found(agent: OntologyAgent) -> None:
    agent.node("n", "Project")
    assert agent.nodes() == []
    assert agent.connections() == []
    assert agent.found("x") == []
    assert agent.code("get_node", node_id="n") == "NODE_NOT_FOUND"
    assert agent.code("get_connection", connection_id="c") == "CONNECTION_NOT_FOUND"


@promise("AC4, validate_connection", "a connection can be tried before it is made")
@promise("M15", "an unknown connection type is not valid")
@pytest.mark.parametrize(
    ("names", "valid"),
    [
        (("NextAction", "Project", "Action"), True),
        (("NextAction", "Action", "Project"), False),
        (("NextAction", "Project", "Recipe"), False),
        (("Nothing", "Project", "Action"), False),
    ],
)
def test_a_connection_can_be_tried_before_it_is_made(
    gtd: OntologyAgent, names: tuple[str, str, str], valid: bool
) -> None:
    asked = dict(zip(("connection_type", "from_node_type", "to_node_type"), names, strict=True))
    answer = gtd.call("validate_connection", **asked)
    assert answer["valid"] is valid
    assert ("reason" in answer) is not valid


@promise("M19, twice", "names said twice are meant once")
def test_names_said_twice_are_meant_once(agent: OntologyAgent) -> None:
    kind = {"name": "R", "from_types": ["A", "A"], "to_types": ["B"], "required_properties": ["p", "p"]}
    agent.define(node_types=["A", "B", "A"], connection_types=[kind])
    once = {"name": "R", "from_types": ["A"], "to_types": ["B"], "required_properties": ["p"]}
    assert agent.call("get_ontology") == {"node_types": ["A", "B"], "connection_types": [once]}


@promise("M19, duplicates", "two connection types of one name are refused")
def test_two_connection_types_of_one_name_are_refused(agent: OntologyAgent) -> None:
    kind: dict[str, Any] = {"name": "R", "from_types": [], "to_types": []}
    assert agent.code("create_ontology", node_types=[], connection_types=[kind, kind]) == "TYPE_ALREADY_EXISTS"
    assert agent.code("get_ontology") == "ONTOLOGY_NOT_FOUND"


@promise("M19, later", "a connection type may name types that come later")
def test_a_connection_type_may_name_types_that_come_later(agent: OntologyAgent) -> None:
    kind = {"name": "Owns", "from_types": ["Person"], "to_types": ["Boat"]}
    agent.define(node_types=["Person"], connection_types=[kind])
    assert agent.code("create_node", type="Boat", content="", format="text") == "INVALID_NODE_TYPE"
    agent.call("add_node_type", type_name="Boat")
    agent.join(agent.make("Person"), "Owns", agent.make("Boat"))


@promise("M20", "node types and connection types do not share names")
def test_node_types_and_connection_types_do_not_share_names(agent: OntologyAgent) -> None:
    kind = {"name": "Person", "from_types": ["Person"], "to_types": ["Person"]}
    agent.define(node_types=["Person"], connection_types=[kind])
    agent.call("add_node_type", type_name="Knows")
    assert agent.call("get_ontology")["node_types"] == ["Person", "Knows"]


def test_definitions_have_lineage(gtd: OntologyAgent) -> None:
    gtd.call("add_node_type", type_name="Document")
    [step] = gtd.lineage("ontology/node_type/Document")["lineage"]
    assert (step["actor"], step["operation"]) == ("agent_alpha", "CREATE_NODE")


# -- what was there before


def standing(agent: OntologyAgent) -> None:
    agent.node("good", "Person", age=1)
    agent.node("listed", "Person", tags=["a"])
    agent.node("boat", "Boat", crew={"n": 2}, empty=None)
    agent.edge("good", "Owns", "boat", since=2001)
    agent.edge("boat", "Owns", "good", since=2001)
    agent.edge("good", "Owns", "good")
    agent.edge("listed", "Owns", "boat")


OWNS = {"name": "Owns", "from_types": ["Person"], "to_types": ["Boat"], "required_properties": ["since"]}


def told(answer: dict[str, Any]) -> list[tuple[str, str]]:
    assert answer["ok"] is True
    found = answer.get("violations", [])
    assert answer.get("total", 0) == len(found)
    assert all(each["reason"] for each in found)
    return [(each.get("node_id") or each["connection_id"], each["code"]) for each in found]


@promise("M19, over a memory", "what stands already and violates a new type is told, as far as it may be read")
def test_an_ontology_over_a_memory_tells_what_stands_already_and_violates_it(agent: OntologyAgent) -> None:
    standing(agent)
    answer = agent.call("create_ontology", node_types=["Person", "Boat"], connection_types=[OWNS])
    assert told(answer) == [
        ("listed", "INVALID_ARGUMENT"),
        ("boat", "INVALID_ARGUMENT"),
        ("boat|Owns|good", "INVALID_TOPOLOGY"),
        ("good|Owns|good", "INVALID_TOPOLOGY"),
        ("listed|Owns|boat", "REQUIRED_PROPERTY_MISSING"),
    ]
    assert agent.call("get_ontology")["connection_types"] == [OWNS]


def test_a_type_that_is_added_tells_what_violates_it_and_nothing_else(agent: OntologyAgent) -> None:
    standing(agent)
    assert agent.call("create_ontology", node_types=["Animal"], connection_types=[]) == {"ok": True}
    assert told(agent.call("add_node_type", type_name="Boat")) == [("boat", "INVALID_ARGUMENT")]
    kind = {"from_types": ["Person", "Boat"], "to_types": ["Person", "Boat"], "required_properties": ["since"]}
    answer = agent.call("add_connection_type", type_name="Owns", **kind)
    assert [entity for entity, _ in told(answer)] == ["good|Owns|good", "listed|Owns|boat"]
    assert agent.call("add_node_type", type_name="Robot") == {"ok": True}


def test_edges_of_other_toolsets_are_no_violations(agent: OntologyAgent) -> None:
    for each in ("a", "b"):
        agent.node(each, "elsewhere/thing")
    agent.edge("a", "Owns", "b")
    answer = agent.call("create_ontology", node_types=["Person", "Boat"], connection_types=[OWNS])
    assert answer == {"ok": True}


def test_a_few_violations_are_named_and_all_are_counted(agent: OntologyAgent) -> None:
    for number in range(SHOWN_MAX + 5):
        agent.node(f"p{number}", "Person", tags=[])
    answer = agent.call("create_ontology", node_types=["Person"], connection_types=[])
    assert [each["node_id"] for each in answer["violations"]] == [f"p{number}" for number in range(SHOWN_MAX)]
    assert answer["total"] == SHOWN_MAX + 5


def test_where_there_is_too_much_to_look_at_that_is_said(agent: OntologyAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions, "LOOKED_AT_MAX", 1)
    standing(agent)
    answer = agent.call("create_ontology", node_types=["Person"], connection_types=[])
    assert answer == {"ok": True, "unchecked": True}


def test_a_violation_that_may_not_be_read_is_neither_named_nor_counted(tmp_path: Path) -> None:
    may_search = may_see = True

    class Narrow:
        def decide(self, request: Request) -> Decision:
            is_hidden = request.action is Action.READ and request.resource == "boat" and not may_see
            is_refused = request.action is Action.SEARCH and not may_search
            return Decision(not is_hidden and not is_refused, "so it is", "1")

    with keeping(tmp_path, Narrow()) as agent:
        standing(agent)
        may_see = False
        answer = agent.call("create_ontology", node_types=["Person", "Boat"], connection_types=[OWNS])
        assert [entity for entity, _ in told(answer)] == ["listed", "good|Owns|good"]
        may_search = False
        agent.node("r", "Robot", parts=[])
        assert agent.call("add_node_type", type_name="Robot") == {"ok": True}


def test_a_preset_tells_what_stands_already_and_violates_it(agent: OntologyAgent) -> None:
    standing(agent)
    used = agent.run(use_preset(agent.store, agent.principal, "software"))
    assert [each["node_id"] for each in used["violations"]] == ["listed"]


# -- presets


def test_every_preset_can_be_used_on_an_empty_memory(agent: OntologyAgent) -> None:
    assert list(presets()) == ["gtd", "research", "software"]
    for name, preset in presets().items():
        named = {each for kind in preset.connection_types for each in (*kind.from_types, *kind.to_types)}
        assert named <= set(preset.node_types), name
        assert preset.about
    added = agent.run(use_preset(agent.store, agent.principal, "gtd"))
    assert added == {"added": ["Task", "State", "Context", "UNSPECIFIED", "DependsOn"]}
    agent.join(agent.make("Task"), "DependsOn", agent.make("UNSPECIFIED"))


@promise("presets", "a preset adds what is missing and changes nothing")
def test_a_preset_adds_what_is_missing_and_changes_nothing(agent: OntologyAgent) -> None:
    agent.define(node_types=["Person", "Boat"], connection_types=[])
    added = agent.run(use_preset(agent.store, agent.principal, "software"))["added"]
    assert "Person" not in added
    assert agent.call("get_ontology")["node_types"][:3] == ["Person", "Boat", "Component"]
    before = agent.log.head()
    assert agent.run(use_preset(agent.store, agent.principal, "software")) == {"added": []}
    assert agent.log.head() == before


def test_a_preset_that_means_something_else_by_a_name_is_refused_whole(gtd: OntologyAgent) -> None:
    before = gtd.log.head()
    with pytest.raises(Exception, match="DependsOn is already defined"):
        gtd.run(use_preset(gtd.store, gtd.principal, "gtd"))
    assert gtd.log.head() == before


@pytest.mark.parametrize(("kind", "fits"), [("State", ["gtd"]), ("Task", ["gtd", "software"]), ("Nonesuch", [])])
def test_only_presets_with_the_type_that_is_named_are_recommended(
    agent: OntologyAgent, kind: str, fits: list[str]
) -> None:
    with pytest.raises(NotFound) as refused:
        agent.answer("create_node", {"type": kind, "content": "", "format": "text"})
    assert [name for name in presets() if f"ontology use {name}" in (refused.value.hint or "")] == fits

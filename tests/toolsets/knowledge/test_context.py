"""query_graph context: what an agent is told of the files at hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tallystick.policy import Action
from tallystick.server.dispatch import BYTES_PER_TOKEN, TOKENS_MAX
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets.knowledge import make_tool_context
from tallystick.toolsets.knowledge.path_context import (
    NodeKnowledge,
    context,
    drained,
    graph_hints,
    repository_paths,
)
from tests.promises import promise
from tests.toolsets.knowledge.agents import OTHER, SHOP, TASK, KnowledgeAgent

Said = dict[str, Any]


@pytest.fixture
def payments(agent: KnowledgeAgent) -> KnowledgeAgent:
    domain = agent.molecule("Payment Domain", knowledge="idempotent webhooks")
    gateway = agent.atom("Stripe Integration", "src/payments/gateway/**", moleculeId=domain["id"])
    handlers = agent.atom(
        "Webhook Handlers",
        "src/payments/webhook-*.ts",
        "src/payments/stripe-*.ts",
        moleculeId=domain["id"],
        knowledge="all extend BaseWebhookHandler",
        relatedAtoms=[{"atomId": gateway["id"], "reason": "webhooks call the gateway"}],
    )
    agent.append(handlers, "retries added")
    agent.append(domain, "domain made")
    agent.atom("Retry Utilities", "src/shared/retry-*.ts", knowledge="exponential backoff")
    agent.atom("Elsewhere", "src/**", projectId=OTHER)
    return agent


def atoms_of(found: Said) -> list[Said]:
    return [*(atom for molecule in found["molecules"] for atom in molecule["atoms"]), *found["orphanAtoms"]]


@promise("knowledge, context", "files are told with atoms, molecules, relations and history as the spec draws it")
@promise("K9, K10", "orphans and molecules have relations and history too")
def test_files_are_told_with_their_atoms_molecules_and_history(payments: KnowledgeAgent) -> None:
    found = payments.context(
        "src/payments/webhook-handler.ts, src/payments/stripe-gateway.ts, src/shared/retry-utils.ts,"
        " src/payments/new.ts"
    )
    [domain] = found["molecules"]
    [handlers] = domain["atoms"]
    [retry] = found["orphanAtoms"]
    gateway = handlers["relatedAtoms"][0]["atomId"]
    assert found == {
        "molecules": [
            {
                "id": domain["id"],
                "name": "Payment Domain",
                "knowledge": "idempotent webhooks",
                "relatedMolecules": [],
                "changelog": domain["changelog"],
                "atoms": [
                    {
                        "id": handlers["id"],
                        "name": "Webhook Handlers",
                        "knowledge": "all extend BaseWebhookHandler",
                        "matchedPaths": ["src/payments/webhook-handler.ts", "src/payments/stripe-gateway.ts"],
                        "relatedAtoms": [
                            {"atomId": gateway, "name": "Stripe Integration", "reason": "webhooks call the gateway"}
                        ],
                        "changelog": handlers["changelog"],
                    }
                ],
            }
        ],
        "orphanAtoms": [
            {
                "id": retry["id"],
                "name": "Retry Utilities",
                "knowledge": "exponential backoff",
                "matchedPaths": ["src/shared/retry-utils.ts"],
                "relatedAtoms": [],
                "changelog": [],
            }
        ],
        "unmatchedPaths": ["src/payments/new.ts"],
    }
    [entry] = handlers["changelog"]
    assert (set(entry), entry["taskId"], entry["summary"]) == (
        {"id", "taskId", "summary", "createdAt"},
        TASK,
        "retries added",
    )
    assert [entry["summary"] for entry in domain["changelog"]] == ["domain made"]


def test_only_so_many_entries_are_shown_as_were_asked_for(payments: KnowledgeAgent) -> None:
    [handlers] = payments.context("src/payments/stripe-a.ts")["molecules"][0]["atoms"]
    for number in range(6):
        payments.append({"id": handlers["id"], "paths": []}, f"{number}")
    [shown] = payments.context("src/payments/stripe-a.ts", changelogLimit=2)["molecules"][0]["atoms"]
    assert [entry["summary"] for entry in shown["changelog"]] == ["5", "4"]


@promise("knowledge, overlap", "a file that several atoms match is told with all of them")
def test_a_file_may_belong_to_several_atoms_and_is_named_once_in_each(agent: KnowledgeAgent) -> None:
    agent.atom("Auth", "src/auth/**", "src/shared/**", "src/shared/*.ts")
    agent.atom("Payments", "src/shared/http.ts")
    found = agent.context("src/shared/http.ts")
    assert [(atom["name"], atom["matchedPaths"]) for atom in found["orphanAtoms"]] == [
        ("Auth", ["src/shared/http.ts"]),
        ("Payments", ["src/shared/http.ts"]),
    ]


@promise("K11", "the order is by name in any case, then by id")
def test_the_order_is_by_name_in_any_case_and_then_by_id(agent: KnowledgeAgent) -> None:
    same = [agent.molecule("same") for _ in range(3)]
    for molecule in (*same, agent.molecule("Beta"), agent.molecule("alpha")):
        for name in ("two", "One", "one"):
            agent.atom(name, "**", moleculeId=molecule["id"])
    agent.atom("b", "**")
    agent.atom("A", "**")
    found = agent.context("x")
    assert [molecule["name"] for molecule in found["molecules"]] == ["alpha", "Beta", "same", "same", "same"]
    assert [molecule["id"] for molecule in found["molecules"][2:]] == sorted(molecule["id"] for molecule in same)
    for molecule in found["molecules"]:
        keys = [(atom["name"].casefold(), atom["id"]) for atom in molecule["atoms"]]
        assert keys == sorted(keys)
        assert len(keys) == 3
    assert [atom["name"] for atom in found["orphanAtoms"]] == ["A", "b"]


@promise("K7", "paths are read in any form and told as they were spelt")
@pytest.mark.parametrize(
    ("said", "matched", "unmatched"),
    [
        ("src/a.ts,b.ts", ["src/a.ts"], ["b.ts"]),
        (" src/a.ts , ,b.ts,, ", ["src/a.ts"], ["b.ts"]),
        ("./src/a.ts,src/a.ts,c,./c", ["./src/a.ts"], ["c"]),
        ('["src/a,b.ts", "c"]', ["src/a,b.ts"], ["c"]),
        (["src/a,b.ts", " c ", ""], ["src/a,b.ts"], ["c"]),
        ("[id]/page.tsx, src/x", ["src/x"], ["[id]/page.tsx"]),
        ("z,/src/a.ts,y", [], ["z", "/src/a.ts", "y"]),
        ("src//b.ts", ["src//b.ts"], []),
        ("SRC/a.ts", [], ["SRC/a.ts"]),
    ],
)
def test_paths_are_read_in_any_form_and_told_as_they_were_spelt(
    agent: KnowledgeAgent, said: Any, matched: list[str], unmatched: list[str]
) -> None:
    agent.atom("Source", "src/**")
    found = agent.context(said)
    assert [path for atom in found["orphanAtoms"] for path in atom["matchedPaths"]] == matched
    assert found["unmatchedPaths"] == unmatched


@promise("K44", "an entity type makes no difference to context")
def test_an_entity_type_makes_no_difference(payments: KnowledgeAgent) -> None:
    asked = "src/shared/retry-utils.ts"
    assert payments.context(asked, entityType="molecule") == payments.context(asked)


def test_nothing_known_is_said_so(agent: KnowledgeAgent) -> None:
    assert agent.context("a,b") == {"molecules": [], "orphanAtoms": [], "unmatchedPaths": ["a", "b"]}


# -- how much


def test_what_is_too_much_loses_history_first_then_its_longest_texts(agent: KnowledgeAgent) -> None:
    short = agent.atom("short", "**", knowledge="brief")
    agent.append(short, "s" * 4_000)
    for number in range(4):
        agent.atom(f"long {number}", "**", knowledge="x" * 30_000)
    found = agent.context("a")
    assert found["truncated"] is True
    assert "atomsOmitted" not in found
    atoms = {atom["name"]: atom for atom in found["orphanAtoms"]}
    assert atoms["short"]["knowledge"] == "brief"
    assert "changelog" not in atoms["short"]
    assert len({atom["knowledge"] for name, atom in atoms.items() if name != "short"}) == 1
    assert 10_000 < len(atoms["long 0"]["knowledge"]) < 13_000
    assert atoms["long 0"]["knowledgeTruncated"] is True


def test_history_alone_is_left_out_where_that_is_enough(agent: KnowledgeAgent) -> None:
    for number in range(5):
        atom = agent.atom(f"{number}", "**", knowledge="x" * 5_000)
        for _ in range(5):
            agent.append(atom, "s" * 4_000)
    found = agent.context("a")
    assert [len(atom["knowledge"]) for atom in found["orphanAtoms"]] == [5_000] * 5
    assert "atomsOmitted" not in found


@promise("X15, knowledge", "however much matches, the answer stays small and says what is missing")
def test_however_much_matches_the_answer_stays_small_and_says_what_is_missing(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule(knowledge="m" * 30_000)
    for number in range(60):
        agent.atom(f"{number:03}", "**", knowledge="é\n" * 2_000, moleculeId=molecule["id"] if number % 2 else None)
    paths = [f"some/rather/long/directory/name/{number}.ts" for number in range(300)]
    found = agent.context(paths)
    assert len(msgspec.json.encode(found)) <= 50_000
    shown = atoms_of(found)
    assert len(shown) + found.get("atomsOmitted", 0) == 60
    assert (len(shown[0]["matchedPaths"]), shown[0]["matchedPathsOmitted"]) == (10, 290)
    assert all(atom["knowledge"] for atom in shown)


def test_paths_that_nobody_knows_are_counted_where_they_are_too_many(agent: KnowledgeAgent) -> None:
    paths = [f"some/rather/long/directory/name/{number}.ts" for number in range(3_000)]
    found = agent.context(paths)
    assert (len(found["unmatchedPaths"]), found["unmatchedPathsOmitted"]) == (100, 2_900)


def test_an_answer_never_passes_the_limit_of_the_doors(agent: KnowledgeAgent) -> None:
    for number in range(30):
        agent.atom(
            f"{number:03}",
            *(f"{'é' * 500}{pattern}" for pattern in range(19)),
            "**",
            knowledge="\x01" * 30_000,
            relatedAtoms=[{"atomId": "é" * 200, "reason": "é" * 500}] * 50,
        )
    answer = agent.answer("query_graph", {"operation": "context", "projectId": SHOP, "paths": "a"})
    assert len(msgspec.json.encode(answer.data)) < TOKENS_MAX * BYTES_PER_TOKEN
    assert atoms_of(answer.data["data"])


def test_what_is_written_while_an_answer_is_made_is_not_in_it(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    gone = agent.atom("gone", "**", moleculeId=molecule["id"], knowledge="was here")
    changed = agent.atom("changed", "**", knowledge="before")
    agent.append(changed, "before")
    state = agent.partition._state
    paths = [f"f{number}" for number in range(1_200)]
    answer = context(state, SHOP, paths, ReadFilter(state), changelog=5, bytes_max=10**6)
    next(answer)
    agent.delete(gone)
    agent.update(changed, knowledge="after")
    agent.append(changed, "after")
    agent.atom("new", "**")
    found = {atom["name"]: atom for atom in atoms_of(drained(answer).data)}
    assert {name: atom["knowledge"] for name, atom in found.items()} == {"gone": "was here", "changed": "before"}
    assert [entry["summary"] for entry in found["changed"]["changelog"]] == ["before"]


@promise("knowledge, directories", "a directory means everything below it")
@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("src/payments/", ["Everywhere", "Stripe Integration", "Webhook Handlers"]),
        ("./src/payments/gateway/", ["Everywhere", "Stripe Integration"]),
        ("src/payments/gateway/v2/", ["Everywhere", "Stripe Integration"]),
        ("src/payments/**", ["Everywhere", "Stripe Integration", "Webhook Handlers"]),
        ("src/", ["Everywhere", "Retry Utilities", "Stripe Integration", "Webhook Handlers"]),
        ("./", ["Everywhere", "Retry Utilities", "Stripe Integration", "Webhook Handlers"]),
        ("**", ["Everywhere", "Retry Utilities", "Stripe Integration", "Webhook Handlers"]),
        ("src/payments", []),
        ("docs/", ["Everywhere"]),
        ("/src/", []),
    ],
)
def test_a_directory_means_everything_below_it(payments: KnowledgeAgent, path: str, names: list[str]) -> None:
    payments.atom("Everywhere", "**/*.sql")
    found = payments.context(path)
    assert sorted(atom["name"] for atom in atoms_of(found)) == names
    assert {tuple(atom["matchedPaths"]) for atom in atoms_of(found)} <= {(path,)}
    assert found["unmatchedPaths"] == ([] if names else [path])


# -- what other toolsets carry along


def looked(agent: KnowledgeAgent, paths: list[str], **more: Any) -> Said:
    def look(state: State, read_filter: object) -> Said:
        return NodeKnowledge(make_tool_context()).find(state, SHOP, paths, **more).data

    return agent.run(agent.store.read(agent.principal, Action.READ, look))


def test_knowledge_goes_along_with_the_links_of_a_task(payments: KnowledgeAgent) -> None:
    links = [
        "src/shared/retry-utils.ts#L10",
        "https://example.org/src/shared/retry-x.ts",
        "src/payments/stripe-a.ts:12",
    ]
    found = looked(payments, links)
    assert set(found) == {"molecules", "orphanAtoms"}
    [retry] = found["orphanAtoms"]
    assert set(retry) == {"id", "name", "knowledge", "matchedPaths"}
    assert retry["matchedPaths"] == ["src/shared/retry-utils.ts"]
    assert found["molecules"][0]["atoms"][0]["relatedAtoms"]
    assert looked(payments, ["nowhere.ts"]) == {}
    assert looked(payments, []) == {}


def test_knowledge_that_goes_along_is_short(agent: KnowledgeAgent) -> None:
    for number in range(50):
        agent.atom(f"{number}", "**", knowledge="x" * 30_000)
    assert len(msgspec.json.encode(looked(agent, ["a"]))) <= 12_000
    assert looked(agent, ["a"])["truncated"] is True
    assert len(msgspec.json.encode(looked(agent, ["a"], bytes_max=3_000))) <= 3_000


def test_links_that_are_no_paths_are_passed_over() -> None:
    links = [
        "src/a.ts",
        " src/a.ts ",
        "src/b.ts#L3-L9",
        "src/c.ts:10:2",
        "https://x.org/a",
        "mailto:a@b",
        "/etc/x",
        "../y",
        "~/z",
        "",
    ]
    assert repository_paths(links) == ["src/a.ts", "src/b.ts", "src/c.ts"]


@promise("K34", "the hints of a completed task are the spec's")
def test_a_completed_task_is_answered_with_hints(payments: KnowledgeAgent) -> None:
    assert graph_hints() == {
        "message": "Task completed. Consider updating the knowledge graph.",
        "suggestedActions": [
            "Update atom knowledge for areas affected by this task",
            "Update atom paths if files were moved or new directories created",
            "Append changelog entries for significant changes",
        ],
    }

    def look(state: State, read_filter: object) -> Said:
        return graph_hints(state, SHOP, ["src/shared/retry-a.ts", "new.ts"])

    hints = payments.run(payments.store.read(payments.principal, Action.READ, look))
    assert [atom["name"] for atom in hints["atoms"]] == ["Retry Utilities"]
    assert hints["unmatchedPaths"] == ["new.ts"]
    assert hints.keys() - {"atoms", "unmatchedPaths"} == graph_hints().keys()

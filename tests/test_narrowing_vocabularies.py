"""Knowledge, tasks, typed memories and files: nothing is told of what may not be read, and what was recalled says so.

Two people write into one project, and into each other's things. Bob may read what is his own;
the auditor may read everything, and shows that each question of the table has something to hide.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from tallystick import app
from tallystick.audit.writer import AuditWriter
from tallystick.commits import Draft
from tallystick.config import Settings, load
from tallystick.policy import Action, Decision, DistantPolicy, Policy, Principal, Request
from tallystick.policy.cache import Cache
from tallystick.policy.gate import Gate
from tallystick.server import Offer
from tallystick.server.dispatch import Done, Refused, call
from tallystick.state import trust
from tallystick.state.state import State
from tests.policy.gated_partition import AwaitedPolicy
from tests.promises import promise

Said = dict[str, Any]
Row = tuple[str, Callable[["ServedTools"], Said]]

BOB, ALICE, AUDITOR = (Principal(actor=name) for name in ("bob", "alice", "auditor"))
WORDS = {"bob": "otter", "alice": "zebra"}
REASON = "the writer was deceived"
TOLD = {"recall": "recall_1", "reason": REASON}


BEGINNING = {True}
"""Empty once everybody has written what there is: who may not read something cannot write into it by most tools."""


def own(request: Request) -> bool:
    if BEGINNING or request.action is not Action.READ or request.resource_owner is None:
        return True
    return request.principal.actor in (request.resource_owner, "auditor")


class RulePolicy:
    def decide(self, request: Request) -> Decision:
        return Decision(own(request), "by the rule", "local@1")


POLICIES: dict[str, Callable[[], Policy | DistantPolicy]] = {
    "in process": RulePolicy,
    "distant": lambda: AwaitedPolicy(own),
}
BOTH = pytest.mark.parametrize("policy", POLICIES)


class ServedTools:
    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.ids: dict[str, str] = {}
        """What it is called here → its id: "bob's task"."""

    async def outcome(self, who: Principal, tool: str, /, **arguments: Any) -> Any:
        return await call(self.offer.tools.get(tool), arguments, self.offer.store, lambda: who)

    async def call(self, who: Principal, tool: str, /, **arguments: Any) -> Said:
        outcome = await self.outcome(who, tool, **arguments)
        assert isinstance(outcome, Done), (tool, arguments, outcome)
        data: Said = orjson.loads(outcome.encoded)
        return data

    async def refused(self, who: Principal, tool: str, /, **arguments: Any) -> Said:
        outcome = await self.outcome(who, tool, **arguments)
        assert isinstance(outcome, Refused), outcome
        return outcome.shape

    async def make(self, name: str, who: Principal, tool: str, /, **arguments: Any) -> str:
        """Whatever has just been made, by its id."""
        data = await self.call(who, tool, **arguments)
        found = data.get("data", data)
        made = next((each for each in found.values() if isinstance(each, dict) and "id" in each), found)
        self.ids[name] = made.get("id") or made.get("node_id") or made["connection_id"]
        return self.ids[name]

    async def step(self, tool: str, kind: str, name: str, /, **more: Any) -> Said:
        """Of something of bob's, at the version that it has."""
        one = {"containerType": kind, "id": self.of(name)}
        version = (await self.call(BOB, "query_container", operation="get", **one))["data"][kind]["version"]
        return await self.call(BOB, tool, **one, version=version, **more)

    def of(self, name: str) -> str:
        return self.ids[f"bob's {name}"]

    def hidden(self) -> list[bytes]:
        """Whatever only alice wrote or made."""
        return [b"zebra", *(each.encode() for name, each in self.ids.items() if name.startswith("alice"))]


@asynccontextmanager
async def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> AsyncIterator[ServedTools]:
    def gate(settings: Settings, audit: AuditWriter, *, operator: bool) -> Gate:
        return Gate(POLICIES[policy](), audit=audit, cache=Cache(seconds=0))

    monkeypatch.setattr(app.stores, "make_gate", gate)
    settings = load({"base": tmp_path / "base", "toolsets": "all"}, environ={})
    async with app.served(settings) as offer:
        made = ServedTools(offer)
        BEGINNING.add(True)
        await _shared(made)
        for who in (BOB, ALICE):
            await _own(made, who)
        await _entangled(made)
        BEGINNING.clear()
        yield made


async def _shared(served: ServedTools) -> None:
    await served.make(
        "project", BOB, "manage_container", operation="create", containerType="project", name="Shop", summary="shop"
    )
    joins = [{"name": "cites", "from_types": ["note"], "to_types": ["note"]}]
    await served.call(BOB, "create_ontology", node_types=["note"], connection_types=joins)


async def _own(served: ServedTools, who: Principal) -> None:
    name, word = who.actor, WORDS[who.actor]
    project = served.ids["project"]

    async def container(kind: str, called: str, **more: Any) -> str:
        told: Said = {"name": f"{word} {called}", "title": f"{word} {called}", "summary": word, "tags": [word, "both"]}
        told |= {"description": word, "priority": "HIGH"} | ({"complexity": 3} if kind == "task" else {})
        return await served.make(
            f"{name}'s {called}",
            who,
            "manage_container",
            operation="create",
            containerType=kind,
            projectId=project,
            **told,
            **more,
        )

    feature = await container("feature", "feature")
    task = await container("task", "task", featureId=feature)
    await container("task", "later", featureId=feature)
    template = {"name": f"{word} template", "description": word, "targetEntityType": "TASK"}
    await served.make(f"{name}'s template", who, "manage_template", operation="create", **template)
    known = {"projectId": project, "knowledge": word, "createdByTaskId": task, "operation": "create"}
    molecule = await served.make(
        f"{name}'s molecule", who, "manage_graph", entityType="molecule", name=f"{word} molecule", **known
    )
    await served.make(
        f"{name}'s atom",
        who,
        "manage_graph",
        entityType="atom",
        name=f"{word} atom",
        paths=["src/**", f"{word}/**"],
        moleculeId=molecule,
        **known,
    )
    content = {"content": f"{word} says both", "encoding": "utf-8", "format": "md"}
    await served.make(f"{name}'s note", who, "create_node", type="note", properties={"by": word, "all": "x"}, **content)


async def _entangled(served: ServedTools) -> None:
    """Alice is everywhere: she writes into what is bob's, and bob leans on what is hers."""
    ids = served.ids
    section = {"operation": "add", "entityType": "TASK", "entityId": ids["bob's task"], "usageDescription": "x"}
    for who in (ALICE, BOB):
        word = WORDS[who.actor]
        files = {"title": "Context Files", "content": f"src/{word}.ts\n{word}/x.ts"}
        await served.make(f"{who.actor}'s section", who, "manage_sections", **section, **files)
        for kind in ("atom", "molecule"):
            task = ids[f"{who.actor}'s task"]
            entry = {"parentType": kind, "parentId": ids[f"bob's {kind}"], "taskId": task, "summary": word}
            await served.make(
                f"{who.actor}'s entry of the {kind}", who, "manage_changelog", operation="append", **entry
            )
    known = {
        "projectId": ids["project"],
        "operation": "create",
        "entityType": "atom",
        "createdByTaskId": ids["alice's task"],
    }
    related = [{"atomId": ids["alice's atom"], "reason": "zebra"}]
    await served.make(
        "bob's second atom", BOB, "manage_graph", name="otter second", paths=["src/**"], knowledge="otter",
        moleculeId=ids["alice's molecule"], relatedAtoms=related, **known,
    )  # fmt: skip
    await served.make(
        "alice's second atom", ALICE, "manage_graph", name="zebra second", paths=["src/**"], knowledge="zebra",
        moleculeId=ids["bob's molecule"], **known,
    )  # fmt: skip
    await served.make(
        "bob's second molecule", BOB, "manage_graph", operation="create", entityType="molecule", name="otter second",
        projectId=ids["project"], knowledge="otter", createdByTaskId=ids["bob's task"],
        relatedMolecules=[{"moleculeId": ids["alice's molecule"], "reason": "zebra"}],
    )  # fmt: skip
    await served.make(
        "alice's task in bob's feature", ALICE, "manage_container", operation="create", containerType="task",
        title="zebra", summary="zebra", priority="LOW", complexity=1, featureId=ids["bob's feature"],
    )  # fmt: skip
    for kind in ("task", "feature"):
        await served.step("block", kind, kind, blockedBy=[ids[f"alice's {kind}"]])
    for kind, target in (("BLOCKS", "alice's later"), ("RELATES_TO", "alice's later"), ("RELATES_TO", "bob's task")):
        ends = {"fromId": ids["bob's later"], "toId": ids[target]}
        await served.call(BOB, "manage_dependency", operation="create", type=kind, **ends)
    for whose, source, target in (("bob", "bob", "bob"), ("alice", "bob", "alice")):
        await served.make(
            f"{whose}'s connection", ALICE if whose == "alice" else BOB, "create_connection", type="cites",
            from_node_id=ids[f"{source}'s note"], to_node_id=ids[f"{target}'s note"], content=f"{WORDS[whose]} both",
            format="md",
        )  # fmt: skip


# -- the questions


def _of(kind: str, name: str | None = None) -> Callable[[ServedTools], Said]:
    return lambda served: {"containerType": kind, "id": served.ids[f"bob's {name or kind}"]}


ROWS: dict[str, Row] = {
    "get a molecule": (
        "query_graph",
        lambda w: {"operation": "get", "entityType": "molecule", "id": w.ids["bob's molecule"]},
    ),
    "get an atom": ("query_graph", lambda w: {"operation": "get", "entityType": "atom", "id": w.ids["bob's atom"]}),
    "get an atom that leans on hers": (
        "query_graph",
        lambda w: {"operation": "get", "entityType": "atom", "id": w.ids["bob's second atom"]},
    ),
    "get a molecule that leans on hers": (
        "query_graph",
        lambda w: {"operation": "get", "entityType": "molecule", "id": w.ids["bob's second molecule"]},
    ),
    "search atoms": (
        "query_graph",
        lambda w: {"operation": "search", "entityType": "atom", "projectId": w.ids["project"]},
    ),
    "search molecules": (
        "query_graph",
        lambda w: {"operation": "search", "entityType": "molecule", "projectId": w.ids["project"]},
    ),
    "context": (
        "query_graph",
        lambda w: {"operation": "context", "projectId": w.ids["project"], "paths": "src/a.ts"},
    ),
    "changelog": (
        "manage_changelog",
        lambda w: {"operation": "search", "parentType": "atom", "parentId": w.ids["bob's atom"]},
    ),
    "get a task": (
        "query_container",
        lambda w: {"operation": "get", "includeSections": True, "includeGraphContext": True, **_of("task")(w)},
    ),
    "get a feature": ("query_container", lambda w: {"operation": "get", **_of("feature")(w)}),
    "overview of a feature": ("query_container", lambda w: {"operation": "overview", **_of("feature")(w)}),
    "overview of the project": (
        "query_container",
        lambda w: {"operation": "overview", "containerType": "project", "id": w.ids["project"]},
    ),
    "search tasks": ("query_container", lambda w: {"operation": "search", "containerType": "task"}),
    "search tasks in the project": (
        "query_container",
        lambda w: {"operation": "search", "containerType": "task", "projectId": w.ids["project"]},
    ),
    "search features": ("query_container", lambda w: {"operation": "search", "containerType": "feature"}),
    "sections": ("query_sections", lambda w: {"entityType": "TASK", "entityId": w.ids["bob's task"]}),
    "dependencies": ("query_dependencies", _of("task")),
    "dependents": ("query_dependencies", _of("task", "later")),
    "where it stands": ("query_workflow_state", _of("task", "later")),
    "where a blocked one stands": ("query_workflow_state", _of("task")),
    "next task": ("get_next_task", lambda w: {"priority": "LOW"}),
    "next feature": ("get_next_feature", lambda w: {}),
    "blocked tasks": ("get_blocked_tasks", lambda w: {}),
    "blocked features": ("get_blocked_features", lambda w: {}),
    "templates": ("query_templates", lambda w: {"operation": "list"}),
    "tags": ("list_tags", lambda w: {}),
    "who has a tag": ("get_tag_usage", lambda w: {"tag": "both"}),
    "renaming a tag, tried": ("rename_tag", lambda w: {"oldTag": "both", "newTag": "x", "dryRun": True}),
    "nodes": ("query_nodes", lambda w: {}),
    "connections": ("query_connections", lambda w: {}),
    "connected nodes": ("get_connected_nodes", lambda w: {"node_id": w.ids["bob's note"], "direction": "both"}),
    "contents": ("search_content", lambda w: {"query": "both"}),
    "contents, ranked": ("search_content", lambda w: {"query": "both", "mode": "ranked"}),
    "files of nodes": ("view", lambda w: {"path": "_content/nodes"}),
    "files of connections": ("view", lambda w: {"path": "_content/connections"}),
    "the registry": ("view", lambda w: {"path": "_system/registry.json"}),
}
BY_ID: dict[str, Row] = {
    "get a template": ("query_templates", lambda w: {"operation": "get", "id": w.ids["bob's template"]}),
    "get a node": ("get_node", lambda w: {"node_id": w.ids["bob's note"]}),
    "get a content": ("get_node_content", lambda w: {"node_id": w.ids["bob's note"]}),
    "get a connection": (
        "get_connection",
        lambda w: {"connection_id": w.ids["bob's connection"], "include_content": True},
    ),
    "view a content": ("view", lambda w: {"path": f"_content/nodes/{w.of('note')}.md"}),
    "view the notes of a connection": (
        "view",
        lambda w: {"path": f"_content/connections/{w.of('connection')}.md"},
    ),
}
"""About one entity alone: nothing to hide, but to be warned of."""
SCHEMA = {"get_ontology", "validate_connection"}
"""About types, which are nobody's."""


@pytest.mark.parametrize("toolset", ["knowledge", "tasks", "ontology", "files"])
def test_every_tool_that_reads_is_in_the_table(tmp_path: Path, toolset: str) -> None:
    known = {each.name: each for each in app.toolsets(load({"base": tmp_path}, environ={}))}
    reads = {tool.name for tool in known[toolset].tools if tool.reads_only}
    assert reads <= {tool for tool, _ in (*ROWS.values(), *BY_ID.values())} | SCHEMA


@promise("L33, X8, vocabularies", "no answer of knowledge, tasks, typed memory or files tells of what may not be read")
@BOTH
async def test_no_answer_holds_what_only_somebody_else_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    async with served(tmp_path, monkeypatch, policy) as base:
        for name, (tool, arguments) in ROWS.items():
            asked = arguments(base)
            named = {each.encode() for each in asked.values() if isinstance(each, str)}
            secret = [each for each in base.hidden() if each not in named]
            told = orjson.dumps(await base.call(BOB, tool, **asked))
            assert [each for each in secret if each in told] == [], name
            everything = orjson.dumps(await base.call(AUDITOR, tool, **asked))
            assert any(each in everything for each in secret), f"{name} would hide nothing"


async def test_what_is_ones_own_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, "in process") as base:
        for name, (tool, arguments) in (ROWS | BY_ID).items():
            if name in ("next task", "blocked tasks", "blocked features"):
                continue  # The only one of low priority is hers, and what his wait for is hers.
            told = orjson.dumps(await base.call(BOB, tool, **arguments(base)))
            mine = [b"otter", *(each.encode() for key, each in base.ids.items() if key.startswith("bob"))]
            assert any(each in told for each in mine), name


# -- what is subtle


@promise("L33, counts", "totals and pages are those of what is seen")
async def test_totals_and_pages_are_those_of_what_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, "distant") as base:
        seen: list[str] = []
        offset: int | None = 0
        while offset is not None:
            asked = {"operation": "search", "containerType": "task", "limit": 1, "offset": offset}
            page = (await base.call(BOB, "query_container", **asked))["data"]
            assert page["total"] == 2
            seen += [each["title"] for each in page["items"]]
            offset = page.get("nextOffset")
        assert seen == ["otter later", "otter task"]
        overview = {"operation": "overview", "containerType": "feature", "id": base.ids["bob's feature"]}
        told = (await base.call(BOB, "query_container", **overview))["data"]
        assert told["taskCounts"] == {"total": 2, "byStatus": {"NEW": 2}}
        asked = {"operation": "search", "parentType": "atom", "parentId": base.ids["bob's atom"], "limit": 1}
        entries = (await base.call(BOB, "manage_changelog", **asked))["data"]
        assert (entries["total"], entries["count"], "nextOffset" in entries) == (1, 1, False)


@BOTH
async def test_the_next_task_is_the_first_that_may_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    async with served(tmp_path, monkeypatch, policy) as base:
        for number in range(40):
            task = {"title": f"zebra {number}", "summary": "x", "priority": "HIGH", "complexity": 1}
            await base.call(ALICE, "manage_container", operation="create", containerType="task", **task)
        told = (await base.call(BOB, "get_next_task"))["data"]["task"]
        assert told["id"] == base.ids["bob's task"]


async def test_a_distant_policy_is_not_asked_about_every_task_to_find_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distant = AwaitedPolicy(own)
    monkeypatch.setitem(POLICIES, "counted", lambda: distant)
    async with served(tmp_path, monkeypatch, "counted") as base:
        for number in range(100):
            task = {"title": f"otter {number}", "summary": "x", "priority": "LOW", "complexity": 9}
            await base.call(BOB, "manage_container", operation="create", containerType="task", **task)
        distant.asked.clear()
        assert (await base.call(BOB, "get_next_task"))["data"]["task"]["id"] == base.of("task")
        assert len(distant.asked) < 30


async def test_what_waits_for_something_hidden_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, "in process") as base:
        task = {"id": base.ids["bob's task"], "containerType": "task"}
        stands = (await base.call(BOB, "query_workflow_state", **task))["data"]
        assert (stands["isBlocked"], stands["blockedBy"]) == (False, [])
        blocked = (await base.call(BOB, "get_blocked_tasks"))["data"]
        assert (blocked["tasks"], blocked["count"]) == ([], 0)
        assert (await base.call(AUDITOR, "get_blocked_tasks"))["data"]["count"] == 2
        told = await base.step("advance", "task", "task")
        assert told["data"]["transition"] == {"from": "NEW", "to": "ACTIVE"}


async def test_a_path_that_only_others_know_of_is_unmatched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, "in process") as base:
        asked = {"operation": "context", "projectId": base.ids["project"], "paths": "zebra/x.ts,otter/x.ts"}
        assert (await base.call(BOB, "query_graph", **asked))["data"]["unmatchedPaths"] == ["zebra/x.ts"]
        assert (await base.call(AUDITOR, "query_graph", **asked))["data"]["unmatchedPaths"] == []


@BOTH
async def test_a_write_tells_no_more_than_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    async with served(tmp_path, monkeypatch, policy) as base:
        related = [{"atomId": base.ids["alice's atom"], "reason": "x"}]
        atom = {"operation": "update", "entityType": "atom", "id": base.ids["bob's atom"], "version": 1}
        told = await base.call(BOB, "manage_graph", **atom, relatedAtoms=related)
        assert told["data"]["atom"]["relatedAtoms"] == []
        for _ in range(2):
            told = await base.step("advance", "task", "later")
            assert [each for each in base.hidden() if each in orjson.dumps(told)] == []
        assert "unblockedEntities" not in told["data"]


async def test_a_feature_is_not_closed_over_a_task_that_cannot_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, "in process") as base:
        for name in ("task", "later"):
            await base.step("terminate", "task", name)
        feature = {"operation": "get", "containerType": "feature", "id": base.ids["bob's feature"]}
        told = (await base.call(BOB, "query_container", **feature))["data"]["feature"]
        assert told["status"] == "NEW"


# -- recalled


async def recall(base: ServedTools, *names: str) -> None:
    entities = [base.ids[name] for name in names or base.ids]

    def propose(state: State, read_filter: object) -> Draft:
        return Draft(trust.recall("recall_1", REASON, entities, {}), actor="officer", tool="recall")

    await base.offer.store.write(Principal(actor="officer"), Action.WRITE, propose)


def shown(told: Any) -> Iterator[Said]:
    """Whatever in an answer tells of an entity."""
    if isinstance(told, dict):
        if isinstance(told.get("id"), str) or "atomId" in told:
            yield told
        for each in told.values():
            yield from shown(each)
    elif isinstance(told, list):
        for each in told:
            yield from shown(each)


@promise("Quarantine, vocabularies", "what was recalled says so wherever it is shown")
async def test_every_entity_that_was_recalled_says_so_wherever_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, "in process") as base:
        rows = (ROWS | BY_ID).items()
        before = {name: await base.call(AUDITOR, tool, **asked(base)) for name, (tool, asked) in rows}
        assert [name for name, told in before.items() if b'"untrusted"' in orjson.dumps(told)] == []
        await recall(base)
        recalled = set(base.ids.values())
        for name, (tool, arguments) in rows:
            told = await base.call(AUDITOR, tool, **arguments(base))
            jsonschema.validate(told, base.offer.tools.get(tool).tool.output)
            if name != "tags":
                assert b'"untrusted"' in orjson.dumps(told), name
            for entity in shown(told):
                if (entity.get("id") or entity.get("atomId")) in recalled:
                    assert entity.get("untrusted") == TOLD or tool == "view", (name, entity)


async def test_lists_of_ids_name_those_that_were_recalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, "in process") as base:
        await recall(base, "alice's note", "bob's connection")
        alices, connection = [base.ids["alice's note"]], [base.ids["bob's connection"]]
        assert (await base.call(AUDITOR, "query_nodes"))["untrusted"] == alices
        assert (await base.call(AUDITOR, "search_content", query="both"))["untrusted"] == alices
        assert (await base.call(AUDITOR, "query_connections"))["untrusted"] == connection
        registry = await base.call(AUDITOR, "view", path="_system/registry.json")
        assert registry["untrusted"] == alices + connection
        # Who may not read it is not warned of it.
        assert "untrusted" not in await base.call(BOB, "query_nodes")
        assert (await base.call(BOB, "view", path="_system/registry.json"))["untrusted"] == connection


async def test_whoever_reads_the_text_of_a_view_is_warned_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, monkeypatch, "in process") as base:
        await recall(base, "bob's note")
        path = f"_content/nodes/{base.of('note')}.md"
        assert (await base.outcome(BOB, "view", path=path)).text.endswith(f"(untrusted: {REASON})")
        assert f"{path} (untrusted)" in (await base.outcome(BOB, "view", path="_content/nodes")).text

"""The skills: short, in the form that agents expect, and what they tell an agent to call works as it stands there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick import app, config
from tests.mcp_client import call, connect
from tests.plugins import skills
from tests.promises import promise
from tests.tokens import IS_INSTALLED, count_tokens

SETTINGS = config.load(environ={})
TOOLS = {
    tool.name.replace(".", "_"): tool
    for toolset in app.toolsets(SETTINGS)
    if toolset.name in SETTINGS.toolsets
    for tool in toolset.tools
}
"""Those that are on by default."""
each_skill = pytest.mark.parametrize("name", skills.NAMES)


def test_these_are_all_the_skills() -> None:
    assert {path.parent.name for path in skills.PLUGIN.glob("skills/*/SKILL.md")} == set(skills.NAMES)


@each_skill
def test_a_skill_says_what_it_is_for_and_when_to_use_it(name: str) -> None:
    matter = skills.front_matter(name)
    assert matter["name"] == name
    assert "Use when" in matter["description"] or "Use at" in matter["description"]
    assert len(matter["description"]) <= 400


@promise("skills, short", "a skill costs at most a thousand tokens, and all their descriptions 350")
@pytest.mark.skipif(not IS_INSTALLED, reason="the tokenizer comes with make test")
def test_a_skill_is_read_in_no_time() -> None:
    assert max(count_tokens([skills.text(name) for name in skills.NAMES])) <= 1000
    assert sum(count_tokens([skills.front_matter(name)["description"] for name in skills.NAMES])) <= 350


def _words(value: Any) -> Iterator[str]:
    """Every name of a property, and every value that a schema allows."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from [inner] if isinstance(inner, str) else _words(inner)


ANSWERED = {"fresh", "stale", "untrusted", "superseded_by", "unmatchedPaths", "newly_actionable", "commit_id"}
ATTRIBUTES = {"cites", "stale_after", "supersedes", "verified"}
KNOWN = {*TOOLS, *skills.NAMES, *ANSWERED, *ATTRIBUTES, "tallystick", "tallystick recall", "null", "fresh: false"}


@promise("skills, real", "a skill names only tools, arguments and answers that there are")
@each_skill
def test_a_skill_names_only_tools_arguments_and_answers_that_there_are(name: str) -> None:
    words = {word for tool in TOOLS.values() for word in _words(tool.input.model_json_schema())}
    assert {code for code in skills.inline_code(name) if not code.startswith(("{", '"'))} - KNOWN - words == set()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    repository = tmp_path / "shop"
    for name in ("src/refunds.py", "src/orders.py", "src/retry.py"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("pass\n")
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    return repository


@promise("skills, work", "what the skills tell an agent to call succeeds as it stands there")
async def test_what_the_skills_tell_an_agent_to_call_succeeds_as_it_stands_there(
    repository: Path, tmp_path: Path
) -> None:
    """An agent that plans, then finds, does, remembers and looks back; what stands in <> is what answers gave it."""
    ids: dict[str, str] = {"<commit>": "4f2c1aa"}
    async with connect(tmp_path / "base", cwd=repository) as client:
        await call(client, "graph_open", project="shop")
        await call(client, "memory_write", **_known("gateway_limit_old"))
        ids["<commit id>"] = (await call(client, "memory_write", **_known("refund_retries")))["commit_id"]
        for name in ("planning", "discovery", "execution", "remember", "audit"):
            for step in skills.calls(name):
                assert step.tool in TOOLS
                answer = await call(client, step.tool, **_filled(step.arguments, ids))
                ids |= _ids(step, answer)
        assert (await call(client, "graph_query", project="shop", filter={"resolved": True}))["total"] == 1
        assert (await call(client, "memory_search", query="limited to ten a second"))["entities"]
    assert {"<task>", "<other task>", "<atom>", "<molecule>"} <= set(ids)


def _known(name: str) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": name, "type": "Decision", "attrs": {"says": "five"}}, "reason": "seen"}


def _filled(arguments: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    said = json.dumps(arguments)
    for placeholder, id in ids.items():
        said = said.replace(placeholder, id)
    assert "<" not in said
    filled = json.loads(said)
    assert isinstance(filled, dict)
    return filled


def _ids(step: skills.ToolCall, answer: dict[str, Any]) -> dict[str, str]:
    """What a later call may name."""
    if step.tool == "graph_plan":
        created = {node["ref"]: node["id"] for node in answer["created"]}
        return {"<task>": created["limits"], "<other task>": created["retry"]}
    if step.tool == "manage_graph" and step.arguments["operation"] == "create":
        return {f"<{step.arguments['entityType']}>": answer["data"][step.arguments["entityType"]]["id"]}
    return {}

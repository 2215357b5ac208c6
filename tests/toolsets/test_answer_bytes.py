"""Programs get the pages they ask for, up to `answer_bytes_max`; nothing past that is read or held (X15)."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest

from tallystick.log.memory import MemoryLog
from tallystick.toolsets.memory import hit_text
from tests.toolsets.agent import Agent

BYTES = 100_000
PAGES: list[tuple[str, dict[str, Any], str]] = [
    ("memory.search", {"type": "note", "limit": 1_000}, "entities"),
    ("memory.search", {"type": "note", "attrs": {"text": {"regex": "x"}}, "limit": 1_000}, "entities"),
    ("memory.search", {"query": "otter", "fields": ["attrs"], "limit": 1_000}, "entities"),
    ("memory.search", {"id": "hub", "traversal": {"closure": True}, "limit": 1_000}, "entities"),
    ("memory.lineage", {"entity_id": "often", "limit": 1_000}, "lineage"),
    ("memory.lineage", {"entity_id": "often", "limit": 1_000, "export_format": "csv"}, "csv"),
]


@pytest.fixture
def program(agent: Agent) -> Agent:
    for number in range(60):
        agent.node(f"n{number:02}", text=f"otter {'x' * 10_000}")
        agent.node("often", "other", text=f"{number} {'x' * 10_000}")
    agent.node("hub", "hub")
    for number in range(60):
        agent.edge("hub", "has", f"n{number:02}")
    agent.principal = msgspec.structs.replace(agent.principal, is_program=True, answer_bytes_max=BYTES)
    return agent


@pytest.mark.parametrize(("tool", "asked", "key"), PAGES)
def test_a_page_for_a_program_is_bounded_in_bytes_and_the_next_one_goes_on(
    program: Agent, tool: str, asked: dict[str, Any], key: str
) -> None:
    shown, offset = 0, 0
    while offset is not None:
        answer = program.call(tool, **asked, offset=offset)
        page = answer["pagination"]
        assert len(orjson.dumps(answer)) < 2 * BYTES
        end = page["next_offset"] or 60
        assert page.get("truncated", False) == (end < 60)
        shown += len(answer[key]) if key != "csv" else answer[key].count("\r\n") - 1
        assert shown == end
        offset = page["next_offset"]


@pytest.mark.parametrize("case", [0, 4, 5], ids=["search", "lineage", "csv"])
def test_documents_past_the_end_of_a_page_are_not_read(
    program: Agent, monkeypatch: pytest.MonkeyPatch, case: int
) -> None:
    tool, asked, _ = PAGES[case]
    lines: list[int] = []
    read = MemoryLog.line

    def counted(self: MemoryLog, offset: int, *, checked: bool = True) -> bytes:
        lines.append(offset)
        return read(self, offset, checked=checked)

    monkeypatch.setattr(MemoryLog, "line", counted)
    program.call(tool, **asked)
    assert len(set(lines)) < 40


def test_a_long_value_is_cut_before_it_is_put_on_one_line(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    agent.node("a", text="otter " * 40_000)
    flat = hit_text._flat
    lengths: list[int] = []

    def measured(text: str) -> str:
        lengths.append(len(text))
        return flat(text)

    monkeypatch.setattr(hit_text, "_flat", measured)
    [hit] = agent.search(query="otter")["entities"]
    assert hit["text"].startswith("otter otter")
    assert max(lengths) == 64 << 10


@pytest.mark.parametrize(("tool", "asked", "key"), PAGES)
def test_others_run_between_two_hits(
    program: Agent, monkeypatch: pytest.MonkeyPatch, tool: str, asked: dict[str, Any], key: str
) -> None:
    """Each hit of a page is a step of its own, after which the work may pause."""
    monkeypatch.setattr("tallystick.engine.partition.SLICE_SECONDS", -1.0)
    pauses = 0

    async def counted(self: object, tenant: str) -> None:
        nonlocal pauses
        pauses += 1

    monkeypatch.setattr("tallystick.system.turns.Turns.turn", counted)
    answer = program.call(tool, **asked)
    hits = len(answer[key]) if key != "csv" else answer[key].count("\r\n") - 1
    assert pauses >= hits > 0

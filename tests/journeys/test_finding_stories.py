"""An agent that knows what tools/list and the instructions say asks about what others wrote, in its own words."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from bench.questions import QUESTIONS, write
from tests.mcp_client import TRANSPORTS, call, connect
from tests.promises import promise


async def written(base: Path) -> None:
    """By an agent with the tools of every vocabulary."""
    async with connect(base, "--toolsets", "all", agent="writer") as client:
        loop = asyncio.get_running_loop()

        def speak(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return asyncio.run_coroutine_threadsafe(call(client, tool, **arguments), loop).result()

        await asyncio.to_thread(write, speak)


async def chosen_tool(client: Client) -> str:
    """The one that takes words, as a client finds it that was told nothing."""
    listed = (await client.list_tools()).tools
    takes_words = [tool.name for tool in listed if "query" in tool.input_schema["properties"]]
    assert takes_words
    return takes_words[0]


@promise("X23", "words find things in every vocabulary, by one call")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_ten_questions_in_other_words_are_answered_by_one_call_each(tmp_path: Path, transport: str) -> None:
    await written(tmp_path)
    async with connect(tmp_path, transport=transport, agent="reader") as client:
        tool = await chosen_tool(client)
        for asked in QUESTIONS:
            answer = await client.call_tool(tool, {"query": asked.question})
            assert not answer.is_error
            (block,) = answer.content
            lines = block.text.splitlines()  # type: ignore[union-attr]  # a text block
            assert any(asked.fact in line for line in lines[:4]), (asked, lines)
            assert answer.structured_content is not None
            assert any(asked.fact in hit["text"] for hit in answer.structured_content["entities"][:3])


async def test_a_reader_who_finds_nothing_learns_which_words_there_are(tmp_path: Path) -> None:
    await written(tmp_path)
    async with connect(tmp_path, agent="reader") as client:
        told = await call(client, "memory.search", query="zeppelins")
        assert told["entities"] == []
        assert "decision" in told["types"]
        facets = (await call(client, "memory.search", facets=True))["facets"]
        assert "owns" in [each["name"] for each in facets["relations"]]
        assert {"status", "text"} <= {each["name"] for each in facets["attributes"]}


async def test_a_search_within_a_project_knows_it_by_what_graph_open_knows_it_by(tmp_path: Path) -> None:
    async with connect(tmp_path) as client:
        root = (await call(client, "graph_open", project="Bridge", goal="Cross the brook"))["root"]["id"]
        await call(client, "graph_plan", nodes=[{"ref": "1", "summary": "Order oak planks"}])
        for project in ("Bridge", "bridge", root):
            found = await call(client, "memory.search", query="oak planks", scope={"project": project})
            assert [hit["text"] for hit in found["entities"]][:1] == ["Order oak planks"], project

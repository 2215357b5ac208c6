"""What an agent knows before its first call: instructions, descriptions, and what clients find tools by (X11, L58)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tallystick.app import toolsets
from tallystick.config import Settings
from tallystick.server.dispatch import Tools, choose
from tallystick.server.http import http_app
from tallystick.server.instructions import write_instructions
from tallystick.server.listing import ALWAYS_LOAD, SEARCH_HINT, Listing
from tests.promises import promise
from tests.server import sample
from tests.server.fast_paths import (
    ENVELOPE,
    INITIALIZED,
    JSON_HEADERS,
    LEGACY,
    MODERN,
    RESERVED,
    Application,
    HttpRequest,
    hello,
    rpc,
    talk,
)

SETTINGS = Settings(base=Path("nowhere"))
EVERY = toolsets(SETTINGS)
PROVIDERS_PATTERN = re.compile(r"[a-zA-Z0-9_-]{1,64}")
WORDS = "remember recall note decision todo next done claim"


def default_tools(**changes: Any) -> Tools:
    return choose(EVERY, **{"names": SETTINGS.toolsets, **changes})


def described(tools: Tools) -> dict[str, dict[str, Any]]:
    return {tool["name"]: tool for tool in Listing(sample.offer(tools=tools)).tools(None)}


# -- instructions


@promise("X11, when", "the instructions say when to look, to write and to claim, and how to turn the others on")
def test_the_instructions_say_when_to_look_to_write_and_to_claim() -> None:
    said = write_instructions(default_tools())
    for line in ("- Look before", "- Write when", "- Claim before"):
        assert line in said
    for off in ("tasks (", "ontology (", "files ("):
        assert off in said.partition("--toolsets")[2]


def test_the_instructions_name_no_tool_that_is_off() -> None:
    said = write_instructions(default_tools(read_only=True))
    assert "memory_search" in said
    named = set(re.findall(r"\w+_\w+", said)) & {entry.underscored for entry in choose(EVERY)}
    assert named <= {entry.underscored for entry in default_tools(read_only=True)}


@pytest.mark.parametrize(("tool_names", "name"), [("auto", "memory_search"), ("dotted", "memory.search")])
def test_the_instructions_name_tools_as_models_are_shown_them(tool_names: Any, name: str) -> None:
    assert f"{name} with `query`" in write_instructions(default_tools(), tool_names)


def test_a_guide_is_about_tools_that_there_are() -> None:
    for toolset in (each.built for each in EVERY):
        names = {tool.name for tool in toolset.tools}
        assert {*toolset.guide, *toolset.keywords, *filter(None, [toolset.always_loaded])} <= names


# -- descriptions


@promise("X11, words", "descriptions hold the words that people use")
def test_descriptions_hold_the_words_that_people_use() -> None:
    said = " ".join(tool["description"] for tool in described(default_tools()).values()).lower()
    assert [word for word in WORDS.split() if word not in said] == []


@promise("X11, searches", "the first sentence says what each of the three searches is for")
def test_the_first_sentence_says_what_each_of_the_three_searches_is_for() -> None:
    tools = described(default_tools())
    first = {
        name: tools[name]["description"].partition(". ")[0] for name in ("memory.search", "query_graph", "graph_query")
    }
    assert "anything, from every toolset" in first["memory.search"]
    assert "before touching files" in first["query_graph"]
    assert "todos of one work project" in first["graph_query"]


# -- for clients that defer tools


@promise("X11, deferred", "clients that defer tools find them by words, and always have the search")
def test_clients_that_defer_tools_find_them_by_words_and_always_have_the_search() -> None:
    tools = described(default_tools())
    assert all(len(tool["_meta"][SEARCH_HINT].split()) >= 3 for tool in tools.values())
    assert [name for name, tool in tools.items() if tool["_meta"].get(ALWAYS_LOAD)] == ["memory.search"]


# -- names


def listed(answer: Any) -> list[str]:
    return [tool["name"] for tool in answer["result"]["tools"]]


def list_request(version: str, client: str) -> bytes:
    meta = {**ENVELOPE, RESERVED + "clientInfo": {"name": client, "version": "1"}}
    return rpc(7, "tools/list", {"_meta": meta} if version == MODERN else {})


CLIENTS = {"mcp": True, "ai-sdk-mcp-client": True, "claude-ai": True, "mcp-inspector": False}
each_client = pytest.mark.parametrize(("client", "without_dots"), CLIENTS.items(), ids=CLIENTS)
each_version = pytest.mark.parametrize("version", [*LEGACY, MODERN])
each_path = pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "SDK"])


@promise("L58, stdio", "names fit the client, in every version of the protocol")
@each_path
@each_version
@each_client
def test_over_stdio_names_fit_the_client(client: str, without_dots: bool, version: str, fast_path: bool) -> None:
    handshake = [] if version == MODERN else [hello(version, client), INITIALIZED]
    told = talk(handshake, [list_request(version, client)], fast_path=fast_path)
    names = listed(next(each for each in told if each["id"] == 7))
    assert all(PROVIDERS_PATTERN.fullmatch(name) for name in names) == without_dots


@promise("L58, HTTP", "over HTTP too")
@each_path
@each_version
@each_client
async def test_over_http_names_fit_the_client(client: str, without_dots: bool, version: str, fast_path: bool) -> None:
    application = Application(http_app(sample.offer(), hosts=["memory.example"], fast_path=fast_path))
    headers = (*JSON_HEADERS, ("mcp-protocol-version", version))
    async with application.run():
        if version == MODERN:
            headers = (*headers, ("mcp-method", "tools/list"))
        else:
            await application.open_session("it", version, client=client)
            headers = (*headers, ("mcp-session-id", "session:it"))
        answer = await application.tell(HttpRequest(list_request(version, client), headers))
    assert all(PROVIDERS_PATTERN.fullmatch(name) for name in listed(answer.body)) == without_dots

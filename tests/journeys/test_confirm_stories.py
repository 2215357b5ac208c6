"""Before a redaction the person at the client is asked, where the client can ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client

from tests.mcp_client import TRANSPORTS, call, connect, refused
from tests.promises import promise

REDACT = {"op": "REDACT_NODE", "node_id": "ann", "reason": "she asked to", "redacted_fields": ["attrs.email"]}
ASKING = [("stdio", "legacy"), ("stdio", "auto"), ("http", "auto")]
"""Where the protocol has a way to ask."""


class Person:
    def __init__(self, action: str, **content: Any) -> None:
        self._answer = {"action": action, **({"content": content} if content else {})}
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        return types.ElicitResult.model_validate(self._answer)


async def remember(client: Client) -> None:
    for email in ("ann@one.example", "ann@two.example"):
        node = {"id": "ann", "type": "person", "attrs": {"email": email, "name": "Ann"}}
        await call(client, "memory.write", op="UPSERT_NODE", node=node)


async def known(client: Client) -> Any:
    return (await call(client, "memory.read", entity_id="ann"))["entity"]["attrs"]


@promise("elicitation", "a person who agrees was told what will be erased, and no values")
@pytest.mark.parametrize(("transport", "mode"), ASKING)
async def test_a_person_who_agrees_was_told_what_will_be_erased(transport: str, mode: str, tmp_path: Path) -> None:
    person = Person("accept", confirm=True)
    async with connect(tmp_path, transport=transport, mode=mode, elicitation_callback=person) as client:
        await remember(client)
        assert person.asked == []
        await call(client, "memory.write", **REDACT)
        (words,) = person.asked
        assert "attrs.email of person 'ann', in 2 stored versions. Reason: she asked to" in words
        assert "@" not in words
        assert (await known(client))["email"] != "ann@two.example"


@promise("elicitation, declined", "without a yes nothing is written")
@pytest.mark.parametrize(
    "person",
    [Person("decline"), Person("cancel"), Person("accept"), Person("accept", confirm=False), Person("accept", other=1)],
    ids=["declined", "closed", "no answer", "no", "something else"],
)
@pytest.mark.parametrize(("transport", "mode"), ASKING)
async def test_without_a_yes_nothing_is_written(transport: str, mode: str, person: Person, tmp_path: Path) -> None:
    person.asked.clear()
    async with connect(tmp_path, transport=transport, mode=mode, elicitation_callback=person) as client:
        await remember(client)
        position = (await call(client, "memory.read", entity_id="ann"))["position"]
        several = {"ops": [{"op": "UPSERT_NODE", "node": {"id": "b", "type": "note", "attrs": {}}}, REDACT]}
        for asked in (REDACT, several):
            assert (await refused(client, "memory.write", **asked))["error"] == "NOT_CONFIRMED"
        assert len(person.asked) == 2
        assert (await call(client, "memory.read", entity_id="ann"))["position"] == position
        assert (await known(client))["email"] == "ann@two.example"


@promise("elicitation, cannot ask", "a client that cannot ask redacts as ever")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_that_cannot_ask_redacts_as_ever(transport: str, mode: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport, mode=mode) as client:
        await remember(client)
        await call(client, "memory.write", **REDACT)
        assert (await known(client))["email"] != "ann@two.example"


@promise("elicitation, off", "for agents that work alone it is turned off")
@pytest.mark.parametrize(("transport", "mode"), ASKING)
async def test_for_agents_that_work_alone_it_is_turned_off(transport: str, mode: str, tmp_path: Path) -> None:
    person = Person("decline")
    setting = {"TALLYSTICK_CONFIRM_REDACTIONS": "false"}
    async with connect(
        tmp_path, transport=transport, mode=mode, elicitation_callback=person, environ=setting
    ) as client:
        await remember(client)
        await call(client, "memory.write", **REDACT)
        assert person.asked == []


async def test_over_http_in_the_handshake_era_nobody_can_be_asked(tmp_path: Path) -> None:
    person = Person("decline")
    async with connect(tmp_path, transport="http", mode="legacy", elicitation_callback=person) as client:
        await remember(client)
        await call(client, "memory.write", **REDACT)
        assert person.asked == []


async def test_what_would_be_refused_is_refused_without_a_question(tmp_path: Path) -> None:
    person = Person("accept", confirm=True)
    async with connect(tmp_path, elicitation_callback=person) as client:
        await remember(client)
        for wrong in ({"node_id": "absent"}, {"redacted_fields": ["type"]}, {"op": "REDACT_EDGE"}):
            assert (await client.call_tool("memory.write", {**REDACT, **wrong})).is_error
        assert person.asked == []


@promise("elicitation, what was shown", "what was agreed to is what was shown")
async def test_what_was_agreed_to_is_what_was_shown(tmp_path: Path) -> None:
    """A yes to other words, or to an older state, is answered by the question as it is now."""

    async def ask(**more: Any) -> Any:
        return await client.session.call_tool("memory.write", {**REDACT}, allow_input_required=True, **more)

    async with connect(tmp_path, elicitation_callback=Person("accept", confirm=True)) as client:
        await remember(client)
        yes = {"confirm": types.ElicitResult(action="accept", content={"confirm": True})}
        first = await ask()
        assert isinstance(first, types.InputRequiredResult)
        for state in (None, "", "0" * 64):
            assert isinstance(await ask(input_responses=yes, request_state=state), types.InputRequiredResult)
        await remember(client)
        second = await ask(input_responses=yes, request_state=first.request_state)
        assert isinstance(second, types.InputRequiredResult)
        done = await ask(input_responses=yes, request_state=second.request_state)
        assert isinstance(done, types.CallToolResult)
        assert not done.is_error

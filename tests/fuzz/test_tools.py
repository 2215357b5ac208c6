"""Every tool with arguments made from its own schema: an answer that fits, or a refusal on purpose, and never a bug.

Afterwards the log verifies, a replay gives the live state, and every view is what the log says.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tallystick import app
from tallystick.engine import partition
from tallystick.errors import InvalidArgument
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.server import Offer
from tallystick.server.dispatch import Broken, Done, OfferedTool, Refused, choose
from tallystick.server.jsonrpc import WireFault, parse
from tallystick.server.schemas import error_schema, input_schema
from tallystick.state.state import State
from tests.fuzz.arguments import Attempt, Schema, settled, told, tried
from tests.fuzz.budget import SECONDS_MAX, tries
from tests.fuzz.servers import check_sound
from tests.promises import promise
from tests.sample_memory import outcome_of, write_sample
from tests.state.state_dump import dump_state
from torture import writer

pytestmark = pytest.mark.timeout(SECONDS_MAX)

EVERY_TOOL = {entry.dotted: entry for entry in choose(app.toolsets(writer.settled("nowhere")), names=["all"])}
TOOLSETS = sorted({entry.toolset.name for entry in EVERY_TOOL.values()})
OURS = re.compile(
    r'Traceback|File "|site-packages|/tallystick/|\b[A-Z]\w+Error\b|<class |object at 0x|pydantic|msgspec'
)
"""What no caller should read."""
KNOWN_MAX = 40
MENDED_TIMES = 4


class ServedBase:
    """A base served in a thread of its own, with what its answers told."""

    def __init__(self, base: Path, portal: BlockingPortal, offer: Offer) -> None:
        self.settings = writer.settled(base)
        self.user = app.local_user(self.settings)
        self.offer = offer
        self.reached: Counter[str] = Counter()
        """Calls that did not fall at the form of their arguments."""
        self._portal = portal
        self.known: dict[str, list[str]] = {}
        self._learn(portal.call(write_sample, offer, self.user))
        self._learn({"id": "acme-plan", "project": "acme-launch", "type": ["note", "idea", "about"]})

    def try_out(self, tool: str, tried: Attempt) -> None:
        problems = self.call(tool, tried.arguments)
        for _ in range(MENDED_TIMES):
            if problems:
                tried.mend(_schema(tool).get("required", ()), problems)
                problems = self.call(tool, tried.arguments)

    def call(self, tool: str, arguments: Any) -> list[str]:
        """What is wrong with the arguments. As a door would: only what passes the wire reaches a tool."""
        try:
            arrived = parse(json.dumps(settled(arguments, self.known)).encode())
        except WireFault:
            return []
        outcome = self._portal.call(outcome_of, self.offer, self.user, tool, arrived)
        assert not isinstance(outcome, Broken), arrived
        if isinstance(outcome, Done):
            check_answer(EVERY_TOOL[tool], outcome, str(self.settings.base))
            self._learn(outcome.data)
        else:
            check_refusal(EVERY_TOOL[tool], outcome, str(self.settings.base))
        self.reached[tool] += isinstance(outcome, Done) or outcome.error.code != InvalidArgument.code
        return [] if isinstance(outcome, Done) else outcome.problems

    def live_and_replayed(self) -> tuple[Any, Any]:
        live, replayed = self._portal.call(self._dumps)
        return live, replayed

    async def _dumps(self) -> tuple[Any, Any]:
        live = await (await self.offer.store.partition(self.user)).look(dump_state)
        log = FilesLog(self.settings.system)
        try:
            replayed = State(log.line)
            for entry in log.read(Head()):
                replayed.apply(entry.commit, entry.offset, entry.end)
            return live, dump_state(replayed)
        finally:
            log.close()

    def _learn(self, data: Any) -> None:
        for noun, text in told(data):
            self.known[noun] = [*(each for each in self.known.get(noun, ()) if each != text), text][-KNOWN_MAX:]


def check_answer(entry: OfferedTool, outcome: Done, base: str) -> None:
    _answers(entry.dotted).validate(outcome.data)
    assert orjson.loads(outcome.encoded) == outcome.data
    assert base not in outcome.text


def check_refusal(entry: OfferedTool, outcome: Refused, base: str) -> None:
    assert re.fullmatch(r"[A-Za-z][A-Za-z_]*", outcome.error.code)
    assert outcome.error.message
    _refusals(entry.toolset.name).validate(outcome.shape)
    said = orjson.dumps([outcome.shape, outcome.problems]).decode()
    assert not OURS.search(said), said
    assert base not in said


@contextmanager
def served(base: Path) -> Iterator[ServedBase]:
    with start_blocking_portal() as portal:
        settings = writer.settled(base)
        with portal.wrap_async_context_manager(app.served(settings)) as offer:
            yield ServedBase(base, portal, offer)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else writes, so that a position that is not there will not come."""
    monkeypatch.setattr(partition, "_POSITION_WAIT_SECONDS", 0.0)


@promise("5.3, fuzzing of every tool", "what a schema allows is answered as promised or refused, and the base is sound")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("toolset", TOOLSETS)
def test_whatever_its_schema_allows_is_answered_or_refused_on_purpose(toolset: str, tmp_path: Path) -> None:
    tools = [tool for tool, entry in EVERY_TOOL.items() if entry.toolset.name == toolset]
    with lived_through(tmp_path) as served_base:
        for tool in tools:
            withstands(served_base, [tool], 30)
    assert [tool for tool in tools if not served_base.reached[tool]] == []


@pytest.mark.usefixtures("impatient")
def test_all_vocabularies_at_once_leave_a_sound_base(tmp_path: Path) -> None:
    """What one tool writes, another finds: also where it does not belong."""
    with lived_through(tmp_path) as served_base:
        withstands(served_base, list(EVERY_TOOL), 300)


def withstands(served_base: ServedBase, tools: Sequence[str], count: int) -> None:
    @tries(count)
    @given(st.sampled_from(tools).flatmap(lambda tool: st.tuples(st.just(tool), _arguments(tool))))
    def calls(call: tuple[str, Attempt]) -> None:
        served_base.try_out(*call)

    calls()


@contextmanager
def lived_through(place: Path) -> Iterator[ServedBase]:
    """A base that must be sound afterwards."""
    base = place / "base"
    with served(base) as served_base:
        yield served_base
        live, replayed = served_base.live_and_replayed()
        assert live == replayed
    assert [each.name for each in place.iterdir()] == ["base"], "something was written outside"
    check_sound(base)


# -- each made once: schemas are large, examples many


@cache
def _arguments(tool: str) -> st.SearchStrategy[Attempt]:
    return tried(_schema(tool))


@cache
def _schema(tool: str) -> Schema:
    return input_schema(EVERY_TOOL[tool].tool)


@cache
def _answers(tool: str) -> Draft202012Validator:
    return Draft202012Validator(EVERY_TOOL[tool].tool.output)


@cache
def _refusals(toolset: str) -> Draft202012Validator:
    return Draft202012Validator(
        error_schema(next(entry.toolset for entry in EVERY_TOOL.values() if entry.toolset.name == toolset))
    )

"""Whatever is said to the knowledge tools, they answer or refuse in their own words."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.server.dispatch import Done, OfferedTool, Refused, call
from tallystick.toolsets.knowledge import TOOLSET
from tests.toolsets.knowledge.agents import LATER, OTHER, SHOP, TASK, KnowledgeAgent

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)
WORDS = [SHOP, OTHER, TASK, LATER, "f" * 32, "", "null", "atom", "molecule", "append", "overwrite", "true", "2", "text"]
VALUES = [1, 0, -1, True, False, None, "a,b", ["a/**"], '["{a,b}*"]', ["["], "[]", [], [{"atomId": "x", "reason": "y"}]]
LIKELY = st.sampled_from([*WORDS, *VALUES])
OPERATIONS = st.sampled_from(["get", "search", "context", "create", "update", "delete", "append", "merge"])


def arguments(fields: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    said = st.dictionaries(st.sampled_from([*fields, "other"]), LIKELY | JSON, max_size=len(fields))
    return st.builds(lambda values, operation: values | {"operation": operation}, said, OPERATIONS | JSON)


CALLS = st.one_of(
    *(st.tuples(st.just(index), arguments(list(tool.input.model_fields))) for index, tool in enumerate(TOOLSET.tools))
)
CODES = {"VALIDATION_ERROR", "NOT_FOUND", "CONFLICT", "INVARIANT_VIOLATION"}


@settings(max_examples=200)
@given(CALLS)
def test_whatever_is_said_is_answered_or_refused_in_the_envelope(
    agent: KnowledgeAgent, said: tuple[int, dict[str, Any]]
) -> None:
    tool = list(agent.tools.values())[said[0]]
    outcome = agent.run(call(OfferedTool(agent.toolset, tool), said[1], agent.store, lambda: agent.principal))
    if isinstance(outcome, Done):
        assert outcome.data["success"] is True
    else:
        assert isinstance(outcome, Refused), outcome
        assert outcome.shape["success"] is False
        assert outcome.shape["error"]["code"] in CODES

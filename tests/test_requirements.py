"""The promises of the specs point to tests that exist."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.journeys.requirements import REQUIREMENTS, Requirement

ROOT = Path(__file__).parent.parent


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda requirement: requirement.id)
def test_each_promise_is_shown_by_a_test_that_exists(requirement: Requirement) -> None:
    path, _, name = requirement.test.partition("::")
    assert name in names_in(path)


def test_no_promise_is_listed_twice() -> None:
    ids = [requirement.id for requirement in REQUIREMENTS]
    assert len(set(ids)) == len(ids)

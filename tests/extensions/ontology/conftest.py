from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extensions.ontology.agents import OntologyAgent, keeping


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[OntologyAgent]:
    with keeping(tmp_path) as agent:
        yield agent


@pytest.fixture
def gtd(agent: OntologyAgent) -> OntologyAgent:
    """With projects, actions, contexts and people."""
    agent.define()
    return agent

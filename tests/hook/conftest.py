from __future__ import annotations

from pathlib import Path

import pytest

from tests.hook.memories import Memory, make_repository


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    """Of others: what they wrote, the agent behind the hook did not."""
    return Memory(make_repository(tmp_path / "repository"))

"""Names that show nothing to a reader are not names, wherever one is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from tallystick.app.callers import local_user
from tallystick.config import Settings
from tallystick.errors import InvalidArgument
from tallystick.policy.visible_names import is_visible
from tallystick.server import is_name
from tallystick.toolsets.memory.arguments import WriteArguments

BLANK = [" ", "\u00a0 ", "\u200b", "\u200d\ufe0f", "\u2800", "\u3164", "\U000e0100", "\u2028", "\ufeff"]


@pytest.mark.parametrize("name", ["a", " a ", "\u200bé", "名", "👩‍💻", "-"])
def test_a_text_with_a_glyph_is_visible(name: str) -> None:
    assert is_visible(name)


@pytest.mark.parametrize("name", ["", "\t\n", *BLANK])
def test_a_text_without_a_glyph_is_not(name: str) -> None:
    assert not is_visible(name)


@pytest.mark.parametrize("name", BLANK)
def test_a_blank_name_is_not_taken_from_a_client_a_setting_or_an_argument(name: str, tmp_path: Path) -> None:
    assert not is_name(name)
    with pytest.raises(InvalidArgument, match="agent_identity"):
        local_user(Settings(base=tmp_path, agent_identity=name))
    with pytest.raises(ValidationError, match="must not be blank"):
        WriteArguments.model_validate({"op": "DELETE_NODE", "entity_id": "a", "actor": name})

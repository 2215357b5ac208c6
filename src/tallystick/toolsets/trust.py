"""What an agent must be told beside an entity: that somebody has taken back their trust in it."""

from __future__ import annotations

from typing import Any

from tallystick.state.trust import Trust


def warned(trust: Trust, entity_id: str, document: dict[str, Any]) -> dict[str, Any]:
    """With the recall that stands against the entity, if one does; said whatever fields were asked for."""
    recall = trust.find(entity_id)
    if recall is None:
        return document
    return document | {"untrusted": {"recall": recall.id, "reason": recall.reason}}

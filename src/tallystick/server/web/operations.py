"""`/operations`: whether the server does well, by its own count."""

from __future__ import annotations

import msgspec

from tallystick.errors import NotFound
from tallystick.operations.figures import Figures, measure
from tallystick.policy import Action
from tallystick.server.web.visit import Visit


class OperationsView(msgspec.Struct, frozen=True):
    version: str
    position: int
    figures: Figures


async def operations(visit: Visit) -> OperationsView:
    """Raises NotFound for other tenants than the server's own: the figures are about all that the process serves."""
    offer, principal = visit.context.offer, visit.principal
    if visit.context.figures_for not in (None, principal.tenant):
        raise NotFound("the figures are about all tenants")
    position = await offer.store.read(principal, Action.SEARCH, lambda state, read_filter: state.position)
    home = visit.context.home_of(principal.tenant)
    return OperationsView(offer.version, position, await measure(home, home / "_system"))

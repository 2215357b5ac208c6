"""The numbers at /metrics, for Prometheus and whatever reads its format.

They are about the whole process. Where several tenants share it, what one of them does is no
business of another: only a token of the server's own tenant opens them, unless the operator
opens them to everybody.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallystick.server.answers import json_answer
from tallystick.server.oauth import SCOPE_KEY, Identity

PATH = "/metrics"
Access = Literal["guarded", "open", "off"]


def metrics_routes(access: Access, *, tenant: str, render: Callable[[], bytes] | None = None) -> list[Route]:
    """`tenant` is the server's own. A guard before the route leaves an Identity; without one all callers are local.
    `render`: where more than this process has counted."""

    async def metrics(request: Request) -> Response:
        identity: Identity | None = request.scope.get(SCOPE_KEY)
        if access == "guarded" and identity is not None and identity.principal.tenant != tenant:
            words = "metrics are about all tenants: they need a token of the server's own"
            return json_answer({"error": "METRICS_GUARDED", "message": words}, 403)
        from tallystick.telemetry import prometheus

        text = prometheus.render(process=True) if render is None else render()
        return Response(text, headers={"Content-Type": prometheus.CONTENT_TYPE, "Cache-Control": "no-store"})

    return [] if access == "off" else [Route(PATH, metrics, methods=["GET"])]

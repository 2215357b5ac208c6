"""The tools that the suite's own scenarios ask for, as far as a toolset can offer them, over our HTTP.

Started as `python -m tests.conformance.demo`; the first line on stderr is the address.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field

from tallystick.engine.store import Store
from tallystick.errors import Conflict
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.dispatch import choose
from tallystick.server.http import http_app, run_http
from tallystick.toolsets import Answer, Tool, Toolset


class Nothing(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Routed(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    region: str = Field(json_schema_extra={"x-mcp-header": "Region"})


async def simple_text(store: Store, principal: Principal, given: Nothing) -> Answer:
    return Answer({"ok": True}, text="This is a simple text response for testing.")


async def error_handling(store: Store, principal: Principal, given: Nothing) -> Answer:
    raise Conflict("This tool intentionally returns an error for testing")


async def routed(store: Store, principal: Principal, given: Routed) -> Answer:
    return Answer({"ok": True})


def _tool(name: str, model: type[BaseModel], call: Any) -> Tool:
    return Tool(
        name=name,
        title=name,
        description="For the conformance suite.",
        input=model,
        output={"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]},
        call=call,
        reads_only=True,
    )


DEMO = Toolset(
    name="demo",
    summary="what the conformance suite asks for",
    tools=(
        _tool("test_simple_text", Nothing, simple_text),
        _tool("test_error_handling", Nothing, error_handling),
        _tool("test_routed", Routed, routed),
    ),
    error_shape=lambda error: {"error": error.code, "message": error.message},
)


def main() -> None:
    offer = Offer(
        tools=choose([DEMO]),
        store=cast(Store, None),
        principal_of=lambda request: Principal("suite"),
        version="0",
        validation_errors="rpc",
    )
    announce = lambda host, port: print(f"http://{host}:{port}/mcp", file=sys.stderr, flush=True)  # noqa: E731
    asyncio.run(run_http(http_app(offer), host="127.0.0.1", port=0, announce=announce))


if __name__ == "__main__":
    main()

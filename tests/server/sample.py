"""Two small toolsets that show everything a door must carry: answers, refusals, bugs, waiting, size, noise."""

from __future__ import annotations

import asyncio
import os
from enum import StrEnum
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tallystick import errors
from tallystick.engine.store import Store
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.dispatch import choose
from tallystick.toolsets import Answer, Tool, Toolset

SECRET = "the inside of the house"


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Node(Strict):
    id: str = Field(min_length=1)
    title: str | None = None


class Range(Strict):
    gt: int | None = None
    lt: int | None = None


class EchoInput(Strict):
    text: str
    times: int = Field(default=1, ge=1, le=100_000)


class WriteInput(Strict):
    """What pydantic can complain of: missing, nested, unknown, unions, enums, and rules between fields."""

    op: Literal["UPSERT", "DELETE"]
    node: Node | None = None
    limit: int = Field(default=10, ge=1, le=100)
    colour: Colour = Colour.RED
    ids: list[str] = Field(default_factory=list, max_length=3)
    as_of: int | str | None = None
    where: dict[str, int | str | Range] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _node_when_upserting(self) -> WriteInput:
        if self.op == "UPSERT" and self.node is None:
            raise ValueError("field 'node' is required")
        return self


class FailInput(Strict):
    kind: str
    code: str | None = None


class NameInput(Strict):
    name: str


class Nothing(Strict):
    pass


_doors: dict[str, asyncio.Event] = {}
_arrived: dict[str, asyncio.Event] = {}


def close_doors() -> None:
    """For another event loop: those of one are no use to the next."""
    _doors.clear()
    _arrived.clear()


async def arrival(name: str) -> None:
    """Until a call waits before that door."""
    await _arrived.setdefault(name, asyncio.Event()).wait()


async def echo(store: Store, principal: Principal, given: EchoInput) -> Answer:
    return Answer({"said": given.text * given.times})


async def blob(store: Store, principal: Principal, given: EchoInput) -> Answer:
    return Answer({"said": given.text * given.times}, exempt=True)


async def write(store: Store, principal: Principal, given: WriteInput) -> Answer:
    return Answer({"op": given.op, "colour": given.colour.value}, text=f"{given.op} done")


async def fail(store: Store, principal: Principal, given: FailInput) -> Answer:
    kind: type[errors.TallystickError] = getattr(errors, given.kind)
    raise kind(f"{given.kind} on purpose", code=given.code, details={"retry_after": 7})


async def crash(store: Store, principal: Principal, given: Nothing) -> Answer:
    raise RuntimeError(SECRET)


async def wait(store: Store, principal: Principal, given: NameInput) -> Answer:
    _arrived.setdefault(given.name, asyncio.Event()).set()
    await _doors.setdefault(given.name, asyncio.Event()).wait()
    return Answer({"said": given.name})


async def release(store: Store, principal: Principal, given: NameInput) -> Answer:
    _doors.setdefault(given.name, asyncio.Event()).set()
    return Answer({"said": given.name})


async def noise(store: Store, principal: Principal, given: Nothing) -> Answer:
    print("a stray print", flush=True)
    os.write(1, b"a stray write\n")
    return Answer({"said": "nothing"})


async def whoami(store: Store, principal: Principal, given: Nothing) -> Answer:
    return Answer({"said": f"{principal.actor} in {principal.tenant}"})


async def session(store: Store, principal: Principal, given: Nothing) -> Answer:
    return Answer({"said": f"{principal.actor} {principal.session}"})


async def mistyped(store: Store, principal: Principal, given: Nothing) -> Answer:
    return Answer({"said": cast(Any, object())})


SAID: dict[str, Any] = {
    "type": "object",
    "properties": {"said": {"$ref": "#/$defs/Text"}},
    "required": ["said"],
    "additionalProperties": False,
    "$defs": {"Text": {"type": "string"}},
}
WRITTEN: dict[str, Any] = {
    "type": "object",
    "properties": {"op": {"type": "string"}, "colour": {"type": "string"}},
    "required": ["op", "colour"],
    "additionalProperties": False,
}


def _tool(
    name: str, model: type[BaseModel], call: Any, output: dict[str, Any] = SAID, *, reads_only: bool = True
) -> Tool:
    return Tool(
        name=name,
        title=name.title(),
        description=f"Use it to {name}.",
        input=model,
        output=output,
        call=call,
        reads_only=reads_only,
        destructive=not reads_only,
    )


SAMPLE = Toolset(
    name="sample",
    summary="small tools that do one thing",
    tools=(
        _tool("sample.echo", EchoInput, echo),
        _tool("sample.blob", EchoInput, blob),
        _tool("sample.write", WriteInput, write, WRITTEN, reads_only=False),
        _tool("sample.fail", FailInput, fail),
        _tool("sample.crash", Nothing, crash),
        _tool("sample.wait", NameInput, wait),
        _tool("sample.release", NameInput, release),
        _tool("sample.noise", Nothing, noise),
        _tool("sample.whoami", Nothing, whoami),
        _tool("sample.session", Nothing, session),
        _tool("sample.mistyped", Nothing, mistyped),
    ),
    faults="protocol",
    error_shape=lambda error: {"error": error.code, "message": error.message},
)

PLAIN = Toolset(
    name="plain",
    summary="one tool with another shape of errors",
    tools=(_tool("plain_echo", EchoInput, echo),),
    faults="result",
    error_shape=lambda error: {"success": False, "error": {"code": error.code, "message": error.message}},
)

TOOLSETS = (SAMPLE, PLAIN)


def principal_of(scope: Any) -> Principal:
    if scope is None:
        return Principal("local")
    tenant = dict(scope["headers"]).get(b"x-tenant", b"default").decode()
    if tenant == "denied":
        raise errors.Denied("tenant 'denied' may nothing")
    return Principal("remote", tenant=tenant)


def offer(**changes: Any) -> Offer:
    given: dict[str, Any] = {
        "tools": choose(TOOLSETS),
        "store": cast(Store, None),
        "principal_of": principal_of,
        "version": "1.2.3",
    }
    return Offer(**{**given, **changes})

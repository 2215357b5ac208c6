"""The tools: a toolset is one vocabulary, a tool is one operation in it.

A tool knows arguments and answers. It knows no protocol: `server` turns what it returns and
raises into MCP or HTTP answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from pydantic import BaseModel

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.policy import Principal

if TYPE_CHECKING:
    from tallystick.engine.store import Store

T = TypeVar("T")
JsonObject = dict[str, Any]


class Answer(msgspec.Struct, frozen=True):
    """`text` is what a reader without structured content sees; by default the compact JSON of `data`."""

    data: dict[str, Any]
    text: str | None = None
    exempt: bool = False
    """True for contents asked for by id: they leave whole, whatever their size (X15)."""


class Confirmation(msgspec.Struct, frozen=True):
    """What a person is asked before some calls of a tool, where there is one to ask."""

    concerns: Callable[[Mapping[str, Any]], bool]
    """Whether a call with these arguments, which nobody has checked yet, is one of them. Quick."""
    describe: Callable[[Store, Principal, Any], Awaitable[str]]
    """What would be done; raises where the call would be refused, or could be."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    """As the spec writes it: `memory.write`. Doors may show it with underscores."""
    title: str
    description: str
    input: type[BaseModel]
    """Strict, extra forbidden. The server validates against it before `call`."""
    output: dict[str, Any]
    """JSON Schema 2020-12 of the answer; the server adds the error shape."""
    call: Callable[[Store, Principal, Any], Awaitable[Answer]]
    reads_only: bool
    destructive: bool = False
    idempotent: bool = False
    confirmation: Confirmation | None = None


class Toolset(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    summary: str = ""
    """One line for the server's instructions, where the guide says nothing."""
    guide: Mapping[str, str] = {}
    """When to use which tool, by its name: lines of the server's instructions, each shown while its tool is on."""
    keywords: Mapping[str, str] = {}
    """What people say who need a tool, by its name: for clients that look tools up instead of showing all."""
    always_loaded: str = ""
    """The tool that such clients should show from the start."""
    tools: tuple[Tool, ...]
    faults: Literal["protocol", "result"] = "result"
    """Where bad arguments are answered: as the protocol that was agreed on says, in its words, or as every other
    error of this vocabulary."""
    is_listed: bool = True
    """False: for programs that know its tools. They can always be called, and no agent is shown them unless the toolset
    is chosen by its name."""
    error_shape: Callable[[TallystickError], dict[str, Any]]
    """An error in this vocabulary's own shape: the structured content beside isError."""

    @property
    def built(self) -> Toolset:
        return self


class DeferredToolset:
    """A toolset that is built when a tool of it is needed: most processes offer two of eight."""

    def __init__(self, name: str, summary: str, build: Callable[[], Toolset], *, is_listed: bool = True) -> None:
        self.name = name
        self.summary = summary
        self.is_listed = is_listed
        self._build = build

    @cached_property
    def built(self) -> Toolset:
        return msgspec.structs.replace(self._build(), name=self.name, summary=self.summary, is_listed=self.is_listed)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.built.tools


AnyToolset = Toolset | DeferredToolset


def make_tool(
    begin: Callable[[Store, Principal, str], T],
    answer: Callable[[T, Any], Awaitable[Answer]],
    takes: type[BaseModel],
    traits: str,
    title: str,
    words: str,
    output: dict[str, Any],
) -> Tool:
    """Of a row in a toolset's table. `traits`: r reads only, d destroys, i may be repeated. `answer` bears the tool's
    name; what it gets first is what the toolset makes of a call: who makes it, and with what it is answered."""
    name = answer.__name__
    return Tool(
        name=name,
        title=title,
        description=words,
        input=takes,
        output=output,
        call=lambda store, principal, asked: answer(begin(store, principal, name), asked),
        reads_only="r" in traits,
        destructive="d" in traits,
        idempotent="i" in traits,
    )


TEXT = {"type": "string"}
COUNT = {"type": "integer"}
FLAG = {"type": "boolean"}
OBJECT = {"type": "object"}
FLAGGED = {"type": ["object", "array"]}


def answer_schema(names: Mapping[str, dict[str, Any]], keys: str) -> dict[str, Any]:
    """Of an answer with these keys, each meaning the same in every tool: `a b? c` has a and c always."""
    said = {key.rstrip("?"): names[key.rstrip("?")] for key in keys.split()}
    return {"type": "object", "properties": said, "required": [key for key in keys.split() if not key.endswith("?")]}


def error_shape(error: TallystickError) -> dict[str, Any]:
    """Of a vocabulary whose spec names none: {code, message, details?}."""
    return {"code": error.code, "message": error.message, **details_of(error)}


def details_of(error: TallystickError) -> dict[str, Any]:
    """What is to be said beside code and message, under `details`; nothing where there is nothing."""
    details = dict(error.details)
    if error.hint:
        details["hint"] = error.hint
    if isinstance(error, InvalidArgument) and error.problems != [error.message]:
        details["problems"] = error.problems
    return {"details": details} if details else {}

"""The tool table: which tools there are, and what becomes of a call.

Knows no protocol. A call ends in one of three outcomes: the tool's answer, a refusal in the
toolset's own words, or a bug of ours, logged here once with its traceback and known outside
only by an id.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import orjson
from pydantic import ValidationError

from tallystick.audit import clipped
from tallystick.errors import InvalidArgument, LimitExceeded, NotFound, TallystickError, exhaustion
from tallystick.policy import Principal
from tallystick.server.validation_messages import oversized, sentences
from tallystick.system.turns import Work, paced
from tallystick.telemetry import metrics, tracing
from tallystick.toolsets import Answer, AnyToolset, Tool, Toolset
from tallystick.toolsets.operation_arguments import operation_faults
from tallystick.toolsets.truncation import cut_text, fitted

if TYPE_CHECKING:
    from tallystick.engine.store import Store

logger = logging.getLogger(__name__)

OK = "ok"
TOKENS_MAX = 25_000
BYTES_PER_TOKEN = 3
"""Fewer than any tokenizer needs for JSON, so that the count errs towards too many tokens."""
_BYTES_MAX = TOKENS_MAX * BYTES_PER_TOKEN
_ITEMS_AT_ONCE = 4
"""Items of a list that are encoded together with the rest of the answer."""


class Done(msgspec.Struct, frozen=True):
    data: dict[str, Any]
    encoded: bytes
    """`data` as JSON."""
    lines: str | None = None
    """The answer as a model reads it, if that is not JSON."""

    @property
    def text(self) -> str:
        return self.encoded.decode() if self.lines is None else self.lines


class Refused(msgspec.Struct, frozen=True):
    error: TallystickError
    shape: dict[str, Any]
    """The error as its toolset says it."""

    @property
    def problems(self) -> list[str]:
        """The argument faults, one sentence each; empty for any other refusal."""
        return self.error.problems if isinstance(self.error, InvalidArgument) else []


class Broken(msgspec.Struct, frozen=True):
    error_id: str


Outcome = Done | Refused | Broken


class OfferedTool(msgspec.Struct, frozen=True):
    toolset: Toolset
    tool: Tool

    @property
    def dotted(self) -> str:
        return self.tool.name

    @property
    def underscored(self) -> str:
        return underscored(self.tool.name)


class Tools:
    """The tools that are on. Names may be dotted or underscored, always both."""

    def __init__(
        self,
        entries: Iterable[OfferedTool],
        *,
        known: Sequence[AnyToolset],
        chosen: Sequence[AnyToolset],
        unlisted: Sequence[AnyToolset] = (),
    ) -> None:
        """`chosen` are the toolsets that the entries were picked from; tools of `unlisted` ones are found by their
        names, and not listed."""
        self.entries = tuple(entries)
        self._chosen = tuple(chosen)
        self.known = tuple(known)
        """Every toolset there is, on or off: to say where a tool that is off could be found."""
        self._by_name = _index(self.entries)
        self._by_name |= {entry.dotted: entry for entry in self.entries}
        self._unlisted = tuple(unlisted)

    def __iter__(self) -> Iterator[OfferedTool]:
        return iter(self.entries)

    def find(self, name: str) -> OfferedTool | None:
        plain = underscored(name)
        return self._by_name.get(name) or self._by_name.get(plain) or self._unlisted_by_name.get(plain)

    @cached_property
    def _known_by_name(self) -> dict[str, OfferedTool]:
        return _index(_entries(self.known))

    @cached_property
    def _unlisted_by_name(self) -> dict[str, OfferedTool]:
        return _index(_entries(self._unlisted))

    def get(self, name: str) -> OfferedTool:
        """Raises NotFound, telling the tools there are."""
        entry = self.find(name)
        if entry is None:
            there_are = [entry.dotted for entry in self.entries]
            raise NotFound(self._why_not(name), code="UNKNOWN_TOOL", details={"tools": there_are})
        return entry

    @property
    def toolsets_on(self) -> list[Toolset]:
        names = {entry.toolset.name for entry in self.entries}
        return [toolset.built for toolset in self.known if toolset.name in names]

    @property
    def toolsets_off(self) -> list[AnyToolset]:
        names = {entry.toolset.name for entry in self.entries}
        return [toolset for toolset in self.known if toolset.name not in names and toolset.is_listed]

    def _why_not(self, name: str) -> str:
        elsewhere = self._known_by_name.get(underscored(name))
        if elsewhere is None:
            return f"there is no tool '{name[:100]}'; the tools are {', '.join(e.dotted for e in self.entries)}"
        toolset = elsewhere.toolset
        chosen = [each.name for each in self._chosen]
        step = (
            "--tools or --read-only leaves it out"
            if toolset.name in chosen
            else f"start it with --toolsets {','.join([*chosen, toolset.name])}"
        )
        return f"tool '{elsewhere.dotted}' of toolset '{toolset.name}' is not on in this server: {step}"


def choose(
    toolsets: Sequence[AnyToolset],
    *,
    names: Sequence[str] | None = None,
    tools: Sequence[str] | None = None,
    read_only: bool = False,
) -> Tools:
    """The tools of the toolsets in `names` (None or "all": every one), only those in `tools` if given.

    Raises InvalidArgument for a name that matches nothing, since a typo must not switch a tool off unseen; and where
    no tool is left.
    """
    on = _chosen_toolsets(toolsets, names)
    entries = list(_entries(on))
    if tools is not None:
        wanted = dict.fromkeys(map(underscored, tools))
        entries = [_chosen_tool(name, on, toolsets, read_only=read_only) for name in wanted]
    hidden = [toolset for toolset in toolsets if not toolset.is_listed and toolset not in on] if tools is None else []
    offered = [entry for entry in entries if entry.tool.reads_only or not read_only]
    if not offered:
        raise InvalidArgument("no tool would be offered", hint=f"choose among the toolsets {_names(toolsets)}, or all")
    return Tools(offered, known=toolsets, chosen=on, unlisted=hidden)


def call(
    entry: OfferedTool, arguments: Mapping[str, Any], store: Store, principal_of: Callable[[], Principal]
) -> Coroutine[Any, Any, Outcome]:
    """Check the arguments, run the tool, and say what became of it. Raises nothing but cancellation."""
    if tracing.tracer is not None:
        return _traced(tracing.tracer, entry, arguments, store, principal_of)
    return _counted(entry, arguments, store, principal_of)


async def _traced(
    tracer: tracing.Tracer,
    entry: OfferedTool,
    arguments: Mapping[str, Any],
    store: Store,
    principal_of: Callable[[], Principal],
) -> Outcome:
    with tracer.call(f"tools/call {entry.dotted}") as span:
        span.set(**{"mcp.method.name": "tools/call", "gen_ai.tool.name": entry.dotted, "toolset": entry.toolset.name})

        def known() -> Principal:
            principal = principal_of()
            span.set(tenant_id=principal.tenant, actor=clipped(principal.actor))
            return principal

        outcome = await _counted(entry, arguments, store, known)
        word = _word(outcome)
        span.set(outcome=word)
        if word != OK:
            span.fail(word, ours=isinstance(outcome, Broken))
        return outcome


async def _counted(
    entry: OfferedTool, arguments: Mapping[str, Any], store: Store, principal_of: Callable[[], Principal]
) -> Outcome:
    started = time.perf_counter()
    outcome: Outcome | None = None
    try:
        with Work() as work:
            prepared = prepare(entry.tool, arguments)
            principal = principal_of()
            work.tenant = principal.tenant
            answer = await entry.tool.call(store, principal, prepared)
            outcome = await _done(answer) if principal.is_program else _fitting(entry.tool, answer)
            work.bytes = len(outcome.encoded)
    except TallystickError as error:
        outcome = _refused(entry, error)
    except Exception as error:
        outcome = _failed(entry, error)
    finally:
        seconds = time.perf_counter() - started
        metrics.called(entry.tool.name, _word(outcome), seconds, not entry.tool.reads_only)
    return outcome


def _word(outcome: Outcome | None) -> str:
    """One of few, for metrics: never anything that a caller wrote."""
    match outcome:
        case Done():
            return OK
        case Refused(error):
            return error.code
        case Broken():
            return "INTERNAL_ERROR"
    return "CANCELLED"


def prepare(tool: Tool, arguments: Mapping[str, Any]) -> Any:
    """The tool's input model, or InvalidArgument with every fault.

    Validated as JSON, not as Python objects: only so do strict models take a string for an
    enum, or an array for a tuple, and still refuse "1" for 1.
    """
    problems: list[str] = []
    try:
        encoded = orjson.dumps(arguments)
    except TypeError:
        _require_text(arguments)
        # What no answer could repeat is refused, even should the tool's model let it pass.
        encoded, problems = json.dumps(arguments).encode(), oversized(arguments)
    try:
        prepared = tool.input.model_validate_json(encoded)
    except ValidationError as error:
        problems = sentences(error, arguments, operation_faults(tool.input, arguments))
    if problems:
        raise InvalidArgument("; ".join(problems), problems=problems)
    return prepared


def _require_text(arguments: Mapping[str, Any]) -> None:
    """Over the wire none of this comes in; a shell may hand on any bytes, as the name of a file for example."""
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(
            "the arguments have text that is not UTF-8", hint="a memory holds nothing else"
        ) from error


def broken(what: str) -> Broken:
    """Log the exception being handled, once, under an id that may leave the house."""
    error_id = secrets.token_hex(8)
    logger.exception("bug in %s, error id %s", what, error_id)
    return Broken(error_id)


def underscored(name: str) -> str:
    return name.replace(".", "_")


async def _done(answer: Answer) -> Done:
    """For a program: a long answer is encoded in slices."""
    data = answer.data
    if not _is_long(data):
        return Done(data, orjson.dumps(data), answer.text)
    return Done(data, b"".join([piece async for piece in paced(_pieces(data))]), answer.text)


def _is_long(value: Any) -> bool:
    if type(value) is dict:
        return any(_is_long(member) for member in value.values())
    return type(value) is list and len(value) > _ITEMS_AT_ONCE


def _pieces(value: Any) -> Iterator[bytes]:
    """The JSON of a value, an item of a list at a time."""
    if type(value) is dict and value:
        for number, (name, member) in enumerate(value.items()):
            yield b"%b%b:" % (b"," if number else b"{", orjson.dumps(name))
            yield from _pieces(member)
        yield b"}"
    elif type(value) is list and value:
        for number, item in enumerate(value):
            yield b"%b%b" % (b"," if number else b"[", orjson.dumps(item))
        yield b"]"
    else:
        yield orjson.dumps(value)


def _fitting(tool: Tool, answer: Answer) -> Done:
    """For a model. Raises LimitExceeded for more than its context can hold."""
    encoded = orjson.dumps(answer.data)
    size = max(len(encoded), 0 if answer.text is None else len(answer.text.encode()))
    if answer.exempt or size <= _BYTES_MAX:
        return Done(answer.data, encoded, answer.text)
    if tool.reads_only:
        _refuse_size(size)
    # What was written stays written, so it is not answered as an error.
    data = fitted(answer.data, _BYTES_MAX)
    return Done(data, orjson.dumps(data), None if answer.text is None else cut_text(answer.text, _BYTES_MAX))


def _refuse_size(size: int) -> NoReturn:
    raise LimitExceeded(
        f"the answer has about {size // BYTES_PER_TOKEN} tokens, more than {TOKENS_MAX}:"
        " narrow the question, ask for fewer fields, or page with limit and offset",
        details={"tokens": size // BYTES_PER_TOKEN, "tokens_max": TOKENS_MAX},
    )


def _failed(entry: OfferedTool, error: Exception) -> Outcome:
    """Refuse a call that met a limit of the process or the machine; any other unexpected error is a bug."""
    exhausted = exhaustion(error)
    if exhausted is None:
        return broken(entry.dotted)
    logger.error("%s was refused: %s (%s)", entry.dotted, exhausted.message, error)
    return _refused(entry, exhausted)


def _refused(entry: OfferedTool, error: TallystickError) -> Outcome:
    # Its frames would hold the outcome that holds it, until the collector looks, and with it all that they had at hand.
    error = error.with_traceback(None)
    try:
        return Refused(error, entry.toolset.error_shape(error))
    except Exception:
        return broken(f"{entry.toolset.name}.say_error")


def _index(entries: Iterable[OfferedTool]) -> dict[str, OfferedTool]:
    return {entry.underscored: entry for entry in entries}


def _entries(toolsets: Iterable[AnyToolset]) -> Iterator[OfferedTool]:
    """Yield the tools. One whose name an earlier one has is left out, and logged."""
    taken: dict[str, str] = {}
    for toolset in toolsets:
        for tool in toolset.tools:
            other = taken.get(underscored(tool.name))
            if other is None:
                taken[underscored(tool.name)] = toolset.name
                yield OfferedTool(toolset.built, tool)
            else:
                logger.warning("'%s' of '%s' is left out: '%s' has a tool of that name", tool.name, toolset.name, other)


def _names(toolsets: Sequence[AnyToolset]) -> str:
    return ", ".join(toolset.name for toolset in toolsets)


def _chosen_toolsets(toolsets: Sequence[AnyToolset], names: Sequence[str] | None) -> list[AnyToolset]:
    if names is None or "all" in names:
        return [toolset for toolset in toolsets if toolset.is_listed or names is None or toolset.name in names]
    unknown = [name for name in names if name not in {toolset.name for toolset in toolsets}]
    if unknown:
        raise InvalidArgument(f"there is no toolset '{unknown[0]}'; the toolsets are {_names(toolsets)}, or all")
    return [toolset for toolset in toolsets if toolset.name in names]


def _chosen_tool(name: str, on: Sequence[AnyToolset], known: Sequence[AnyToolset], *, read_only: bool) -> OfferedTool:
    entry = _index(_entries(on)).get(name)
    if entry is None:
        elsewhere = _index(_entries(known)).get(name)
        if elsewhere is None:
            raise InvalidArgument(f"there is no tool '{name}'")
        raise InvalidArgument(
            f"tool '{elsewhere.dotted}' is in toolset '{elsewhere.toolset.name}', which is not chosen"
        )
    if read_only and not entry.tool.reads_only:
        raise InvalidArgument(f"tool '{entry.dotted}' writes, and only reading is allowed")
    return entry

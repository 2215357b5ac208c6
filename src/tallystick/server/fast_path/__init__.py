"""The fast path: a plain `tools/call` is answered in one hop, with the same bytes' worth as the SDK's answer.

Knows which messages are plain and how their answers are written, nothing of how they arrive
(`http`, `stdio`). It takes only what it fully understands. Everything else it declines, and
the SDK gets it untouched: so the fast path can be switched off, and nobody but a stopwatch notices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
import orjson

from tallystick.errors import InvalidArgument, LogError, TallystickError, exhaustion
from tallystick.server import BEHIND_KEY, Offer
from tallystick.server.dispatch import Broken, Done, OfferedTool, Outcome, Refused, Tools, broken
from tallystick.server.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, invalid_params

RESERVED = "io.modelcontextprotocol/"
VERSION_KEY = RESERVED + "protocolVersion"
CLIENT_KEY = RESERVED + "clientInfo"


class Era(msgspec.Struct, frozen=True):
    """How an era of the protocol wraps an answer: by handshake, or each request for itself."""

    is_modern: bool = False
    faults_in_result: bool = False
    """Bad arguments are answered by a result, where the model reads them, not by an error of JSON-RPC."""
    tail: bytes = b""
    """Members that end every result, each with its leading comma."""
    statuses: Mapping[int, int] = {}
    """HTTP statuses of JSON-RPC errors; 200 where there is none."""


FAULTS_IN_RESULT_SINCE = "2025-11-25"
"""From this version on the protocol says that errors in a tool's arguments belong into the result."""


@lru_cache(maxsize=16)
def handshake_era(version: str) -> Era:
    return Era(faults_in_result=has_faults_in_result(version))


def has_faults_in_result(version: str) -> bool:
    return version >= FAULTS_IN_RESULT_SINCE


class PlainCall(msgspec.Struct, frozen=True):
    id: str | int
    entry: OfferedTool
    arguments: dict[str, Any]
    client: str | None = None
    """Who the request says it is from, in the modern era."""
    progress_token: str | int | None = None


class RpcError(msgspec.Struct, frozen=True):
    """An outcome that is no result but a JSON-RPC error."""

    code: int
    message: str
    data: dict[str, Any]


MESSAGE = {"jsonrpc", "id", "method", "params"}
_PARAMS = {"name", "arguments", "_meta"}


def find_call(
    message: dict[str, Any], tools: Tools, envelope: Callable[[bytes], bool] | None, *, asks: bool = False
) -> PlainCall | None:
    """The call that a well-formed message (`jsonrpc.parse_message`) is, or None if it is for the SDK.

    `envelope` judges the reserved members of `_meta`, which every request has in the modern era and none before.
    `asks`: whether there may be a person to ask before some calls.
    """
    if message.get("method") != "tools/call" or message.keys() != MESSAGE or message["params"] is None:
        return None
    params = message["params"]
    name, arguments = params.get("name"), params.get("arguments", _NONE)
    if type(name) is not str or type(arguments) is not dict or not params.keys() <= _PARAMS:
        return None
    meta = params.get("_meta", _NONE)
    if not (meta is _NONE and envelope is None) and not _is_plain_meta(meta, envelope):
        return None
    entry = tools.find(name)
    if entry is None:
        return None
    if asks and entry.tool.confirmation is not None and entry.tool.confirmation.concerns(arguments):
        return None
    client = None if envelope is None else meta.get(CLIENT_KEY)
    token = meta.get("progressToken")
    return PlainCall(message["id"], entry, arguments, None if client is None else client["name"], token)


_NONE: dict[str, Any] = {}


def _is_plain_meta(meta: Any, envelope: Callable[[bytes], bool] | None) -> bool:
    """Nothing in it that the SDK acts on and we do not."""
    if type(meta) is not dict:
        return False
    reserved: dict[str, Any] = {}
    for key, value in meta.items():
        if key == "progressToken":
            if type(value) is not str and type(value) is not int:
                return False
        elif key.startswith(RESERVED):
            reserved[key] = value
        elif "/" not in key:  # bare names are the protocol's own: trace context, and what is yet to come
            return False
    if envelope is None:
        return not reserved
    return envelope(orjson.dumps(reserved))


def cancel_key(id: str | int) -> str | int:
    """As the SDK has it: "7" and 7 are the same request when one is to be cancelled."""
    try:
        return int(id)
    except ValueError:
        return id


def rpc_error(offer: Offer, entry: OfferedTool, outcome: Outcome, *, faults_in_result: bool) -> RpcError | None:
    """For both paths: what is answered as an error of the protocol, not as a result."""
    match outcome:
        case Refused() if outcome.problems and not _are_faults_in_result(offer, entry, faults_in_result):
            problems = outcome.problems
            return RpcError(INVALID_PARAMS, invalid_params(problems), {"validation_errors": problems})
        case Broken(error_id):
            return RpcError(INTERNAL_ERROR, "Internal error", {"error_id": error_id})
    return None


def fault_of(error: Exception, method: str) -> RpcError:
    """For both paths: an error of what is no tool. A bug of ours is known outside by its id alone."""
    error = exhaustion(error) or error
    match error:
        case InvalidArgument():
            return RpcError(INVALID_PARAMS, invalid_params(error.problems), {"validation_errors": error.problems})
        case TallystickError():
            code = INTERNAL_ERROR if isinstance(error, LogError) else INVALID_REQUEST
            told = {"error": error.code, "message": error.message, **error.details}
            return RpcError(code, error.message, told)
    return RpcError(INTERNAL_ERROR, "Internal error", {"error_id": broken(method).error_id})


def refused_result(entry: OfferedTool, outcome: Refused) -> tuple[str, dict[str, Any]]:
    """For both paths: the text and the structured content beside isError."""
    problems = outcome.problems
    if not problems or entry.toolset.faults == "result":
        return orjson.dumps(outcome.shape).decode(), outcome.shape
    words = invalid_params(problems)
    told = {"error": "INVALID_PARAMS", "code": INVALID_PARAMS, "message": words, "validation_errors": problems}
    return words, {**outcome.shape, **told}


def write_reply(offer: Offer, call: PlainCall, outcome: Outcome, era: Era) -> tuple[int, bytes]:
    """The HTTP status and the JSON-RPC message."""
    id = orjson.dumps(call.id)
    if type(outcome) is Done:
        behind = offer.behind_seconds()
        tail = _dated(era.tail, behind) if behind else era.tail
        return 200, _result(id, outcome.text, outcome.encoded, b"false", tail)
    error = rpc_error(offer, call.entry, outcome, faults_in_result=era.faults_in_result)
    if error is not None:
        status = era.statuses.get(error.code, 200)
        return status, b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id, _encoded(error))
    assert isinstance(outcome, Refused)
    text, shape = refused_result(call.entry, outcome)
    return 200, _result(id, text, orjson.dumps(shape), b"true", era.tail)


def _dated(tail: bytes, behind: float) -> bytes:
    """The end of a result, whose `_meta`, the last in it, also says how old it may be."""
    said = b'"%b":%.3f}' % (BEHIND_KEY.encode(), behind)
    return tail[:-1] + b"," + said if tail else b',"_meta":{' + said


def _result(id: bytes, text: str, data: bytes, is_error: bytes, tail: bytes) -> bytes:
    return (
        b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":%b}],"structuredContent":%b,"isError":%b%b}}'
        % (
            id,
            orjson.dumps(text),
            data,
            is_error,
            tail,
        )
    )


def _encoded(error: RpcError) -> bytes:
    return orjson.dumps({"code": error.code, "message": error.message, "data": error.data})


def _are_faults_in_result(offer: Offer, entry: OfferedTool, by_protocol: bool) -> bool:
    if offer.validation_errors != "auto":
        return offer.validation_errors == "result"
    return entry.toolset.faults == "result" or by_protocol

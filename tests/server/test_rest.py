"""The REST face: statuses, shapes, and a document that describes them."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tallystick import errors
from tallystick.server.answers import STATUS_WORDS, status_of
from tallystick.server.dispatch import choose
from tallystick.server.http import http_app
from tests.promises import promise
from tests.server.sample import SECRET, TOOLSETS, offer

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def client(**settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(http_app(offer(**settings)))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield http


def sample_error(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"error": code, "message": message, **more}


CALLS: dict[str, tuple[str, Any, int, dict[str, Any]]] = {
    "an answer": ("sample.echo", {"text": "a", "times": 3}, 200, {"said": "aaa"}),
    "by the other name": ("sample_echo", {"text": "a"}, 200, {"said": "a"}),
    "no argument needed": ("sample.whoami", {}, 200, {"said": "remote in default"}),
    "faults": (
        "sample.echo",
        {"times": 0},
        400,
        sample_error(
            "INVALID_ARGUMENT",
            "field 'text' is required; field 'times' must be greater than or equal to 1",
            validation_errors=["field 'text' is required", "field 'times' must be greater than or equal to 1"],
        ),
    ),
    "faults in another shape": (
        "plain_echo",
        {"text": 1},
        400,
        {
            "success": False,
            "error": {"code": "INVALID_ARGUMENT", "message": "field 'text' must be a string"},
            "validation_errors": ["field 'text' must be a string"],
        },
    ),
    "not found": ("sample.fail", {"kind": "NotFound"}, 404, sample_error("ENTITY_NOT_FOUND", "NotFound on purpose")),
    "denied": ("sample.fail", {"kind": "Denied"}, 403, sample_error("AUTHORIZATION_DENIED", "Denied on purpose")),
    "conflict": ("sample.fail", {"kind": "Conflict"}, 409, sample_error("CONFLICT", "Conflict on purpose")),
    "too much": ("sample.fail", {"kind": "LimitExceeded"}, 413, sample_error("TOO_MUCH", "LimitExceeded on purpose")),
    "not now": (
        "sample.fail",
        {"kind": "TallystickError", "code": "INVALID_OPERATION"},
        422,
        sample_error("INVALID_OPERATION", "TallystickError on purpose"),
    ),
    "busy": (
        "sample.fail",
        {"kind": "TallystickError", "code": "PROJECTION_BUSY"},
        503,
        sample_error("PROJECTION_BUSY", "TallystickError on purpose"),
    ),
    "rate": (
        "sample.fail",
        {"kind": "Denied", "code": "RATE_LIMITED"},
        429,
        sample_error("RATE_LIMITED", "Denied on purpose"),
    ),
    "closed": ("sample.fail", {"kind": "LogClosed"}, 503, sample_error("LOG_CLOSED", "LogClosed on purpose")),
    "disk": (
        "sample.fail",
        {"kind": "StorageRefused"},
        503,
        sample_error("STORAGE_REFUSED", "StorageRefused on purpose"),
    ),
}


@promise("L24, REST", "a refusal has its literal status over REST")
@pytest.mark.parametrize(("tool", "arguments", "status", "said"), CALLS.values(), ids=CALLS)
async def test_a_call_has_its_status_and_its_toolsets_words(
    tool: str, arguments: Any, status: int, said: dict[str, Any]
) -> None:
    async with client() as http:
        answer = await http.post(f"/v1/tools/{tool}", json=arguments)
    assert (answer.status_code, answer.json()) == (status, said)


async def test_every_error_has_a_status_that_is_described() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TallystickError)
    ]
    assert len(kinds) > 8
    assert {status_of(kind("x")) for kind in kinds} <= set(STATUS_WORDS)


async def test_one_who_must_wait_is_told_how_long() -> None:
    async with client() as http:
        answer = await http.post("/v1/tools/sample.fail", json={"kind": "Denied", "code": "RATE_LIMITED"})
    assert answer.headers["retry-after"] == "7"


BODIES: dict[str, tuple[bytes, str, int, str]] = {
    "malformed": (b"{", "application/json", 400, "INVALID_ARGUMENT"),
    "a key twice": (b'{"text":"a","text":"b"}', "application/json", 400, "INVALID_ARGUMENT"),
    "NaN": (b'{"text":NaN}', "application/json; charset=utf-8", 400, "INVALID_ARGUMENT"),
    "not UTF-8": (b'{"text":"\xff"}', "application/json", 400, "INVALID_ARGUMENT"),
    "deep": (b'{"text":' + b"[" * 200 + b"]" * 200 + b"}", "application/json", 400, "INVALID_ARGUMENT"),
    "a list": (b"[]", "application/json", 400, "INVALID_ARGUMENT"),
    "nothing where something is required": (b"", "application/json", 400, "INVALID_ARGUMENT"),
    "a line of nothing": (b"\n", "application/json", 400, "INVALID_ARGUMENT"),
    "a form": (b"text=a", "application/x-www-form-urlencoded", 415, "NOT_JSON"),
    "plain text, as a page may send unasked": (b'{"text":"a"}', "text/plain", 415, "NOT_JSON"),
    "too large": (b'{"text":"' + b"a" * 2000 + b'"}', "application/json", 413, "BODY_TOO_LARGE"),
}


@pytest.mark.parametrize(("body", "kind", "status", "code"), BODIES.values(), ids=BODIES)
async def test_bodies_are_read_as_strictly_as_messages(body: bytes, kind: str, status: int, code: str) -> None:
    async with client(body_bytes_max=1500) as http:
        answer = await http.post("/v1/tools/sample.echo", content=body, headers={"content-type": kind})
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert ("validation_errors" in answer.json()) == (status == 400)


MISSES: list[tuple[str, str, int, str]] = [
    ("POST", "/v1/tools/sample.nothing", 404, "UNKNOWN_TOOL"),
    ("POST", "/v1/tools/sample.write", 404, "UNKNOWN_TOOL"),
    ("GET", "/v1/tools/sample.echo", 405, "WRONG_METHOD"),
    ("PUT", "/mcp", 405, "WRONG_METHOD"),
    ("GET", "/nowhere", 404, "NO_SUCH_PATH"),
]


@pytest.mark.parametrize(("method", "path", "status", "code"), MISSES)
async def test_what_is_not_there_is_said_in_json(method: str, path: str, status: int, code: str) -> None:
    async with client(tools=choose(TOOLSETS, read_only=True)) as http:
        answer = await http.request(method, path)
    assert (answer.status_code, answer.json()["error"]) == (status, code)


async def test_a_bug_leaves_only_its_id(caplog: pytest.LogCaptureFixture) -> None:
    async with client() as http:
        with caplog.at_level(logging.ERROR):
            answer = await http.post("/v1/tools/sample.crash", json={})
    assert answer.status_code == 500
    assert SECRET not in answer.text
    [record] = caplog.records
    assert answer.json()["error_id"] in record.getMessage()


async def test_the_request_tells_who_asks() -> None:
    async with client() as http:
        known = await http.post("/v1/tools/sample.whoami", json={}, headers={"x-tenant": "acme"})
        denied = await http.post("/v1/tools/sample.whoami", json={}, headers={"x-tenant": "denied"})
    assert known.json() == {"said": "remote in acme"}
    assert (denied.status_code, denied.json()["error"]) == (403, "AUTHORIZATION_DENIED")


async def test_health_tells_the_version_and_the_position() -> None:
    async with client() as http:
        assert (await http.get("/health")).json() == {"status": "ok", "version": "1.2.3"}
    async with client(position=lambda: 42) as http:
        assert (await http.get("/health")).json() == {"status": "ok", "version": "1.2.3", "position": 42}


async def test_a_limit_of_the_process_that_no_route_answers_for_is_a_refusal_and_not_a_bug() -> None:
    def position() -> int:
        raise MemoryError

    async with client(position=position) as http:
        answer = await http.get("/health")
    assert (answer.status_code, answer.json()["error"]) == (503, "RESOURCES_EXHAUSTED")
    assert answer.json()["hint"]
    assert answer.headers["retry-after"] == "1"


async def test_probes_tell_a_process_that_must_be_started_again_from_one_that_takes_no_more_calls() -> None:
    async def statuses(**said: Any) -> tuple[int, int]:
        async with client(**said) as http:
            return (await http.get("/health/live")).status_code, (await http.get("/health/ready")).status_code

    assert await statuses() == (200, 200)
    assert await statuses(not_ready=lambda: "about to end") == (200, 503)
    assert await statuses(not_live=lambda: "the log was closed") == (503, 503)


async def test_the_list_has_every_tool_that_is_on() -> None:
    async with client(tools=choose(TOOLSETS, names=["plain"])) as http:
        [tool] = (await http.get("/v1/tools")).json()["tools"]
    assert (tool["name"], tool["toolset"], tool["reads_only"]) == ("plain_echo", "plain", True)
    assert tool["input_schema"]["required"] == ["text"]


@promise("OWASP API9, inventory", "the document has every tool and every refusal")
async def test_the_document_is_valid_and_has_every_tool_and_every_refusal() -> None:
    async with client() as http:
        document = (await http.get("/v1/openapi.json")).json()
    OpenAPIV31SpecValidator(document).validate()
    assert document["openapi"] == "3.1.0"
    for entry in choose(TOOLSETS):
        operation = document["paths"][f"/v1/tools/{entry.dotted}"]["post"]
        assert operation["operationId"] == entry.underscored
        assert set(operation["responses"]) == {"200", *map(str, STATUS_WORDS)}
    assert "#/$defs/" not in json.dumps(document)


@pytest.mark.parametrize(("tool", "arguments", "status", "said"), CALLS.values(), ids=CALLS)
async def test_the_document_describes_what_is_really_answered(
    tool: str, arguments: Any, status: int, said: dict[str, Any]
) -> None:
    async with client() as http:
        document = (await http.get("/v1/openapi.json")).json()
        answer = await http.post(f"/v1/tools/{tool}", json=arguments)
    path = f"/v1/tools/{choose(TOOLSETS).get(tool).dotted}"
    schema = document["paths"][path]["post"]["responses"][str(status)]["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**schema, "components": document["components"]})

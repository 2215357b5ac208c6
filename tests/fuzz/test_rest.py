"""REST by its own OpenAPI document: what the document allows is answered as it says, what it does not is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
import schemathesis
from hypothesis import given
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.result import Ok

from tests.fuzz.budget import SECONDS_MAX, tries
from tests.fuzz.servers import http_server
from tests.promises import promise

pytestmark = pytest.mark.timeout(SECONDS_MAX)

TRIES = {GenerationMode.POSITIVE: 6, GenerationMode.NEGATIVE: 4}
LENIENT = ("tasks", "knowledge")
"""Toolsets that take "3" for 3, "true" for true and words in any case, as their callers are used to."""

load_all_checks()
CHECKED = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    )
]


@promise("5.3, fuzzing of REST", "the server keeps to its own OpenAPI document")
def test_the_server_keeps_to_its_own_document(tmp_path: Path) -> None:
    with http_server(tmp_path / "base") as address, requests.Session() as session:
        tools = {f"/v1/tools/{each['name']}": each for each in session.get(f"{address}/v1/tools").json()["tools"]}
        operations = list(schemathesis.openapi.from_url(f"{address}/v1/openapi.json").get_all_operations())
        assert all(isinstance(found, Ok) for found in operations)
        described = [found.ok() for found in operations if isinstance(found, Ok)]
        assert tools.keys() <= {operation.path for operation in described}
        for operation in described:
            keeps_to_it(operation, GenerationMode.POSITIVE, session, None)
            if operation.path in tools:
                keeps_to_it(operation, GenerationMode.NEGATIVE, session, tools[operation.path])


def keeps_to_it(operation: Any, mode: GenerationMode, session: requests.Session, tool: dict[str, Any] | None) -> None:
    @tries(TRIES[mode])
    @given(operation.as_strategy(generation_mode=mode))
    def asked(case: Any) -> None:
        answer = case.call(session=session)
        assert "Traceback" not in answer.text
        case.validate_response(answer, checks=CHECKED)
        if tool is not None and answer.status_code == 200 and tool["toolset"] not in LENIENT:
            check_fits(answer.request.body, tool["input_schema"])

    asked()


def check_fits(body: bytes | str | None, schema: dict[str, Any]) -> None:
    """What was answered though it is said not to fit: only where null stands for what could be left out."""
    sent = orjson.loads(body) if body else {}
    Draft202012Validator(schema).validate(_without_nulls(sent))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_without_nulls, value))
    if not isinstance(value, dict):
        return value
    return {key: _without_nulls(item) for key, item in value.items() if item is not None}

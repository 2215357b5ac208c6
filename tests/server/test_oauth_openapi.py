"""The document where tokens are asked for: whose, and every way to be refused, as it really is."""

from __future__ import annotations

from typing import Any

import httpx2
import jsonschema
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tallystick.server.http import http_app
from tallystick.server.limits import Quota, Quotas
from tallystick.server.oauth import principal_of
from tallystick.server.openapi import openapi
from tests.promises import promise
from tests.server.issuing import HERE, ISSUER, Issuer, bearer
from tests.server.sample import offer

SCOPES = ("memory", "more")
DOCUMENT = "/v1/openapi.json"
FAIL, WHOAMI = "/v1/tools/sample.fail", "/v1/tools/sample.whoami"


class Door:
    """One caller with a good token, who may be made to fail in every way there is."""

    def __init__(self) -> None:
        self.issuer = Issuer()
        # Enough for all the calls that ask for something, and one too many is easily made.
        given = offer(principal_of=principal_of, quotas=Quotas(Quota(writes=3, reads=3)), body_bytes_max=1500)
        self.app = http_app(given, admission=self.issuer.admission(scopes=SCOPES))
        self.good = bearer(self.issuer.token(self.issuer.claims(scope=" ".join(SCOPES))))

    async def ask(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        async with self.issuer.client_of(self.app) as http:
            if not path.startswith("/v1/tools/"):
                return await http.get(path, headers={**self.good, **headers})
            return await http.post(path, json={} if body is None else body, headers={**self.good, **headers})

    async def ask_too_often(self, path: str, body: Any = None) -> httpx2.Response:
        for _ in range(3):
            await self.ask(path, body)
        return await self.ask(path, body)

    async def ask_while_the_issuer_is_away(self, path: str, body: Any = None) -> httpx2.Response:
        self.issuer.is_down = True
        return await self.ask(path, body)

    def token(self, **claims: Any) -> str:
        return bearer(self.issuer.token(self.issuer.claims(**{"scope": " ".join(SCOPES), **claims})))["authorization"]


async def observed(path: str, situation: str) -> httpx2.Response:
    door = Door()
    match situation:
        case "welcome":
            return await door.ask(path)
        case "no token":
            return await door.ask(path, authorization="")
        case "expired":
            return await door.ask(path, authorization=door.token(exp=int(door.issuer.now) - 60))
        case "another issuer":
            return await door.ask(path, authorization=door.token(iss="https://second.example"))
        case "a scope too few":
            return await door.ask(path, authorization=door.token(scope="memory"))
        case "the issuer is away":
            return await door.ask_while_the_issuer_is_away(path)
        case "a foreign name":
            return await door.ask(path, host="elsewhere.example")
        case "a foreign page":
            return await door.ask(path, origin="https://evil.example")
        case "too often":
            return await door.ask_too_often(path)
        case "too large":
            return await door.ask(path, {"text": "a" * 2000})
        case "no JSON":
            return await door.ask(path, **{"content-type": "text/plain"})
        case "unknown arguments":
            return await door.ask(path, {"is_admin": True})
        case "not possible":
            return await door.ask(FAIL, {"kind": "TallystickError", "code": "INVALID_OPERATION"})
    return await door.ask(FAIL, {"kind": situation}) if situation != "a bug" else await door.ask(path)


EVERYWHERE = {
    "welcome": 200,
    "no token": 401,
    "expired": 401,
    "another issuer": 403,
    "a scope too few": 403,
    "the issuer is away": 503,
    "a foreign name": 421,
    "a foreign page": 403,
}
AT_TOOLS = {**EVERYWHERE, "too often": 429, "too large": 413, "no JSON": 415, "unknown arguments": 400}
AT_FAIL = {
    "Denied": 403,
    "NotFound": 404,
    "Conflict": 409,
    "LimitExceeded": 413,
    "LogClosed": 503,
    "StorageRefused": 503,
}
AT_FAIL |= {"not possible": 422}
AT_HEALTH = {**dict.fromkeys(EVERYWHERE, 200), "a foreign name": 421, "a foreign page": 403}

SITUATIONS = [
    *((DOCUMENT, situation, status) for situation, status in EVERYWHERE.items()),
    *(("/v1/tools", situation, status) for situation, status in EVERYWHERE.items()),
    *(("/health", situation, status) for situation, status in AT_HEALTH.items()),
    *((WHOAMI, situation, status) for situation, status in AT_TOOLS.items()),
    *((FAIL, situation, status) for situation, status in AT_FAIL.items()),
    ("/v1/tools/sample.crash", "a bug", 500),
]


def document() -> dict[str, Any]:
    return openapi(offer(), Issuer().admission(scopes=SCOPES))


def documented(path: str) -> dict[str, Any]:
    responses: dict[str, Any] = next(iter(document()["paths"][path].values()))["responses"]
    return responses


@promise("L24, document", "the document says whose tokens are asked for and every answer, as they are")
@pytest.mark.parametrize(("path", "situation", "status"), SITUATIONS, ids=str)
async def test_what_is_answered_is_what_the_document_says(path: str, situation: str, status: int) -> None:
    answer = await observed(path, situation)
    assert answer.status_code == status
    described = documented(path)[str(status)]
    schema = described["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), {**schema, "components": document()["components"]})
    assert all(name.lower() in answer.headers for name in described.get("headers", {}))


def test_no_status_is_described_that_nobody_has_seen() -> None:
    seen: dict[str, set[str]] = {}
    for path, _, status in SITUATIONS:
        seen.setdefault("tool" if path.startswith("/v1/tools/") else path, set()).add(str(status))
    tools = {path for path in document()["paths"] if path.startswith("/v1/tools/")}
    assert {status for path in tools for status in documented(path)} == seen.pop("tool")
    assert {path: set(documented(path)) for path in seen} == seen


def test_the_document_says_whose_tokens_are_asked_for_and_is_valid() -> None:
    said = document()
    OpenAPIV31SpecValidator(said).validate()
    assert said["components"]["securitySchemes"]["issuer_1"] == {
        "type": "openIdConnect",
        "openIdConnectUrl": f"{ISSUER}/.well-known/openid-configuration",
        "description": f"An access token of {ISSUER}, as Authorization: Bearer, issued for {HERE}.",
    }
    assert said["security"] == [{"issuer_1": list(SCOPES)}]
    assert said["paths"]["/health"]["get"]["security"] == []


def test_a_token_of_any_of_several_issuers_will_do() -> None:
    said = openapi(offer(), Issuer().admission(issuers=[ISSUER, "https://second.example/realm"]))
    assert said["security"] == [{"issuer_1": []}, {"issuer_2": []}]
    schemes = said["components"]["securitySchemes"]
    assert schemes["issuer_2"]["openIdConnectUrl"] == "https://second.example/realm/.well-known/openid-configuration"


def test_where_nobody_is_asked_for_a_token_none_is_spoken_of() -> None:
    said = openapi(offer())
    assert "security" not in said
    assert "securitySchemes" not in said["components"]
    assert all("401" not in next(iter(path.values()))["responses"] for path in said["paths"].values())
    OpenAPIV31SpecValidator(said).validate()

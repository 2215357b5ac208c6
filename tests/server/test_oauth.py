"""Tokens at the HTTP door: whose are taken, what they prove, and every way to get in without one."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tallystick.errors import Denied, InvalidArgument
from tallystick.policy import Principal
from tallystick.server.http import http_app
from tallystick.server.oauth import principal_of
from tallystick.server.oauth.guard import build_admission, public_address
from tallystick.server.oauth.tokens import REMEMBERED_MAX, TOKEN_BYTES_MAX
from tests.promises import promise
from tests.server import issuing
from tests.server.issuing import HERE, ISSUER, NOW, Issuer, bearer, encoded, forged, public, rsa_key
from tests.server.sample import offer
from tests.server.test_guards import ROUTES

WHOAMI = "/v1/tools/sample.whoami"
RPC = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"accept": "application/json, text/event-stream"}


async def ask(issuer: Issuer, token: str, **settings: Any) -> tuple[int, Any]:
    async with issuer.client(**settings) as http:
        answer = await http.post(WHOAMI, json={}, headers=bearer(token))
    return answer.status_code, answer.json()


# -- the order of things


@promise("OWASP API2, every route", "no route but health and metadata answers without a token")
@pytest.mark.parametrize(("method", "path"), [route for route in ROUTES if route[1] != "/health"])
async def test_without_a_token_there_is_no_answer_but_401(method: str, path: str) -> None:
    async with Issuer().client() as http:
        answer = await http.request(method, path, content=b"{nonsense" if method == "POST" else None)
    assert answer.status_code == 401
    assert answer.json() == {"error": "MISSING_TOKEN", "message": "Authorization header required"}


async def test_the_guard_cannot_be_walked_around_by_spelling() -> None:
    async with Issuer().client() as http:
        for path in ("/mcp/", "//mcp", "/MCP", "/health/../mcp", "/health/", "/v1/tools?x=/health", "/%6dcp"):
            assert (await http.post(path, json=RPC)).status_code == 401, path


async def test_health_needs_no_token() -> None:
    async with Issuer().client() as http:
        assert (await http.get("/health")).status_code == 200


async def test_a_page_may_ask_before_it_calls_and_read_why_it_may_not() -> None:
    authorization = {"origin": "https://app.example", "access-control-request-method": "POST"}
    async with Issuer().client() as http:
        assert (await http.options("/mcp", headers=authorization)).status_code == 200
        refused = await http.post("/mcp", json=RPC, headers={"origin": "https://app.example"})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://app.example"
    assert "WWW-Authenticate" in refused.headers["access-control-expose-headers"]


# -- good tokens

GOOD: dict[str, Callable[[Issuer], str]] = {
    "RS256": lambda i: i.token(),
    "ES256": lambda i: i.token(key=i.ec),
    "without a type": lambda i: i.token(typ=None),
    "of the common type": lambda i: i.token(typ="JWT"),
    "of the full type": lambda i: i.token(typ="application/at+jwt"),
    "without a key id": lambda i: i.token(kid=None),
    "with unknown headers": lambda i: i.token(x5t="abc", nonce="def"),
    "called Bearer inside": lambda i: i.token(i.claims(typ="Bearer", nonce="n"), typ="JWT"),
    "for several": lambda i: i.token(i.claims(aud=["https://other.example", HERE])),
    "for the address with a slash": lambda i: i.token(i.claims(aud=f"{HERE}/")),
    "for the older transport": lambda i: i.token(i.claims(aud=f"{HERE}/sse")),
    "valid since now": lambda i: i.token(i.claims(nbf=NOW)),
    "of a clock that is ahead": lambda i: i.token(i.claims(nbf=NOW + 9)),
    "of a clock that is behind": lambda i: i.token(i.claims(exp=NOW - 9)),
    "with fractions": lambda i: i.token(i.claims(exp=NOW + 60.5)),
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
async def test_a_good_token_is_let_in_under_its_subject(make: Callable[[Issuer], str]) -> None:
    issuer = Issuer()
    assert await ask(issuer, make(issuer)) == (200, {"said": "alice in default"})


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer  "])
async def test_the_scheme_may_be_spelled_anyhow(scheme: str) -> None:
    issuer = Issuer()
    async with issuer.client() as http:
        answer = await http.post(WHOAMI, json={}, headers={"authorization": f"{scheme} {issuer.token()}"})
    assert answer.status_code == 200


# -- attackers


def _with_payload(token: str, **changes: Any) -> str:
    issuer = Issuer()
    header, _, signature = token.split(".")
    return f"{header}.{encoded(json.dumps(issuer.claims(**changes)).encode())}.{signature}"


def _flipped(token: str) -> str:
    head, last = token[:-10], token[-10:]
    return head + ("A" if last[0] != "A" else "B") + last[1:]


def _payload(issuer: Issuer, **changes: Any) -> bytes:
    return json.dumps(issuer.claims(**changes)).encode()


_STRANGER = rsa_key("stranger")

ATTACKS: dict[str, tuple[Callable[[Issuer], str], int, str]] = {
    "alg none": (lambda i: forged({"alg": "none"}, _payload(i)), 401, "INVALID_SIGNATURE"),
    "alg None": (lambda i: forged({"alg": "NoNe", "kid": "rsa-1"}, _payload(i)), 401, "INVALID_SIGNATURE"),
    "alg null": (lambda i: forged({"alg": None}, _payload(i)), 401, "INVALID_SIGNATURE"),
    "alg a list": (lambda i: forged({"alg": ["RS256"]}, _payload(i), i.rsa), 401, "INVALID_SIGNATURE"),
    "no alg": (lambda i: forged({"typ": "JWT"}, _payload(i)), 401, "INVALID_SIGNATURE"),
    "RS256 without a signature": (lambda i: i.token().rpartition(".")[0] + ".", 401, "INVALID_SIGNATURE"),
    "HS256 with the public key": (
        lambda i: forged({"alg": "HS256", "kid": "rsa-1"}, _payload(i), issuing.public_pem(i.rsa)),
        401,
        "INVALID_SIGNATURE",
    ),
    "HS256 called RS256": (
        lambda i: forged({"alg": "RS256", "kid": "rsa-1"}, _payload(i), issuing.public_pem(i.rsa)),
        401,
        "INVALID_SIGNATURE",
    ),
    "RS512": (lambda i: forged({"alg": "RS512", "kid": "rsa-1"}, _payload(i), i.rsa), 401, "INVALID_SIGNATURE"),
    "ES256 with the RSA key's id": (lambda i: i.token(key=i.ec, kid="rsa-1"), 401, "INVALID_SIGNATURE"),
    "ES256 of zeros": (
        lambda i: i.token(key=i.ec).rpartition(".")[0] + "." + encoded(bytes(64)),
        401,
        "INVALID_SIGNATURE",
    ),
    "tampered payload": (lambda i: _with_payload(i.token(), sub="admin"), 401, "INVALID_SIGNATURE"),
    "tampered signature": (lambda i: _flipped(i.token()), 401, "INVALID_SIGNATURE"),
    "another's key under a known id": (lambda i: i.token(key=_STRANGER, kid="rsa-1"), 401, "INVALID_SIGNATURE"),
    "another's key without an id": (lambda i: i.token(key=_STRANGER, kid=None), 401, "INVALID_SIGNATURE"),
    "unknown key": (lambda i: i.token(key=_STRANGER), 401, "INVALID_SIGNATURE"),
    "key id a path": (lambda i: i.token(kid="../../../../dev/null"), 401, "INVALID_SIGNATURE"),
    "key id a question": (lambda i: i.token(kid="x' OR '1'='1"), 401, "INVALID_SIGNATURE"),
    "key id a number": (lambda i: i.token(kid=1), 401, "INVALID_SIGNATURE"),
    "key id a list": (lambda i: i.token(kid=["rsa-1"]), 401, "INVALID_SIGNATURE"),
    "key id empty": (lambda i: i.token(kid=""), 401, "INVALID_SIGNATURE"),
    "own key in the header": (
        lambda i: i.token(key=_STRANGER, jwk=public(_STRANGER), kid=None),
        401,
        "INVALID_SIGNATURE",
    ),
    "own key by address": (
        lambda i: i.token(key=_STRANGER, jku="https://evil.example/jwks", x5u="https://evil.example/x"),
        401,
        "INVALID_SIGNATURE",
    ),
    "critical header": (lambda i: i.token(crit=["b64"], b64=False), 401, "INVALID_SIGNATURE"),
    "wrong issuer": (lambda i: i.token(i.claims(iss="https://evil.example")), 403, "UNTRUSTED_ISSUER"),
    "issuer with a slash": (lambda i: i.token(i.claims(iss=f"{ISSUER}/")), 403, "UNTRUSTED_ISSUER"),
    "issuer in capitals": (lambda i: i.token(i.claims(iss=ISSUER.upper())), 403, "UNTRUSTED_ISSUER"),
    "issuer a list": (lambda i: i.token(i.claims(iss=[ISSUER])), 403, "UNTRUSTED_ISSUER"),
    "no issuer": (lambda i: i.token(i.claims(iss=None)), 403, "UNTRUSTED_ISSUER"),
    "expired": (lambda i: i.token(i.claims(exp=NOW - 11)), 401, "TOKEN_EXPIRED"),
    "expired at the beginning of time": (lambda i: i.token(i.claims(exp=0)), 401, "TOKEN_EXPIRED"),
    "never expiring": (lambda i: i.token(i.claims(exp=None)), 401, "INVALID_TOKEN"),
    "expiring as text": (lambda i: i.token(i.claims(exp=str(NOW + 60))), 401, "INVALID_TOKEN"),
    "expiring when true": (lambda i: i.token(i.claims(exp=True)), 401, "INVALID_TOKEN"),
    "expiring after the end": (lambda i: i.token(i.claims(exp=10**300)), 401, "INVALID_TOKEN"),
    "not yet valid": (lambda i: i.token(i.claims(nbf=NOW + 11)), 401, "INVALID_TOKEN"),
    "issued later than now": (lambda i: i.token(i.claims(iat=NOW + 11)), 401, "INVALID_TOKEN"),
    "issued as text": (lambda i: i.token(i.claims(iat="now")), 401, "INVALID_TOKEN"),
    "bound to a key (DPoP)": (lambda i: i.token(i.claims(cnf={"jkt": "x" * 43})), 401, "INVALID_TOKEN"),
    "bound to a certificate": (lambda i: i.token(i.claims(cnf={"x5t#S256": "x" * 43})), 401, "INVALID_TOKEN"),
    "bound to nobody knows what": (lambda i: i.token(i.claims(cnf={})), 401, "INVALID_TOKEN"),
    "of another token type": (lambda i: i.token(i.claims(token_type="DPoP")), 401, "INVALID_TOKEN"),
    "valid from text": (lambda i: i.token(i.claims(nbf="now")), 401, "INVALID_TOKEN"),
    "wrong audience": (lambda i: i.token(i.claims(aud="https://other.example/mcp")), 401, "INVALID_TOKEN"),
    "a longer audience": (lambda i: i.token(i.claims(aud=f"{HERE}.evil.example")), 401, "INVALID_TOKEN"),
    "a part of the audience": (lambda i: i.token(i.claims(aud="https://memory")), 401, "INVALID_TOKEN"),
    "no audience": (lambda i: i.token(i.claims(aud=None)), 401, "INVALID_TOKEN"),
    "audience an object": (lambda i: i.token(i.claims(aud={HERE: 1})), 401, "INVALID_TOKEN"),
    "id token, by its nonce": (lambda i: i.token(i.claims(nonce="n"), typ="JWT"), 401, "INVALID_TOKEN"),
    "id token, by its hash": (lambda i: i.token(i.claims(at_hash="h"), typ=None), 401, "INVALID_TOKEN"),
    "id token, by its word": (lambda i: i.token(i.claims(typ="ID"), typ="JWT"), 401, "INVALID_TOKEN"),
    "id token, by its use": (lambda i: i.token(i.claims(token_use="id"), typ="JWT"), 401, "INVALID_TOKEN"),
    "refresh token": (lambda i: i.token(i.claims(typ="Refresh"), typ="JWT"), 401, "INVALID_TOKEN"),
    "logout token": (lambda i: i.token(i.claims(events={}), typ="JWT"), 401, "INVALID_TOKEN"),
    "another type": (lambda i: i.token(typ="secevent+jwt"), 401, "INVALID_TOKEN"),
    "type a number": (lambda i: i.token(typ=1), 401, "INVALID_SIGNATURE"),
    "no subject": (lambda i: i.token(i.claims(sub=None)), 401, "INVALID_TOKEN"),
    "empty subject": (lambda i: i.token(i.claims(sub="")), 401, "INVALID_TOKEN"),
    "subject a number": (lambda i: i.token(i.claims(sub=7)), 401, "INVALID_TOKEN"),
    "subject with a line break": (lambda i: i.token(i.claims(sub="alice\nadmin")), 401, "INVALID_TOKEN"),
    "endless subject": (lambda i: i.token(i.claims(sub="a" * 256)), 401, "INVALID_TOKEN"),
    "a key twice": (
        lambda i: forged({"alg": "RS256", "kid": "rsa-1"}, _payload(i)[:-1] + b',"sub":"admin"}', i.rsa),
        401,
        "INVALID_TOKEN",
    ),
    "payload a list": (lambda i: forged({"alg": "RS256"}, b"[]", i.rsa), 401, "INVALID_TOKEN"),
    "payload too deep": (lambda i: forged({"alg": "RS256"}, b"[" * 5000, i.rsa), 401, "INVALID_TOKEN"),
    "huge": (lambda i: i.token(i.claims(pad="x" * TOKEN_BYTES_MAX)), 401, "INVALID_TOKEN"),
    "no JWT": (lambda i: "0123456789abcdef", 401, "INVALID_TOKEN"),
    "two parts": (lambda i: i.token().rpartition(".")[0], 401, "INVALID_TOKEN"),
    "five parts": (lambda i: i.token() + ".a.b", 401, "INVALID_TOKEN"),
    "not base64": (lambda i: "é.ü.ö".encode().decode("latin-1"), 401, "INVALID_TOKEN"),
    "half a byte": (lambda i: "a.b.c", 401, "INVALID_TOKEN"),
    "two tokens": (lambda i: f"{i.token()} {i.token()}", 401, "INVALID_TOKEN"),
    "nothing": (lambda i: "", 401, "INVALID_TOKEN"),
}


@promise("OWASP API2, tokens", "forged, foreign, expired and confused tokens are refused and leave no trace")
@promise(
    "attack: alg none, HS256 with the public key, wrong aud and iss, expired, not yet valid, id tokens, tampered",
    "each is refused with its own code, and leaves no trace of its token",
)
@pytest.mark.parametrize(("make", "status", "code"), ATTACKS.values(), ids=ATTACKS)
async def test_an_attack_is_refused_and_leaves_no_trace_of_its_token(
    make: Callable[[Issuer], str], status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    issuer = Issuer()
    token = make(issuer)
    async with issuer.client() as http:
        headers = [(b"authorization", b"Bearer " + token.encode("latin-1")), (b"content-type", b"application/json")]
        answer = await http.post(WHOAMI, content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token", error_description="')
    parts = [part for part in (token, *token.split(".")) if len(part) > 15]
    assert not any(part in text for part in parts for text in (answer.text, str(answer.headers), caplog.text))


@pytest.mark.parametrize("sub", ["", " ", "\u00a0", "\u200b", "\u2800", "\u3164", "\t", "\ufe0f", "\u200b \u2060"])
async def test_a_token_that_names_nobody_is_refused_with_the_reason(sub: str) -> None:
    issuer = Issuer()
    async with issuer.client() as http:
        token = issuer.token(issuer.claims(sub=sub))
        answer = await http.post(WHOAMI, content=b"{}", headers={"authorization": f"Bearer {token}"})
    assert (answer.status_code, answer.json()["error"]) == (401, "INVALID_TOKEN")
    assert "sub claim" in answer.json()["message"]


OTHER_WAYS: dict[str, tuple[list[tuple[str, str]], str, str]] = {
    "two headers": ([("authorization", "Bearer TOKEN"), ("authorization", "Bearer TOKEN")], "", "INVALID_TOKEN"),
    "another scheme": ([("authorization", "Basic TOKEN")], "", "INVALID_TOKEN"),
    "no scheme": ([("authorization", "TOKEN")], "", "INVALID_TOKEN"),
    "only a scheme": ([("authorization", "Bearer")], "", "INVALID_TOKEN"),
    "a tab": ([("authorization", "Bearer\tTOKEN")], "", "INVALID_TOKEN"),
    "in the query": ([], "?access_token=TOKEN", "MISSING_TOKEN"),
    "in a cookie": ([("cookie", "access_token=TOKEN")], "", "MISSING_TOKEN"),
    "in another header": ([("proxy-authorization", "Bearer TOKEN")], "", "MISSING_TOKEN"),
}


@pytest.mark.parametrize(("headers", "query", "code"), OTHER_WAYS.values(), ids=OTHER_WAYS)
async def test_a_good_token_counts_only_in_one_authorization_header(
    headers: list[tuple[str, str]], query: str, code: str
) -> None:
    issuer = Issuer()
    token = issuer.token()
    async with issuer.client() as http:
        answer = await http.post(
            WHOAMI + query.replace("TOKEN", token),
            data={"access_token": token},
            headers=[(name, value.replace("TOKEN", token)) for name, value in headers],
        )
    assert (answer.status_code, answer.json()["error"]) == (401, code)


@promise("L26", "of several faults in a token the first in the agreed order is told")
async def test_the_first_fault_in_the_agreed_order_is_told() -> None:
    """L26: issuer, signature, times, audience, kind."""
    issuer = Issuer()
    faults: dict[str, Any] = {"iss": "https://evil.example", "exp": 1, "aud": "elsewhere", "sub": None}
    expected = ["UNTRUSTED_ISSUER", "INVALID_SIGNATURE", "TOKEN_EXPIRED", "INVALID_TOKEN"]
    told = []
    told.append((await ask(issuer, issuer.token(issuer.claims(**faults), key=_STRANGER)))[1]["error"])
    del faults["iss"]
    told.append((await ask(issuer, issuer.token(issuer.claims(**faults), key=_STRANGER)))[1]["error"])
    told.append((await ask(issuer, issuer.token(issuer.claims(**faults))))[1]["error"])
    del faults["exp"]
    told.append((await ask(issuer, issuer.token(issuer.claims(**faults))))[1]["error"])
    assert told == expected


@promise("L25, expiry", "an expired token is told when it ended")
async def test_an_expired_token_is_told_when_it_ended() -> None:
    issuer = Issuer()
    status, said = await ask(issuer, issuer.token(issuer.claims(exp=1609459200)))
    assert (status, said) == (
        401,
        {"error": "TOKEN_EXPIRED", "message": "Access token expired at 2021-01-01T00:00:00Z"},
    )


# -- who it is


async def principal(issuer: Issuer, token: str, **settings: Any) -> Principal:
    return (await issuer.admission(**settings).admit([(b"authorization", f"Bearer {token}".encode())])).principal


PRINCIPALS: dict[str, tuple[dict[str, Any], Principal]] = {
    "nothing more": ({}, Principal("alice", "default", (), trusted=False)),
    "a list of roles": ({"roles": ["writer", "reader"]}, Principal("alice", "default", ("writer", "reader"), False)),
    "roles in a string": ({"roles": "writer  reader"}, Principal("alice", "default", ("writer", "reader"), False)),
    "a role twice": ({"roles": ["writer", "writer"]}, Principal("alice", "default", ("writer",), False)),
    "a tenant": ({"tenant_id": "acme"}, Principal("alice", "acme", (), False)),
}


@promise("L11, tokens", "who has a token may not name another actor")
@pytest.mark.parametrize(("claims", "expected"), PRINCIPALS.values(), ids=PRINCIPALS)
async def test_claims_become_a_principal_who_may_not_name_another(claims: dict[str, Any], expected: Principal) -> None:
    issuer = Issuer()
    assert await principal(issuer, issuer.token(issuer.claims(**claims))) == expected


@promise("L27", "tenant and roles may be under other claims")
async def test_the_claims_of_tenant_and_roles_may_have_other_names_and_places() -> None:
    issuer = Issuer()
    claims = issuer.claims(**{"https://acme.example/org": "acme", "realm_access": {"roles": ["admin"]}})
    settings = {"tenant_claim": "https://acme.example/org", "roles_claim": "realm_access.roles"}
    assert await principal(issuer, issuer.token(claims), **settings) == Principal("alice", "acme", ("admin",), False)


MALFORMED: dict[str, dict[str, Any]] = {
    "tenant a path": {"tenant_id": "../default"},
    "tenant a deeper path": {"tenant_id": "acme/../other"},
    "tenant absolute": {"tenant_id": "/etc"},
    "tenant dots": {"tenant_id": ".."},
    "tenant with a NUL": {"tenant_id": "acme\x00"},
    "tenant with a line break": {"tenant_id": "acme\n"},
    "tenant in capitals": {"tenant_id": "ACME"},
    "tenant empty": {"tenant_id": ""},
    "tenant a number": {"tenant_id": 7},
    "tenant a list": {"tenant_id": ["acme"]},
    "tenant too long": {"tenant_id": "a" * 64},
    "roles a number": {"roles": 7},
    "roles an object": {"roles": {"admin": True}},
    "roles of numbers": {"roles": [1]},
    "scope a number": {"scope": 1},
}


@promise("attack: path-like tenants, tokens", "a tenant claim like a path is malformed")
@pytest.mark.parametrize("claims", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_claim_is_no_claim_left_out(claims: dict[str, Any]) -> None:
    issuer = Issuer()
    status, said = await ask(issuer, issuer.token(issuer.claims(**claims)))
    assert (status, said["error"]) == (401, "INVALID_TOKEN")


async def test_a_null_tenant_is_malformed_too() -> None:
    issuer = Issuer()
    token = issuer.token({**issuer.claims(), "tenant_id": None})
    assert (await ask(issuer, token))[1]["error"] == "INVALID_TOKEN"


def test_a_route_that_no_guard_stands_before_knows_nobody() -> None:
    nothing: dict[str, Any] = {}
    for scope in (nothing, None):
        with pytest.raises(Denied) as refusal:
            principal_of(scope)
        assert refusal.value.code == "MISSING_TOKEN"


@promise("OWASP API2, sessions", "a session is served only to whom it belongs")
async def test_a_session_is_served_only_to_whom_it_belongs() -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
    }
    issuer = Issuer()
    app = issuer.app()
    strangers = [
        issuer.claims(sub="bob"),
        issuer.claims(tenant_id="acme"),
        issuer.claims(client_id="another program"),
    ]
    async with app.run(), issuer.client_of(app) as http:
        alice = {**ACCEPT, **bearer(issuer.token())}
        session = (await http.post("/mcp", json=hello, headers=alice)).headers["mcp-session-id"]
        named = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
        refreshed = {**ACCEPT, **bearer(issuer.token(issuer.claims(exp=NOW + 999)))}
        for claims in strangers:
            stranger = {**ACCEPT, **bearer(issuer.token(claims))}
            assert (await http.post("/mcp", json=RPC, headers={**stranger, **named})).status_code == 404
            assert (await http.delete("/mcp", headers={**stranger, **named})).status_code == 404
        assert (await http.post("/mcp", json=RPC, headers={**refreshed, **named})).status_code == 200


# -- scopes, and the way to a token


@promise("L24, scopes", "missing scopes are told together, by the transport")
async def test_scopes_are_checked_together_and_all_are_named() -> None:
    issuer = Issuer()
    for claims in ({}, {"scope": "memory.read"}, {"scp": ["memory.write"]}):
        async with issuer.client(scopes=["memory.read", "memory.write"]) as http:
            answer = await http.post(WHOAMI, json={}, headers=bearer(issuer.token(issuer.claims(**claims))))
        assert (answer.status_code, answer.json()["error"]) == (403, "INSUFFICIENT_SCOPE")
        challenge = answer.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="memory.read memory.write"' in challenge
        assert f'resource_metadata="{HERE}/.well-known/oauth-protected-resource"' in challenge


@pytest.mark.parametrize(
    "claims", [{"scope": "a memory.read b memory.write"}, {"scp": ["memory.write", "memory.read"]}]
)
async def test_more_scopes_than_needed_are_fine(claims: dict[str, Any]) -> None:
    issuer = Issuer()
    token = issuer.token(issuer.claims(**claims))
    assert (await ask(issuer, token, scopes=["memory.read", "memory.write"]))[0] == 200


PLACES = {"/mcp": "/mcp", "/sse": "/sse", "/messages/": "/sse", "/v1/tools": "", "/elsewhere": ""}


@pytest.mark.parametrize(("path", "part"), PLACES.items())
async def test_a_caller_without_a_token_is_shown_the_way_to_one(path: str, part: str) -> None:
    async with Issuer().client(scopes=["memory"]) as http:
        refused = await http.get(path)
        url = f"{HERE}/.well-known/oauth-protected-resource{part}"
        assert refused.headers["www-authenticate"] == f'Bearer scope="memory", resource_metadata="{url}"'
        assert (await http.get(url)).json() == {
            "resource": f"{HERE}{part}",
            "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"],
            "resource_name": "Tallystick",
            "scopes_supported": ["memory"],
        }


async def test_behind_a_path_the_metadata_stands_where_clients_look_for_it() -> None:
    """RFC 9728 3.1: the well-known part comes first, the resource's own path after it."""
    async with Issuer().client(public_url=f"{HERE}/team/") as http:
        document = (await http.get("/.well-known/oauth-protected-resource/team/mcp")).json()
    assert document["resource"] == f"{HERE}/team/mcp"


async def test_only_the_configured_audience_counts_once_there_is_one() -> None:
    issuer = Issuer()
    assert (await ask(issuer, issuer.token(issuer.claims(aud="tallystick")), audience=["tallystick"]))[0] == 200
    assert (await ask(issuer, issuer.token(), audience=["tallystick"]))[0] == 401


# -- remembering


async def test_a_token_that_was_checked_is_remembered_for_a_while() -> None:
    issuer = Issuer()
    token = issuer.token(issuer.claims(exp=NOW + 3600))
    async with issuer.client(jwks_seconds=1) as http:
        for _ in range(3):
            assert (await http.post(WHOAMI, json={}, headers=bearer(token))).status_code == 200
        assert issuer.times_asked("/jwks") == 1
        issuer.keys = [public(rsa_key("rsa-2"))]
        issuer.now += 59
        assert (await http.post(WHOAMI, json={}, headers=bearer(token))).status_code == 200
        issuer.now += 2
        assert (await http.post(WHOAMI, json={}, headers=bearer(token))).status_code == 401


async def test_nothing_is_remembered_past_its_own_end() -> None:
    issuer = Issuer()
    token = issuer.token(issuer.claims(exp=NOW + 5))
    async with issuer.client() as http:
        assert (await http.post(WHOAMI, json={}, headers=bearer(token))).status_code == 200
        issuer.now += 16
        refused = await http.post(WHOAMI, json={}, headers=bearer(token))
    assert (refused.status_code, refused.json()["error"]) == (401, "TOKEN_EXPIRED")


async def test_what_is_remembered_is_bounded_and_holds_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert REMEMBERED_MAX < 100_000
    monkeypatch.setattr("tallystick.server.oauth.tokens.REMEMBERED_MAX", 3)
    issuer = Issuer()
    admission = issuer.admission()
    tokens = [issuer.token(issuer.claims(jti=str(number)), key=issuer.ec) for number in range(10)]
    for token in tokens:
        await admission.admit([(b"authorization", f"Bearer {token}".encode())])
    remembered = admission._tokens._remembered
    assert len(remembered) == 3
    assert not any(
        token.encode() in key or token in repr(value) for token in tokens for key, value in remembered.items()
    )


# -- setting up

IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "an issuer without TLS": ({"issuers": ["http://issuer.example"]}, "ISSUER_INVALID"),
    "an issuer with a query": ({"issuers": ["https://issuer.example?a=1"]}, "ISSUER_INVALID"),
    "an issuer with a name in it": ({"issuers": ["https://a@issuer.example"]}, "ISSUER_INVALID"),
    "no URL": ({"issuers": ["issuer.example"]}, "ISSUER_INVALID"),
    "a public URL that is none": ({"public_url": "memory.example"}, "PUBLIC_URL_INVALID"),
    "a public URL with a quote": ({"public_url": 'https://memory.example/"'}, "PUBLIC_URL_INVALID"),
}


@pytest.mark.parametrize(("settings", "code"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_work_is_refused_at_the_start(settings: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        build_admission(**{"issuers": [ISSUER], "public_url": HERE, **settings})
    assert refusal.value.code == code


def test_the_public_address_is_the_one_listened_on_if_clients_can_call_that() -> None:
    assert public_address("", host="127.0.0.1", port=8765, tls=False) == "http://127.0.0.1:8765"
    assert public_address("", host="::1", port=8765, tls=True) == "https://[::1]:8765"
    assert public_address(HERE, host="0.0.0.0", port=0, tls=False) == HERE
    for host, port in (("0.0.0.0", 8765), ("::", 8765), ("127.0.0.1", 0)):
        with pytest.raises(InvalidArgument) as refusal:
            public_address("", host=host, port=port, tls=True)
        assert refusal.value.code == "PUBLIC_URL_NEEDED"


def test_tokens_on_an_open_wire_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    build_admission([ISSUER], public_url="http://127.0.0.1:8765")
    assert caplog.text == ""
    build_admission([ISSUER], public_url="http://memory.example")
    assert "not https" in caplog.text


async def test_without_an_admission_everything_is_as_before() -> None:
    issuer = Issuer()
    async with issuer.client_of(http_app(offer(), hosts=["memory.example"])) as http:
        assert (await http.post(WHOAMI, json={})).json() == {"said": "remote in default"}
        assert (await http.get("/.well-known/oauth-protected-resource")).status_code == 404


def test_keys_of_the_tests_are_not_the_issuers() -> None:
    issuer = Issuer()
    assert {_STRANGER.kid, issuing.ec_key("other").kid}.isdisjoint(key["kid"] for key in issuer.keys)

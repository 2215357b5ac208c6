"""A team on one server: tokens of an issuer, roles, two tenants, and an audit log that proves itself."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2

from tallystick.audit import Decided, Event
from tallystick.audit.proof import events
from tallystick.policy.embedded import Embedded
from tallystick.policy.replay import replay
from tests.command_line import CommandLine
from tests.mcp_client import serving_http
from tests.nats_cluster import free_ports
from tests.promises import promise
from tests.server.issuing import bearer, forged, public, rsa_key

KEY = rsa_key("team")
AUDIENCE = "team-memory"
EXPIRED = 1_609_459_200


class Team:
    """Everybody who has a token, at one server."""

    def __init__(self, http: httpx2.AsyncClient, issuer: str) -> None:
        self._http = http
        self._issuer = issuer

    async def call(self, who: str, tool: str, /, **arguments: Any) -> tuple[int, dict[str, Any]]:
        """`who` is actor/role@tenant."""
        return await self.ask(bearer(self.token(who)), tool, **arguments)

    async def ask(self, headers: dict[str, str], tool: str, /, **arguments: Any) -> tuple[int, dict[str, Any]]:
        answer = await self._http.post(f"/v1/tools/{tool}", json=arguments, headers=headers)
        return answer.status_code, answer.json()

    def token(self, who: str, **changes: Any) -> str:
        person, _, tenant = who.partition("@")
        actor, _, role = person.partition("/")
        now = int(time.time())
        claims = {"iss": self._issuer, "sub": actor, "aud": AUDIENCE, "exp": now + 300, "iat": now}
        claims |= {"roles": [role], "tenant_id": tenant, **changes}
        return forged({"alg": "RS256", "kid": KEY.kid, "typ": "at+jwt"}, json.dumps(claims).encode(), KEY)


@promise("scenario 2, for real", "a team works within its roles and tenants, and the audit proves it")
async def test_a_team_works_within_its_roles_and_tenants_and_the_audit_proves_it(tmp_path: Path) -> None:
    base = tmp_path / "memory"
    with issuing() as issuer:
        base.mkdir()
        settings = {"issuers": [issuer], "audience": [AUDIENCE], "policy": "rbac"}
        base.joinpath("tallystick.toml").write_text(
            "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())
        )
        with serving_http(base, port=free_port()) as server:
            async with httpx2.AsyncClient(base_url=server.url, timeout=None) as http:
                team = Team(http, issuer)
                await allowed(team)
                await denied(team)
                await kept_out(team)
    await proven(base)


async def allowed(team: Team) -> None:
    node = {"id": "entity_789", "type": "research_plan", "attrs": {"text": "only acme knows"}}
    status, told = await team.call("planner_agent/writer@acme", "memory.write", op="UPSERT_NODE", node=node)
    assert (status, told["lamport"]) == (200, 1)
    status, told = await team.call("reader_agent/reader@acme", "memory.read", entity_id="entity_789")
    assert (status, told["entity"]["created_by"]) == (200, "planner_agent")
    status, told = await team.call("reader_agent/reader@acme", "memory.search", type="research_plan")
    assert [entity["id"] for entity in told["entities"]] == ["entity_789"]


async def denied(team: Team) -> None:
    status, told = await team.call("writer_agent/writer@acme", "memory.write", op="DELETE_NODE", node_id="entity_789")
    assert (status, told) == (
        403,
        {
            "error": "AUTHORIZATION_DENIED",
            "message": "actor 'writer_agent' cannot DELETE resource 'entity_789' (owned by 'planner_agent')",
            "policy_decision": {
                "result": False,
                "reason": "actor lacks delete permission on non-owned entities",
                "policy_version": "rbac@2",
            },
            "status": 403,
        },
    )
    node = {"id": "note", "type": "note", "attrs": {}}
    status, told = await team.call("reader_agent/reader@acme", "memory.write", op="UPSERT_NODE", node=node)
    assert (status, told["policy_decision"]["reason"]) == (403, "role lacks WRITE permission")
    status, told = await team.call(
        "writer_agent/writer@acme", "memory.write", op="UPSERT_NODE", node=node, actor="planner_agent"
    )
    assert (status, told["error"]) == (403, "AUTHORIZATION_DENIED")
    theirs = {"id": "theirs", "type": "note", "attrs": {}}
    assert (await team.call("mallory/admin@globex", "memory.write", op="UPSERT_NODE", node=theirs))[0] == 200
    status, told = await team.call("mallory/admin@globex", "memory.read", entity_id="entity_789")
    assert (status, told["policy_decision"]["reason"]) == (403, "cross-tenant access denied")
    assert not any(secret in json.dumps(told) for secret in ("planner_agent", "only acme"))
    status, told = await team.call("mallory/admin@globex", "memory.search")
    assert (status, [entity["id"] for entity in told["entities"]]) == (200, ["theirs"])
    status, told = await team.call("root/admin@acme", "memory.write", op="DELETE_NODE", node_id="entity_789")
    assert status == 200


async def kept_out(team: Team) -> None:
    status, told = await team.ask({}, "memory.search")
    assert (status, told) == (401, {"error": "MISSING_TOKEN", "message": "Authorization header required"})
    old = team.token("planner_agent/admin@acme", exp=EXPIRED)
    status, told = await team.ask(bearer(old), "memory.search")
    assert (status, told["error"]) == (401, "TOKEN_EXPIRED")
    assert told["message"] == "Access token expired at 2021-01-01T00:00:00Z"
    stranger = team.token("planner_agent/admin@acme", iss="https://elsewhere.example")
    status, told = await team.ask(bearer(stranger), "memory.search")
    assert (status, told["error"]) == (403, "UNTRUSTED_ISSUER")
    status, told = await team.call("planner_agent/admin@../acme", "memory.search")
    assert (status, told["error"]) == (401, "INVALID_TOKEN")


async def proven(base: Path) -> None:
    for tenant, expected in (("acme", [True, True, True, False, False, False, True]), ("globex", [True, False, True])):
        audit = base / "tenants" / tenant / "_system" / "audit"
        decided = [(seq, event) for seq, event in events(audit, Event) if isinstance(event, Decided)]
        assert [event.decision for _, event in decided] == expected
        replayed = replay(Embedded("rbac"), decided)
        # No policy was asked about the call in somebody else's name.
        strangers = sum(event.fault == "actor" for _, event in decided)
        assert (replayed.same, replayed.asked, strangers) == (True, len(expected) - strangers, int(tenant == "acme"))
        text = b"".join(file.read_bytes() for file in audit.glob("*.jsonl"))
        assert not any(secret in text for secret in (b"only acme", b"Bearer", b"eyJ"))
        assert (await asyncio.to_thread(CommandLine(base).run, "verify", "--tenant", tenant)).code == 0


def free_port() -> int:
    """Tokens name the server they are for, so it cannot choose its port itself."""
    (port,) = free_ports(1)
    return port


@contextmanager
def issuing() -> Iterator[str]:
    """An issuer on this machine: its metadata and its keys. Its address."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            here = f"http://{self.headers['host']}"
            told: dict[str, Any] = {
                "/.well-known/openid-configuration": {"issuer": here, "jwks_uri": f"{here}/jwks"},
                "/jwks": {"keys": [public(KEY)]},
            }
            body = json.dumps(told.get(self.path)).encode()
            self.send_response(200 if self.path in told else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

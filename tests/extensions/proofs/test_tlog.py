"""The tree over HTTP: the paths of C2SP tlog-tiles, for whom the operator says, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tallystick.extensions.proofs.routes.proofs import proof_routes
from tallystick.extensions.proofs.routes.tlog import Access, tlog_routes
from tallystick.extensions.proofs.tiles import TilesProjection
from tallystick.log import Head, head_after, tree_directory
from tallystick.log.files import FilesLog
from tallystick.server.http import http_app
from tallystick.server.oauth import principal_of
from tests.commits_by_hand import append, draft, node
from tests.promises import promise
from tests.server.issuing import Issuer, bearer
from tests.server.sample import offer

pytestmark = pytest.mark.anyio

NOTE = b"memory.example\n300\nAAAA\n\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a tree of 300, and 44 in its last tile."""
    home = tmp_path_factory.mktemp("home")
    log = FilesLog(home / "_system")
    append(log, *(draft(node(f"n{number}")) for number in range(300)))
    entries = list(log.read(Head()))
    log.close()
    TilesProjection(home).apply(entries, head_after(entries, Head()))
    (tree_directory(home) / "checkpoint").write_bytes(NOTE)
    return home


async def answered(
    home: Path, path: str, *, access: Access = "open", tenant: str | None = None
) -> tuple[int, bytes, str]:
    issuer = Issuer()
    admission = issuer.admission()
    if access == "open":
        admission.open_prefixes = ("/tlog/",)
    routes = tlog_routes(access, lambda name: tree_directory(home) if name == "acme" else None)
    app = http_app(offer(principal_of=principal_of), admission=admission, more=routes)
    headers = {} if tenant is None else bearer(issuer.token(issuer.claims(tenant_id=tenant)))
    async with issuer.client_of(app) as http:
        answer = await http.get(path, headers=headers)
        return answer.status_code, answer.content, answer.headers.get("cache-control", "")


@promise("tiles, served", "tiles and the checkpoint are read by whom the operator says")
@pytest.mark.parametrize(
    ("access", "tenant", "expected"),
    [
        ("off", None, 401),
        ("off", "acme", 404),
        ("guarded", None, 401),
        ("guarded", "globex", 404),
        ("guarded", "acme", 200),
        ("open", None, 200),
        ("open", "globex", 200),
    ],
)
async def test_it_is_read_by_whom_the_operator_says(
    home: Path, access: Access, tenant: str | None, expected: int
) -> None:
    assert (await answered(home, "/tlog/acme/checkpoint", access=access, tenant=tenant))[0] == expected


async def test_the_checkpoint_is_as_it_lies_there_and_asked_for_anew(home: Path) -> None:
    assert await answered(home, "/tlog/acme/checkpoint") == (200, NOTE, "no-cache")


@pytest.mark.parametrize(
    ("path", "size"),
    [
        ("tile/0/000", 8192),
        ("tile/0/001.p/44", 44 * 32),
        ("tile/1/000.p/1", 32),
        ("tile/entries/000", 256 * 34),
        ("tile/entries/001.p/44", 44 * 34),
        # Those of smaller trees, which gave way to wider ones.
        ("tile/0/000.p/7", 7 * 32),
        ("tile/0/001.p/12", 12 * 32),
        ("tile/entries/001.p/1", 34),
    ],
)
async def test_tiles_are_served_whole_and_as_narrow_as_asked_for(home: Path, path: str, size: int) -> None:
    status, content, cache = await answered(home, f"/tlog/acme/{path}")
    assert (status, len(content)) == (200, size)
    assert "immutable" in cache
    full = tree_directory(home) / path.split(".p/", maxsplit=1)[0]
    if full.exists():
        assert full.read_bytes().startswith(content)


@pytest.mark.parametrize(
    "path",
    [
        "acme/tile/0/001",
        "acme/tile/0/001.p/45",
        "acme/tile/0/000.p/0",
        "acme/tile/0/000.p/256",
        "acme/tile/0/000.p/999",
        "acme/tile/00/000",
        "acme/tile/0/0",
        "acme/tile/0/x000/000",
        "acme/tile/2/000",
        "acme/tile/0/%2e%2e/%2e%2e/place",
        "acme/place",
        "acme/tile",
        "acme/tile/",
        "acme/",
        "acme/..%2f..%2fhead",
        "globex/checkpoint",
        "..%2facme/checkpoint",
    ],
)
async def test_nothing_else_is_there(home: Path, path: str) -> None:
    assert (await answered(home, f"/tlog/{path}", access="guarded", tenant="acme"))[0] == 404


async def test_an_open_tree_opens_nothing_else(home: Path) -> None:
    assert (await answered(home, "/tlog"))[0] == 401
    assert (await answered(home, "/v1/openapi.json/tlog/"))[0] == 401
    assert (await answered(home, "/mcp"))[0] == 401


@promise("proof, openapi", "the document describes proofs where they are served")
async def test_the_document_describes_proofs_where_they_are_served(home: Path) -> None:
    guarded = offer(principal_of=principal_of)
    for routes in ([], proof_routes(guarded, lambda tenant: home)):
        issuer = Issuer()
        app = http_app(guarded, admission=issuer.admission(), more=routes)
        async with issuer.client_of(app) as http:
            headers = bearer(issuer.token(issuer.claims(tenant_id="acme")))
            document = (await http.get("/v1/openapi.json", headers=headers)).json()
        OpenAPIV31SpecValidator(document).validate()
        described = {path: each for path, each in document["paths"].items() if path.startswith("/v1/proof/")}
        assert sorted(described) == (["/v1/proof/entry/{named}", "/v1/proof/since/{named}"] if routes else [])
        for each in described.values():
            assert set(each["get"]["responses"]) == {"200", "400", "401", "403", "404", "409", "421", "429", "503"}
            assert list(each["get"]["responses"]["200"]["content"]) == ["text/plain"]

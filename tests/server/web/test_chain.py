"""Whether the chain was verified, in the bar of every page: only what a verification found, and since when."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import msgspec
import pytest

from tallystick.clock import to_text, wall_clock
from tallystick.extensions.web.chain import BROKEN_SECONDS, OLD_SECONDS, Chains
from tallystick.extensions.web.registry import PAGES
from tallystick.operations.last_verification import FILE_NAME, LOCK_NAME, LastVerification, last_verification, verifying
from tests.command_line import CommandLine, node
from tests.mcp_client import serving_http
from tests.server.web.pages import HTML, Pages, serving_pages
from tests.timeouts import wait_until

pytestmark = pytest.mark.anyio

DAY = 86_400_000
PLAIN = [page.path for page in PAGES if "{" not in page.path and not page.is_step]


@pytest.fixture
async def pages(tmp_path: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", segment_bytes_max=1024) as pages:
        for number in range(30):
            await pages.node(f"note-{number}", attrs={"title": "what was found out " * 10})
        yield pages


@pytest.fixture
def tally(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


def damage(system: Path) -> Path:
    """One byte in the middle of the oldest file of the log, which is written no more."""
    sealed = min((system / "log").glob("*.jsonl"))
    content = bytearray(sealed.read_bytes())
    content[len(content) // 2] ^= 1
    sealed.write_bytes(content)
    return sealed


def keep(system: Path, *, ago: int = 0, position: int = 6, problem: str | None = None) -> None:
    system.mkdir(parents=True, exist_ok=True)
    kept = LastVerification(
        position=position, record_hash="", finished=to_text(wall_clock() - ago), problem=problem, file="log/x", line=7
    )
    (system / FILE_NAME).write_bytes(msgspec.json.encode(kept))


async def test_nothing_is_called_verified_before_it_was(pages: Pages) -> None:
    assert "unverified" in await pages.html("/")
    assert (await pages.json("/"))["chain"]["status"] == "unverified"


async def test_what_was_verified_is_told_with_position_and_time(
    pages: Pages, tally: CommandLine, tmp_path: Path
) -> None:
    assert tally.main("verify").code == 0
    await pages.node("later")
    found = last_verification(tmp_path / "base/_system")
    assert found is not None
    html = await pages.html("/work")
    assert "verified to 30," in html
    assert f'datetime="{found.finished}"' in html
    chain = (await pages.json("/"))["chain"]
    assert (chain["status"], chain["position"], chain["problem"]) == ("verified", 30, None)


async def test_damage_is_on_every_page_with_file_and_line(pages: Pages, tally: CommandLine, tmp_path: Path) -> None:
    sealed = damage(tmp_path / "base/_system")
    assert tally.main("verify").code == 1
    found = last_verification(tmp_path / "base/_system")
    assert found is not None
    assert found.file == f"log/{sealed.name}"
    assert found.line is not None
    drawn = []
    for path in [*PLAIN, "/entities/note-29"]:
        answer = await pages.http.get(path, headers=HTML)
        assert sealed.name in answer.text, path
        assert f"line {found.line}" in answer.text, path
        # What has to read the damaged commit itself says so instead of the page.
        if answer.status_code == 200:
            assert '<span class="seal broken">' in answer.text, path
            assert f"The chain is broken in <code>{found.file}</code>, line {found.line}." in answer.text, path
            drawn.append(path)
    assert {"/", "/graph", "/work", "/audit", "/operations", "/entities/note-29"} <= set(drawn)
    chain = (await pages.json("/"))["chain"]
    assert (chain["status"], chain["file"], chain["line"]) == ("broken", found.file, found.line)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"position": 6, "record_hash": "", "finished": "soon"}'])
async def test_a_record_that_cannot_be_read_says_nothing(pages: Pages, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "base/_system" / FILE_NAME).write_bytes(content)
    assert (await pages.json("/"))["chain"]["status"] == "unverified"
    assert "unverified" in await pages.html("/")


async def test_a_log_that_is_shorter_than_what_was_verified_is_unverified(pages: Pages, tmp_path: Path) -> None:
    keep(tmp_path / "base/_system", position=31)
    assert (await pages.json("/"))["chain"]["status"] == "unverified"


async def test_what_is_false_is_escaped(pages: Pages, tmp_path: Path) -> None:
    keep(tmp_path / "base/_system", problem="<script>alert(1)</script>")
    html = await pages.html("/")
    assert "&lt;script&gt;alert(1)" in html
    assert "<script>alert" not in html


# -- when it is verified


class Verifying:
    """Stands for the process, and is released by the test."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, float]] = []
        self.release = asyncio.Event()

    async def __call__(self, tenant: str, seconds: float) -> None:
        self.begun.append((tenant, seconds))
        await self.release.wait()


@pytest.mark.parametrize(
    ("ago", "problem", "begun"),
    [
        (0, None, []),
        (DAY + 1000, None, [("a", OLD_SECONDS)]),
        (-DAY, None, [("a", OLD_SECONDS)]),
        (0, "false", []),
        (1000 * int(BROKEN_SECONDS) + 1000, "false", [("a", BROKEN_SECONDS)]),
    ],
    ids=["just now", "yesterday", "tomorrow", "broken just now", "broken a while ago"],
)
async def test_it_is_verified_again_when_the_last_time_is_too_long_ago(
    tmp_path: Path, ago: int, problem: str | None, begun: list[tuple[str, float]]
) -> None:
    keep(tmp_path / "_system", ago=ago, problem=problem)
    verify = Verifying()
    chains = Chains(verify)
    running = asyncio.create_task(chains.run())
    await asyncio.sleep(0)
    chains.of("a", tmp_path / "_system", 6)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert verify.begun == begun


async def test_one_memory_is_verified_at_a_time_and_none_twice_in_a_row(tmp_path: Path) -> None:
    verify = Verifying()
    chains = Chains(verify)
    chains.of("a", tmp_path / "_system", 6)
    running = asyncio.create_task(chains.run())
    await asyncio.sleep(0)
    assert verify.begun == []  # Before it runs, nothing is begun.
    for tenant in ("empty", "a", "a", "b"):
        chains.of(tenant, tmp_path / "_system", 0 if tenant == "empty" else 6)
        await asyncio.sleep(0)
    assert [tenant for tenant, _ in verify.begun] == ["a"]
    verify.release.set()
    while len(verify.begun) < 2:
        await asyncio.sleep(0)
        for tenant in ("a", "b"):
            chains.of(tenant, tmp_path / "_system", 6)
    assert [tenant for tenant, _ in verify.begun] == ["a", "b"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_server_verifies_what_somebody_looks_at(tmp_path: Path, tally: CommandLine) -> None:
    tally.write(node("a"), node("b"))
    with serving_http(tally.base) as server:

        def chain() -> dict[str, object]:
            return httpx2.get(f"{server.url}/overview.json", timeout=60).json()["chain"]  # type: ignore[no-any-return]

        httpx2.get(f"{server.url}/work", headers={"Accept": "text/html"}, timeout=60).raise_for_status()
        wait_until(lambda: chain()["status"] == "verified")
        assert chain()["position"] == 2


# -- the command


def test_each_tenant_has_its_own(tally: CommandLine) -> None:
    tally.write(node("a"))
    tally.write(node("b"), node("c"), tenant="other")
    assert tally.main("verify", "--tenant=other", "--older-than=60").code == 0
    assert last_verification(tally.base / "_system") is None
    found = last_verification(tally.base / "tenants/other/_system")
    assert found is not None
    assert (found.position, found.sound) == (2, True)


def test_a_verification_is_skipped_where_another_runs_or_was_just_done(tally: CommandLine) -> None:
    tally.write(node("a"))
    with verifying(tally.base / "_system") as is_alone:
        assert is_alone
        assert tally.main("verify", "--older-than=0", "--json").json == {"skipped": True}
        assert tally.main("verify", "--json").json["sound"] is True
        assert last_verification(tally.base / "_system") is None
    assert tally.main("verify", "--older-than=0", "--json").json["sound"] is True
    assert "skipped" in tally.main("verify", "--older-than=3600").out


def test_who_was_killed_while_verifying_leaves_what_was_found_before(tally: CommandLine) -> None:
    tally.write(node("a"))
    tally.main("verify")
    before = last_verification(tally.base / "_system")
    code = (
        "import pathlib, sys; from tallystick.operations.last_verification import verifying\n"
        "with verifying(pathlib.Path(sys.argv[1])) as alone: print(alone, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tally.base / "_system")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"True\n"
        assert tally.main("verify", "--older-than=0", "--json").json == {"skipped": True}
        other.kill()
        other.wait()
    assert last_verification(tally.base / "_system") == before
    assert tally.main("verify", "--older-than=0", "--json").json["sound"] is True


@pytest.mark.parametrize("name", [FILE_NAME, LOCK_NAME])
def test_where_nothing_can_be_kept_it_is_verified_all_the_same(tally: CommandLine, name: str) -> None:
    tally.write(node("a"))
    (tally.base / "_system" / name).mkdir()
    assert tally.main("verify", "--json").json["sound"] is True
    assert last_verification(tally.base / "_system") is None

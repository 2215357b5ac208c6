"""Extensions: the core works without any of them, with those of others, and with those that are at fault."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick import app
from tallystick.config import Settings
from tallystick.errors import InvalidArgument
from tallystick.extension import installed
from tests.mcp_client import call, clean_environ, connect
from tests.server.web.pages import serving_pages
from tests.timeouts import SECONDS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tallystick"
FILES = ["census.py", "census_command.py", "census_tools.py", "census_projection.py", "census_page.py", "census.html"]
GUIDE = ROOT / "docs" / "guides" / "write-an-extension.md"
NAMES = sorted(each.name for each in (SOURCE / "extensions").iterdir() if (each / "extension.py").exists())
ALL = "."


def tallystick(*words: object, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a process whose modules are found in `path` first."""
    environ = {**clean_environ(), "PYTHONPATH": str(path), "HOME": str(path), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "tallystick", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=SECONDS, check=False)


def test_every_folder_is_an_extension_of_its_own_name() -> None:
    assert [each.name for each in installed().extensions] == NAMES
    assert installed().faults == ()


# -- without one of ours


@pytest.fixture(params=[*NAMES, ALL])
def without(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the source in which the folder of one extension is missing, or of all."""
    path = tmp_path / "source"
    shutil.copytree(SOURCE, path / "tallystick", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(path / "tallystick" / "extensions" / request.param)
    return path


async def test_the_core_works_with_the_folder_of_an_extension_deleted(without: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    assert "serve" in tallystick("--help", path=without).stdout
    async with connect(base, "--toolsets", "all", environ={**os.environ, "PYTHONPATH": str(without)}) as client:
        node = {"id": "tea", "type": "Note", "attrs": {"text": "brewed at noon"}}
        await call(client, "memory.write", op="UPSERT_NODE", node=node)
        found = await call(client, "memory.search", query="brewed")
        assert [each["id"] for each in found["entities"]] == ["tea"]
        root = (await call(client, "graph_open", project="shop", goal="sell"))["root"]["id"]
        await call(client, "graph_plan", nodes=[{"ref": "a", "summary": "order cups", "parent_ref": root}])
        assert (await call(client, "graph_next", project="shop", claim=True))["nodes"]
        await call(client, "memory.write", op="REDACT_NODE", node_id="tea", reason="asked to")
    verified = tallystick("verify", "--base", base, path=without)
    assert verified.returncode == 0, verified.stderr
    files = [each for each in base.rglob("*") if each.is_file()]
    assert files
    assert [each.name for each in files if b"brewed" in each.read_bytes()] == []


# -- one of somebody else


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The package that the guide builds, installed beside ours."""
    path = tmp_path / "site"
    path.mkdir()
    blocks = re.findall(r"`(\w+\.(?:py|html))`.*?```(?:python|html)\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert [name for name, _ in blocks] == FILES
    for name, code in blocks:
        (path / name).write_text(code)
    register(path, "census", "census:EXTENSION")
    return path


def register(path: Path, name: str, reference: str) -> None:
    """Put a distribution with one entry point into a directory."""
    information = path / f"{name}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[tallystick.extensions]\n{name} = {reference}\n")


def test_the_extension_of_the_guide_has_a_command_and_a_check(other: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    line = '{"op": "UPSERT_NODE", "node": {"id": "a", "type": "Note", "attrs": {}}}\n'
    (tmp_path / "lines.jsonl").write_text(line)
    assert tallystick("import", tmp_path / "lines.jsonl", "--base", base, path=other).returncode == 0
    counted = tallystick("census", "--base", base, path=other)
    assert (counted.returncode, counted.stdout) == (0, "1 commits\n"), counted.stderr
    assert "census" in tallystick("--help", path=other).stdout
    assert "no backups are made" in tallystick("doctor", "--base", base, path=other).stdout


async def test_the_extension_of_the_guide_has_a_tool(other: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": str(other)}
    async with connect(tmp_path / "base", "--toolsets", "memory,census", environ=environ) as client:
        await call(client, "memory.write", op="UPSERT_NODE", node={"id": "a", "type": "Note", "attrs": {}})
        assert await call(client, "count_commits") == {"commits": 1}
    async with connect(tmp_path / "base", environ=environ) as client:
        assert "count_commits" not in {tool.name for tool in (await client.list_tools()).tools}


def test_the_projection_of_the_guide_follows_the_log(other: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    for number, name in enumerate("ab", 1):
        line = {"op": "UPSERT_NODE", "node": {"id": name, "type": "Note", "attrs": {}}}
        (tmp_path / "lines.jsonl").write_text(json.dumps(line) + "\n")
        assert tallystick("import", tmp_path / "lines.jsonl", "--base", base, path=other).returncode == 0
        done = tallystick("catch-up", "census", "--base", base, path=other)
        assert done.returncode == 0, done.stderr
        assert sum(json.loads((base / "_system" / "census.json").read_bytes())["authors"].values()) == number


async def test_the_extension_of_the_guide_has_a_page(other: Path, tmp_path: Path, with_others: None) -> None:
    async with serving_pages(tmp_path / "base") as pages:
        await pages.write("bob", "memory.write", op="UPSERT_NODE", node={"id": "a", "type": "Note", "attrs": {}})
        page = await pages.html("/census")
        assert "<h1>1 commit</h1>" in page
        assert '<a href="/census"' in page
        assert (await pages.json("/census.json"))["commits"] == 1


async def test_a_part_of_a_page_is_drawn_and_one_that_fails_is_left_out(
    tmp_path: Path, with_others: None, caplog: pytest.LogCaptureFixture
) -> None:
    site = tmp_path / "site"
    (site / "odd.py").write_text(PARTS)
    (site / "odd.html").write_text("<p>{{ view.odd }}</p>")
    register(site, "odd", "odd:EXTENSION")
    async with serving_pages(tmp_path / "base") as pages:
        assert "<p>&lt;b&gt;</p>" in await pages.html("/")
        assert (await pages.json("/overview.json"))["odd"] == "<b>"
    assert "the part 'odd:broken' of the page '/' is left out" in caplog.text


PARTS = """
import msgspec
from tallystick.extension import Extension, Part

class Odd(msgspec.Struct):
    odd: str

async def shown(visit, page):
    return Odd("<b>")

async def broken(visit, page):
    raise RuntimeError("not today")

EXTENSION = Extension(name="odd", parts=(
    Part(page="/", view="odd:broken", template="odd.html"), Part(page="/", view="odd:shown", template="odd.html"),
))
"""


@pytest.fixture
def with_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process finds the extensions of the directory 'site'."""
    site = tmp_path / "site"
    site.mkdir(exist_ok=True)
    monkeypatch.syspath_prepend(site)
    known = set(sys.modules)
    installed.cache_clear()
    yield
    installed.cache_clear()
    for name in set(sys.modules) - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(site):
            del sys.modules[name]


FAULTS = {
    "cannot be imported": ("raise RuntimeError('not today')", "not today"),
    "is not there": ("", "has no attribute 'EXTENSION'"),
    "is something else": ("EXTENSION = 7", "it is a int, not an Extension"),
    "has a name that is taken": (
        "from tallystick.extension import Extension\nEXTENSION = Extension(name='clients')",
        "there is an extension 'clients' already",
    ),
    "has a site although there is one": (
        "from tallystick.extension import Extension\nEXTENSION = Extension(name='odd', site='odd:none')",
        "the pages are drawn by the extension 'web'",
    ),
    "has a command that is taken": (
        "from tallystick.extension import Command, Extension\n"
        "EXTENSION = Extension(name='odd', commands={'init': Command('odd:none')})",
        "the command 'init' is that of the extension 'clients'",
    ),
    "has a toolset that is taken": (
        "from tallystick.extension import Extension, Vocabulary\n"
        "EXTENSION = Extension(name='odd', toolsets={'files': Vocabulary('odd:none', 'odd')})",
        "the toolset 'files' is that of the extension 'files'",
    ),
}


@pytest.mark.parametrize(("code", "reason"), FAULTS.values(), ids=FAULTS)
def test_an_extension_at_fault_is_left_out_and_named(tmp_path: Path, code: str, reason: str) -> None:
    path = tmp_path / "site"
    path.mkdir()
    (path / "odd.py").write_text(code)
    register(path, "odd", "odd:EXTENSION")
    assert "serve" in tallystick("--help", path=path).stdout
    told = tallystick("doctor", "--base", tmp_path / "base", path=path)
    assert "odd is left out" in told.stdout
    assert reason in " ".join(told.stdout.split())


async def test_a_contribution_at_fault_is_left_out_and_named(tmp_path: Path) -> None:
    path, base = tmp_path / "site", tmp_path / "base"
    path.mkdir()
    (path / "odd.py").write_text(
        "from tallystick.extension import Extension\n"
        "EXTENSION = Extension(name='odd', projections=('odd:none',), checks=('nowhere:none',),"
        " around_serving='odd:around')\n"
        "def around(context): raise RuntimeError('not today')"
    )
    register(path, "odd", "odd:EXTENSION")
    async with connect(base, environ={**os.environ, "PYTHONPATH": str(path)}) as client:
        await call(client, "memory.write", op="UPSERT_NODE", node={"id": "tea", "type": "Note", "attrs": {}})
    told = " ".join(tallystick("doctor", "--base", base, path=path).stdout.split())
    assert "projections of odd is left out: module 'odd' has no attribute 'none'" in told
    assert "checks of odd is left out: No module named 'nowhere'" in told


def test_a_command_of_the_core_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "site"
    path.mkdir()
    (path / "odd.py").write_text(
        "from tallystick.extension import Command, Extension\n"
        "EXTENSION = Extension(name='odd', commands={'where': Command('odd:none')})"
    )
    register(path, "odd", "odd:EXTENSION")
    assert str(tmp_path / "base") in tallystick("where", "--base", tmp_path / "base", path=path).stdout


async def test_a_toolset_that_cannot_be_built_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "site"
    path.mkdir()
    (path / "odd.py").write_text(
        "from tallystick.extension import Extension, Vocabulary\n"
        "EXTENSION = Extension(name='odd', toolsets={'odd': Vocabulary('odd:none', 'odd')})"
    )
    register(path, "odd", "odd:EXTENSION")
    environ = {**os.environ, "PYTHONPATH": str(path)}
    async with connect(tmp_path / "base", "--toolsets", "all", environ=environ) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert {"memory_write", "manage_container", "create_node", "str_replace"} <= names


def test_a_log_of_a_kind_that_no_extension_provides_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        app.open_log(Settings(base=tmp_path / "base", log_url="carrier-pigeon://roof"))
    assert caught.value.code == "LOG_KIND_MISSING"
    assert "pip install" in str(caught.value.hint)

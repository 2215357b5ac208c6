"""`/knowledge`: the files of the repository, what is known of them, and what is out of date."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.extensions.web.reports import kept_knowledge, known_files
from tallystick.toolsets.knowledge.freshness import Repository
from tests.server.web.acting import followed, form_of, post, send
from tests.server.web.pages import Pages, serving_pages
from tests.server.web.repositories import know, make_repository
from tests.timeouts import SECONDS

pytestmark = pytest.mark.anyio


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Git is waited for, however loaded the machine is."""
    monkeypatch.setattr(kept_knowledge, "WAITED_SECONDS", SECONDS)


@pytest.fixture
async def pages(tmp_path: Path, repository: Path) -> AsyncIterator[Pages]:
    async with serving_pages(tmp_path / "base", repo=str(repository)) as pages:
        yield pages


async def test_before_anything_is_known_it_says_how_that_begins(pages: Pages) -> None:
    assert "manage_graph" in await pages.html("/knowledge")


async def test_directories_say_of_how_many_files_something_is_known(pages: Pages) -> None:
    await know(pages, "Queue", "queued once", "src/queue.py", "src/deep/**")
    known = (await pages.json("/knowledge"))["known"]
    assert (known["files"], known["known"], known["stale"]) == (4, 2, 0)
    shown = {each["name"]: (each["files"], each["known"]) for each in known["entries"]}
    assert shown == {"src": (3, 2), "README.md": (1, 0)}
    assert "2 of 3" in await pages.html("/knowledge")


async def test_a_file_names_what_is_known_of_it(pages: Pages) -> None:
    _, atom = await know(pages, "Queue", "queued once", "src/queue.py")
    known = (await pages.json("/knowledge?path=src"))["known"]
    named = {each["name"]: [atom["id"] for atom in each["atoms"]] for each in known["entries"]}
    assert named == {"deep": [], "queue.py": [atom], "retry.py": []}


async def test_knowledge_whose_files_changed_is_stale_with_its_files(pages: Pages, repository: Path) -> None:
    _, atom = await know(pages, "Queue", "queued once", "src/queue.py")
    (repository / "src/queue.py").write_text("changed\n")
    known = (await pages.json("/knowledge?path=src"))["known"]
    assert [(each["freshness"], each["changed_files"]) for each in known["atoms"]] == [("stale", ["src/queue.py"])]
    assert known["stale"] == 1
    assert "changed since" in await pages.html(f"/knowledge?atom={atom}")


async def test_while_git_takes_long_the_page_shows_what_it_found_before(
    pages: Pages, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await know(pages, "Queue", "queued once", "src/queue.py")
    before = (await pages.json("/knowledge"))["known"]
    (repository / "src/queue.py").write_text("changed\n")
    may_go_on, compare = threading.Event(), Repository.compare

    def slowly(self: Repository, pins: Any) -> Any:
        may_go_on.wait()
        return compare(self, pins)

    monkeypatch.setattr(Repository, "compare", slowly)
    monkeypatch.setattr(kept_knowledge, "WAITED_SECONDS", 0.0)
    try:
        meanwhile = (await pages.json("/knowledge"))["known"]
    finally:
        may_go_on.set()
    assert (meanwhile["stale"], meanwhile["compared_at"]) == (0, before["compared_at"])
    while (after := (await pages.json("/knowledge"))["known"])["compared_at"] == before["compared_at"]:
        pass
    assert after["stale"] == 1


async def test_what_was_pinned_anew_is_compared_at_once(pages: Pages, repository: Path) -> None:
    _, atom = await know(pages, "Queue", "queued once", "src/queue.py")
    (repository / "src/queue.py").write_text("changed\n")
    assert (await pages.json("/knowledge"))["known"]["stale"] == 1
    again = {"operation": "update", "entityType": "atom", "id": atom, "version": 1, "pin": True}
    assert (await pages.write("ada", "manage_graph", **again))["success"]
    assert (await pages.json("/knowledge"))["known"]["stale"] == 0


async def test_a_piece_of_knowledge_is_shown_with_its_changelog(pages: Pages) -> None:
    project, atom = await know(pages, "Queue", "queued **once** <img src=x onerror=alert(1)>", "src/queue.py")
    made = await pages.write("ada", "manage_container", operation="create", containerType="task", title="t2",
                             priority="LOW", complexity=1, summary="s", projectId=project)  # fmt: skip
    await pages.write("ada", "manage_changelog", operation="append", parentType="atom", parentId=atom,
                      taskId=made["data"]["task"]["id"], summary="it is <b>parked</b> now")  # fmt: skip
    page = await pages.html(f"/knowledge?atom={atom}")
    assert "queued <strong>once</strong> &lt;img" in page
    assert "it is &lt;b&gt;parked&lt;/b&gt; now" in page


async def test_of_many_files_and_pieces_some_are_shown_at_a_time(
    pages: Pages, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ENTRIES_MAX", "ATOMS_MAX"):
        monkeypatch.setattr(known_files, name, 1)
    monkeypatch.setattr(kept_knowledge, "COMPARED_MAX", 1)
    await know(pages, "Queue", "queued once", "src/queue.py")
    await know(pages, "Retry", "thrice", "src/retry.py", project="other")
    (repository / "src/retry.py").write_text("changed\n")
    first, second = [(await pages.json(f"/knowledge?{query}"))["known"] for query in ("", "files_from=1&from=1")]
    assert [each["name"] for view in (first, second) for each in view["entries"]] == ["src", "README.md"]
    assert [(each["name"], each["freshness"]) for view in (first, second) for each in view["atoms"]] == [
        ("Queue", "fresh"),
        ("Retry", "stale"),
    ]
    assert (first["atoms_more"], second["atoms_more"], first["entries_more"], second["entries_more"]) == (1, 0, 1, 0)
    page = await pages.html("/knowledge?from=1")
    assert "2 pieces of knowledge" in page
    assert "2 to 2 of 2" in page
    await pages.html("/knowledge?from=-1", status=400)


async def test_of_several_projects_one_can_be_chosen(pages: Pages) -> None:
    first, _ = await know(pages, "Queue", "queued once", "src/queue.py")
    await know(pages, "Retry", "never", "src/retry.py", project="other")
    assert [each["name"] for each in (await pages.json("/knowledge"))["known"]["atoms"]] == ["Queue", "Retry"]
    chosen = (await pages.json(f"/knowledge?project={first}"))["known"]
    assert [each["name"] for each in chosen["atoms"]] == ["Queue"]
    assert chosen["project"]["name"] == "shop"


@pytest.mark.parametrize("path", ["../etc", "/etc", "src/../../etc"])
async def test_no_path_leads_out_of_the_repository(pages: Pages, path: str) -> None:
    await know(pages, "Queue", "queued once", "src/queue.py")
    await pages.html(f"/knowledge?path={path}", 400)


async def test_without_a_repository_what_is_known_is_shown_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    async with serving_pages(tmp_path / "base", repo=str(tmp_path / "empty")) as pages:
        await know(pages, "Queue", "queued once", "src/queue.py", pin=False)
        known = (await pages.json("/knowledge"))["known"]
        assert "no git repository" in known["gap"]
        assert [each["freshness"] for each in known["atoms"]] == ["unknown"]
        assert "not pinned" in await pages.html("/knowledge")


async def test_what_is_known_nowhere_is_not_there(pages: Pages) -> None:
    await know(pages, "Queue", "queued once", "src/queue.py")
    await pages.html("/knowledge?atom=00000000-0000-4000-8000-000000000000", 404)


# -- what people do


async def test_a_person_edits_what_is_known(pages: Pages) -> None:
    _, atom = await know(pages, "Queue", "once", "src/queue.py")
    address = f"/knowledge?atom={atom}"
    filled = {"knowledge": "Queued **once**\r\n<script>", "paths": "src/queue.py\r\n src/retry.py "}
    page = await followed(pages, await send(pages, address, "/knowledge", filled, act="edit"))
    assert "<strong>once</strong>" in page
    assert "<script>\n" not in page
    said = (await pages.json(address))["atom"]["atom"]
    assert (said["version"], said["paths"]) == (2, ["src/queue.py", "src/retry.py"])
    newest = (await pages.json(f"/entities/{atom}"))["entity"]["latest"]
    assert newest["tool"] == "manage_graph"


async def test_of_two_who_edit_one_version_the_second_is_told(pages: Pages) -> None:
    _, atom = await know(pages, "Queue", "once", "src/queue.py")
    form = form_of(await pages.html(f"/knowledge?atom={atom}"), "/knowledge", act="edit")["fields"]
    more = {"knowledge": "twice", "paths": "src/queue.py"}
    assert (await post(pages, "/knowledge", **{**form, **more, "token": form["token"]})).status_code == 200
    again = await post(pages, "/knowledge", **{**form, **more, "knowledge": "thrice", "token": form["token"]})
    assert (again.status_code, again.json()["error"]) == (409, "CONFLICT")


async def test_what_still_holds_is_pinned_and_fresh_again(pages: Pages, repository: Path) -> None:
    _, atom = await know(pages, "Queue", "once", "src/queue.py")
    (repository / "src/queue.py").write_text("changed = True\n")
    address = f"/knowledge?atom={atom}"
    assert (await pages.json(address))["atom"]["atom"]["fresh"] is False
    await followed(pages, await send(pages, address, "/knowledge", {}, act="pin"))
    assert (await pages.json(address))["atom"]["atom"]["fresh"] is True


async def test_work_is_made_of_what_is_stale_once(pages: Pages, repository: Path) -> None:
    await know(pages, "Queue", "once", "src/queue.py")
    assert "Make work of what is stale" not in await pages.html("/knowledge")
    (repository / "src/queue.py").write_text("changed = True\n")
    for made in ("1 task made", "No task was made"):
        page = await followed(pages, await send(pages, "/knowledge", "/knowledge", {}, act="reverify"))
        assert made in page
    found = await pages.json("/search?type=work/node&q=re-verify")
    assert [hit["title"] for hit in found["hits"]] == ["Re-verify knowledge: Queue"]


@pytest.mark.parametrize(
    "fields", [{}, {"act": "edit"}, {"act": "pin", "version": "x"}, {"act": "pin", "version": "1"}]
)
async def test_forms_that_no_page_has_change_nothing(pages: Pages, fields: dict[str, str]) -> None:
    assert (await post(pages, "/knowledge", **fields)).status_code in (400, 404)

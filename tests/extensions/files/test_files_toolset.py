"""The files tools: what an agent expects of a directory of notes, and nothing beyond it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Conflict, TallystickError
from tallystick.extensions.files.toolset import make_toolset
from tallystick.extensions.files.viewing import ENTRIES_MAX
from tallystick.policy import Action, Decision, Request
from tallystick.server.dispatch import prepare
from tests.extensions.files.agents import FilesAgent, working
from tests.projections.workspace import DEFINITIONS, connection, memory, text
from tests.promises import promise

NODE = "_content/nodes/n.md"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[FilesAgent]:
    with working(tmp_path) as agent:
        yield agent


@pytest.fixture
def remembering(agent: FilesAgent) -> FilesAgent:
    """With an ontology, a node and a connection."""
    agent.write(*DEFINITIONS)
    agent.write(memory("n", "Project", text("# Kitchen\nBudget: 50k\n")), memory("a", "Action"))
    agent.write(connection("c", "n", "NextAction", "a", text("why")))
    return agent


# -- plain files


def test_a_file_is_created_viewed_edited_renamed_and_deleted(agent: FilesAgent) -> None:
    assert agent.call("create", path="notes/a.md", file_text="one\ntwo\n") == {
        "ok": True,
        "path": "notes/a.md",
        "lines": 2,
    }
    assert agent.call("str_replace", path="notes/a.md", old_str="two", new_str="2\n3") == {
        "ok": True,
        "path": "notes/a.md",
        "line": 2,
        "lines": 3,
    }
    assert agent.call("insert", path="notes/a.md", insert_line=0, insert_text="zero")["line"] == 1
    assert agent.call("rename", old_path="notes/a.md", new_path="b.md") == {"ok": True, "path": "b.md"}
    assert (agent.home / "b.md").read_text() == "zero\none\n2\n3\n"
    assert agent.call("delete", path="b.md") == {"ok": True, "path": "b.md"}
    assert not (agent.home / "b.md").exists()


def test_a_file_is_viewed_with_its_line_numbers(agent: FilesAgent) -> None:
    agent.call("create", path="a", file_text="one\n\nthree")
    answer = agent.answer("view", path="a")
    assert answer.data == {
        "path": "a",
        "kind": "file",
        "content": "one\n\nthree",
        "lines": 3,
        "view_range": [1, 3],
    }
    assert answer.text == "     1\tone\n     2\t\n     3\tthree"


RANGES = {(1, 1): "1\n", (2, 3): "2\n3\n", (3, -1): "3\n4", (4, 4): "4", (2, 99): "2\n3\n4"}


@pytest.mark.parametrize("view_range", RANGES)
def test_a_range_of_lines_is_viewed(agent: FilesAgent, view_range: tuple[int, int]) -> None:
    agent.call("create", path="a", file_text="1\n2\n3\n4")
    assert agent.call("view", path="a", view_range=list(view_range))["content"] == RANGES[view_range]


@pytest.mark.parametrize("view_range", [[0, 1], [5, 6], [3, 2], [-1, 2], [2, -2]])
def test_a_range_that_is_none_is_refused(agent: FilesAgent, view_range: list[int]) -> None:
    agent.call("create", path="a", file_text="1\n2\n3\n4")
    assert agent.refusal("view", path="a", view_range=view_range)["code"] == "INVALID_LINE"


def test_an_empty_file_is_viewed(agent: FilesAgent) -> None:
    agent.call("create", path="a", file_text="")
    assert agent.call("view", path="a") == {
        "path": "a",
        "kind": "file",
        "content": "",
        "lines": 0,
        "view_range": [1, 0],
    }


def test_a_long_file_is_viewed_page_by_page(agent: FilesAgent) -> None:
    whole = "".join(f"line {number} {'x' * 200}\n" for number in range(1000))
    (agent.home / "long").write_text(whole)
    seen, start = "", 1
    while start:
        page = agent.call("view", path="long", view_range=[start, -1])
        seen += page["content"]
        start = page.get("next_line", 0)
    assert seen == whole
    assert "truncated" not in page


def test_a_directory_is_viewed_two_levels_deep_without_what_is_hidden(remembering: FilesAgent) -> None:
    agent = remembering
    for path in ("a/b/c/d", "a/x", ".secret", "a/.hidden"):
        (agent.home / path).parent.mkdir(parents=True, exist_ok=True)
        (agent.home / path).write_text("12345")
    (agent.home / "graph.db").write_text("")
    (agent.home / "tallystick.toml").write_text("")
    (agent.home / "tenants" / "other").mkdir(parents=True)
    (agent.home / "link").symlink_to("/etc")
    shown = agent.call("view")
    assert [(entry["path"], entry["kind"]) for entry in shown["entries"]] == [
        ("_content", "directory"),
        ("_content/connections", "directory"),
        ("_content/nodes", "directory"),
        ("_system", "directory"),
        ("_system/ontology.yaml", "file"),
        ("_system/registry.json", "file"),
        ("a", "directory"),
        ("a/b", "directory"),
        ("a/x", "file"),
    ]
    assert agent.call("view", path="a/b")["entries"][1] == {"path": "a/b/c/d", "kind": "file", "bytes": 5}


def test_a_large_directory_says_that_there_is_more(agent: FilesAgent) -> None:
    (agent.home / "d").mkdir()
    for number in range(ENTRIES_MAX + 1):
        (agent.home / "d" / f"{number}").touch()
    shown = agent.call("view", path="d")
    assert (len(shown["entries"]), shown["truncated"]) == (ENTRIES_MAX, True)


INSERTS = {
    (0, "new"): "new\none\ntwo",
    (1, "new\n"): "one\nnew\ntwo",
    (2, "new"): "one\ntwo\nnew\n",
    (1, "a\nb"): "one\na\nb\ntwo",
    (1, ""): "one\ntwo",
}


@pytest.mark.parametrize("case", INSERTS)
def test_text_is_inserted_after_a_line(agent: FilesAgent, case: tuple[int, str]) -> None:
    agent.call("create", path="a", file_text="one\ntwo")
    agent.call("insert", path="a", insert_line=case[0], insert_text=case[1])
    assert (agent.home / "a").read_text() == INSERTS[case]


def test_only_a_line_feed_ends_a_line(agent: FilesAgent) -> None:
    data = "one\r\ntwo\u2028still two\x0bstill two\n"
    (agent.home / "a").write_bytes(data.encode())
    assert agent.call("view", path="a")["lines"] == 2
    agent.call("str_replace", path="a", old_str="still two\x0b", new_str="")
    assert (agent.home / "a").read_bytes() == "one\r\ntwo\u2028still two\n".encode()


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "what is not there": ("view", {"path": "b"}, "FILE_NOT_FOUND"),
    "what is not there either": ("str_replace", {"path": "b/c", "old_str": "x"}, "FILE_NOT_FOUND"),
    "to delete what is not there": ("delete", {"path": "b"}, "FILE_NOT_FOUND"),
    "to rename what is not there": ("rename", {"old_path": "b", "new_path": "c"}, "FILE_NOT_FOUND"),
    "to overwrite unasked": ("create", {"path": "a", "file_text": ""}, "FILE_EXISTS"),
    "to rename onto another": ("rename", {"old_path": "d", "new_path": "a"}, "FILE_EXISTS"),
    "a file below a file": ("create", {"path": "a/b", "file_text": ""}, "PATH_NOT_ALLOWED"),
    "a directory into itself": ("rename", {"old_path": "d", "new_path": "d/e/f"}, "FILE_CREATION_FAILED"),
    "text that does not occur": ("str_replace", {"path": "a", "old_str": "Three"}, "NO_MATCH"),
    "text that occurs twice": ("str_replace", {"path": "a", "old_str": "o"}, "SEVERAL_MATCHES"),
    "text that overlaps itself": ("str_replace", {"path": "a", "old_str": "ee"}, "SEVERAL_MATCHES"),
    "no text at all": ("str_replace", {"path": "a", "old_str": ""}, "INVALID_ARGUMENT"),
    "a line past the end": ("insert", {"path": "a", "insert_line": 4, "insert_text": "x"}, "INVALID_LINE"),
    "a line before the start": ("insert", {"path": "a", "insert_line": -1, "insert_text": "x"}, "INVALID_ARGUMENT"),
    "an unknown argument": ("view", {"path": "a", "mode": "x"}, "INVALID_ARGUMENT"),
    "to edit a directory": ("insert", {"path": "d", "insert_line": 0, "insert_text": "x"}, "NOT_A_FILE"),
    "a range of a directory": ("view", {"path": "d", "view_range": [1, 2]}, "INVALID_ARGUMENT"),
    "to view what is not text": ("view", {"path": "d/binary"}, "NOT_TEXT"),
    "to edit what is not text": ("insert", {"path": "d/latin", "insert_line": 0, "insert_text": "x"}, "NOT_TEXT"),
    "to write what is not text": ("create", {"path": "b", "file_text": "a\0b"}, "NOT_TEXT"),
    "a file that is too large": ("create", {"path": "b", "file_text": "x" * 10_001}, "FILE_TOO_LARGE"),
    "to make a file too large": (
        "insert",
        {"path": "a", "insert_line": 0, "insert_text": "x" * 10_000},
        "FILE_TOO_LARGE",
    ),
    "to delete the base": ("delete", {"path": ""}, "PATH_RESERVED"),
    "to delete the base by another name": ("delete", {"path": "./."}, "PATH_RESERVED"),
    "to follow a link": ("view", {"path": "link/passwd"}, "PATH_NOT_ALLOWED"),
    "to read through a link": ("view", {"path": "passwd"}, "PATH_NOT_ALLOWED"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_refused(agent: FilesAgent, case: str) -> None:
    (agent.home / "d").mkdir()
    (agent.home / "a").write_text("one\ntwo\nthreee")
    (agent.home / "d" / "binary").write_bytes(b"\x89PNG\0\0")
    (agent.home / "d" / "latin").write_bytes(b"caf\xe9")
    (agent.home / "link").symlink_to("/etc")
    (agent.home / "passwd").symlink_to("/etc/passwd")
    tool, arguments, code = REFUSED[case]
    assert agent.refusal(tool, **arguments)["code"] == code


def test_a_refusal_says_where_the_text_occurs(agent: FilesAgent) -> None:
    agent.call("create", path="a", file_text="x\ny\nx\n")
    assert agent.refusal("str_replace", path="a", old_str="x")["details"]["lines"] == [1, 3]


OUT_OF_REACH = [
    "/etc/passwd",
    "../outside",
    "a/../../outside",
    "a\0",
    "_system",
    "_system/head",
    "_system/log/00000000000000000001.jsonl",
    "_system/new",
    "_SYSTEM/head",
    "_ſystem/head",
    "_content",
    "_content/blobs/x",
    "_content/nodes",
    "_content/other",
    "_content/nodes/a/b",
    "_CONTENT/nodes/x.md",
    "tenants/other/notes.md",
    "Tenants/other",
    "ten\u200dants/x",
    "graph.db",
    "graph.db-wal",
    "GRAPH.DB",
    "elsewhere/my.db",
    "tallystick.toml",
    "graph.config.yaml",
    ".git/config",
    "_other/x",
    "notes/.ab.new",
]


@pytest.mark.parametrize("path", OUT_OF_REACH)
def test_nothing_of_the_store_can_be_written(remembering: FilesAgent, path: str) -> None:
    (remembering.home / "mine").write_text("mine")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("create", {"path": path, "file_text": "x", "overwrite": True}),
        ("str_replace", {"path": path, "old_str": "a", "new_str": "b"}),
        ("insert", {"path": path, "insert_line": 0, "insert_text": "x"}),
        ("delete", {"path": path}),
        ("rename", {"old_path": path, "new_path": "stolen"}),
        ("rename", {"old_path": "mine", "new_path": path}),
    ]
    for tool, arguments in calls:
        assert remembering.refusal(tool, **arguments)["code"] in ("PATH_RESERVED", "PATH_NOT_ALLOWED")


HIDDEN = [path for path in OUT_OF_REACH if path not in ("_system", "_content", "_content/nodes")]


@pytest.mark.parametrize("path", HIDDEN)
def test_nothing_of_the_store_can_be_read_but_its_views(remembering: FilesAgent, path: str) -> None:
    assert remembering.refusal("view", path=path)["code"] in ("PATH_RESERVED", "PATH_NOT_ALLOWED")


def test_the_views_can_be_read(remembering: FilesAgent) -> None:
    assert "Project" in remembering.call("view", path="_system/ontology.yaml")["content"]
    assert '"n"' in remembering.call("view", path="_system/registry.json")["content"]
    assert remembering.call("view", path=NODE)["content"] == "# Kitchen\nBudget: 50k\n"


def test_a_tenant_has_a_base_of_its_own(agent: FilesAgent) -> None:
    agent.call("create", path="a", file_text="default")
    agent.principal = type(agent.principal)(actor="x", tenant="acme")
    agent.call("create", path="a", file_text="acme")
    assert agent.call("view", path="a")["content"] == "acme"
    assert (agent.home / "tenants" / "acme" / "a").read_text() == "acme"


def test_edits_of_one_file_do_not_overwrite_each_other(agent: FilesAgent) -> None:
    agent.call("create", path="a", file_text="".join(f"<{number}>\n" for number in range(20)))

    async def all_at_once() -> None:
        tool = agent.tools["str_replace"]
        await asyncio.gather(
            *(
                tool.call(
                    agent.store,
                    agent.principal,
                    prepare(tool, {"path": "a", "old_str": f"<{number}>", "new_str": f"[{number}]"}),
                )
                for number in range(20)
            )
        )

    agent.run(all_at_once())
    assert (agent.home / "a").read_text() == "".join(f"[{number}]\n" for number in range(20))


def test_a_directory_goes_with_everything_in_it_but_not_with_what_it_links_to(agent: FilesAgent) -> None:
    kept = agent.home.parent / "kept"
    kept.mkdir(exist_ok=True)
    (kept / "file").write_text("kept")
    agent.call("create", path="d/e/f", file_text="x")
    (agent.home / "d" / "link").symlink_to(kept)
    agent.call("delete", path="d")
    assert not (agent.home / "d").exists()
    assert (kept / "file").read_text() == "kept"


def test_a_pipe_is_not_waited_for(agent: FilesAgent) -> None:
    os.mkfifo(agent.home / "pipe")
    assert agent.refusal("view", path="pipe")["code"] == "NOT_A_FILE"


# -- contents


def test_to_edit_the_file_of_a_node_is_to_commit_its_content(remembering: FilesAgent) -> None:
    agent = remembering
    assert agent.call("str_replace", path=NODE, old_str="50k", new_str="40k")["line"] == 2
    agent.call("insert", path=NODE, insert_line=2, insert_text="Q1")
    assert agent.history("n") == [
        ("agent_alpha", "test", "# Kitchen\nBudget: 50k\n"),
        ("agent_alpha", "str_replace", "# Kitchen\nBudget: 40k\n"),
        ("agent_alpha", "insert", "# Kitchen\nBudget: 40k\nQ1\n"),
    ]
    assert (agent.home / NODE).read_text() == "# Kitchen\nBudget: 40k\nQ1\n"
    assert agent.views.problems() == []


def test_to_edit_the_file_of_a_connection_too(remembering: FilesAgent) -> None:
    remembering.call("str_replace", path="_content/connections/c.md", old_str="why", new_str="because")
    assert remembering.history("c")[-1] == ("agent_alpha", "str_replace", "because")
    assert (remembering.home / "_content/connections/c.md").read_text() == "because"


def test_an_edit_by_hand_is_adopted_before_a_tool_changes_it(remembering: FilesAgent) -> None:
    (remembering.home / NODE).write_text("by hand\n")
    remembering.call("insert", path=NODE, insert_line=1, insert_text="by tool")
    assert remembering.history("n")[1:] == [
        ("file-edit", "file-edit", "by hand\n"),
        ("agent_alpha", "insert", "by hand\nby tool\n"),
    ]


def test_an_edit_by_hand_is_adopted_with_its_reason(remembering: FilesAgent) -> None:
    (remembering.home / NODE).write_text("x" * 300_000)
    assert remembering.run(remembering.edits.adopt_all()) == 1
    node = remembering.run(
        remembering.store.read(remembering.principal, Action.READ, lambda state, read_filter: state.node("n"))
    )
    assert node is not None
    assert node.content is not None
    assert (node.provenance.updated_by, node.content["bytes"]) == ("file-edit", 300_000)
    assert list((remembering.home / "_content/nodes").iterdir()) == [remembering.home / NODE]


def test_an_edit_of_what_was_changed_elsewhere_is_refused_and_kept(remembering: FilesAgent) -> None:
    """Found, but not adopted yet, when another process commits."""
    agent = remembering
    (agent.home / NODE).write_text("by hand")
    with agent.follower.at_head():
        (edit,) = agent.views.edits()
    agent.write(memory("n", "Project", text("by another")))
    with pytest.raises(Conflict):
        agent.run(agent._adopt(edit))
    assert (agent.home / NODE).read_text() == "by another"
    kept = [path for path in (agent.home / NODE).parent.iterdir() if ".edited-" in path.name]
    assert [path.read_text() for path in kept] == ["by hand"]


def test_an_edit_that_two_processes_found_is_committed_once(remembering: FilesAgent) -> None:
    (remembering.home / NODE).write_text("by hand")
    with remembering.follower.at_head():
        (edit,) = remembering.views.edits()
    for _ in range(2):
        remembering.run(remembering._adopt(edit))
    assert [version[2] for version in remembering.history("n")][1:] == ["by hand"]


CONTENT_REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "to create one": ("create", {"path": "_content/nodes/new.md", "file_text": ""}, "PATH_RESERVED"),
    "to overwrite one": ("create", {"path": NODE, "file_text": "", "overwrite": True}, "PATH_RESERVED"),
    "to delete one": ("delete", {"path": NODE}, "PATH_RESERVED"),
    "to rename one": ("rename", {"old_path": NODE, "new_path": "x"}, "PATH_RESERVED"),
    "one that is not there": ("str_replace", {"path": "_content/nodes/x.md", "old_str": "x"}, "FILE_NOT_FOUND"),
    "text that does not occur": ("str_replace", {"path": NODE, "old_str": "zzz"}, "NO_MATCH"),
    "one that is no content": ("insert", {"path": f"{NODE}~", "insert_line": 0, "insert_text": ""}, "FILE_NOT_FOUND"),
    "one that is binary": (
        "insert",
        {"path": "_content/nodes/b.png", "insert_line": 0, "insert_text": "x"},
        "NOT_TEXT",
    ),
}


@pytest.mark.parametrize("case", CONTENT_REFUSED)
def test_a_content_is_not_changed_in_any_other_way(remembering: FilesAgent, case: str) -> None:
    agent = remembering
    agent.write(memory("b", "Project", agent.contents.prepare("nodes", "b", "png", "base64", b"\x89PNG").content))
    (agent.home / f"{NODE}~").write_text("backup")
    tool, arguments, code = CONTENT_REFUSED[case]
    assert agent.refusal(tool, **arguments)["code"] == code


# -- the gate


class OnlyReading:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []

    def decide(self, request: Request) -> Decision:
        self.asked.append((request.action, request.resource))
        return Decision(request.action is Action.READ, "reading only", "test")


def test_every_call_passes_the_gate(tmp_path: Path) -> None:
    policy = OnlyReading()
    (tmp_path / "a").write_text("a")
    with working(tmp_path, policy) as agent:
        agent.call("view", path="a")
        for tool, arguments in (
            ("create", {"path": "b", "file_text": ""}),
            ("str_replace", {"path": "a", "old_str": "a"}),
            ("insert", {"path": "a", "insert_line": 0, "insert_text": "x"}),
            ("delete", {"path": "a"}),
            ("rename", {"old_path": "a", "new_path": "b"}),
        ):
            assert agent.refusal(tool, **arguments)["code"] == "AUTHORIZATION_DENIED"
    assert policy.asked == [
        ("READ", "file:a"),
        ("WRITE", "file:b"),
        ("WRITE", "file:a"),
        ("WRITE", "file:a"),
        ("DELETE", "file:a"),
        ("DELETE", "file:a"),
    ]


def test_a_content_file_is_guarded_as_its_node_is(tmp_path: Path) -> None:
    class Private:
        def decide(self, request: Request) -> Decision:
            return Decision(request.resource != "n", "private", "test")

    with working(tmp_path, Private()) as agent:
        agent.write(*DEFINITIONS)
        agent.write(memory("n", "Project", text("secret")))
        assert agent.refusal("view", path=NODE)["code"] == "AUTHORIZATION_DENIED"
        assert agent.refusal("insert", path=NODE, insert_line=0, insert_text="x")["code"] == "AUTHORIZATION_DENIED"


def test_the_toolset_can_be_shown_without_a_home() -> None:
    assert [tool.name for tool in make_toolset(None).tools] == [
        "view",
        "create",
        "str_replace",
        "insert",
        "delete",
        "rename",
    ]


class Private:
    """`n` and plain files of that name are nobody's to read."""

    def decide(self, request: Request) -> Decision:
        hidden = request.action is Action.READ and request.resource in ("n", "file:d/n")
        return Decision(not hidden, "private", "test")


def test_a_directory_is_as_long_as_what_may_be_read_of_it(tmp_path: Path) -> None:
    with working(tmp_path, Private()) as agent:
        (agent.home / "d").mkdir()
        for name in ("n", *map(str, range(ENTRIES_MAX))):
            (agent.home / "d" / name).touch()
        shown = agent.call("view", path="d")
        assert (len(shown["entries"]), "truncated" in shown) == (ENTRIES_MAX, False)
        assert "d/n" not in [entry["path"] for entry in shown["entries"]]
        (agent.home / "d" / "more").touch()
        assert agent.call("view", path="d")["truncated"] is True


def test_the_notes_of_a_connection_are_for_those_who_may_read_both_its_ends(tmp_path: Path) -> None:
    with working(tmp_path, Private()) as agent:
        agent.write(*DEFINITIONS)
        agent.write(memory("n", "Project", text("secret")), memory("a", "Action", text("open")), memory("b", "Action"))
        agent.write(connection("c", "n", "NextAction", "a", text("why")))
        assert agent.refusal("view", path="_content/connections/c.md")["code"] == "FILE_NOT_FOUND"
        assert agent.call("view", path="_content/connections")["entries"] == []
        assert [entry["path"] for entry in agent.call("view", path="_content/nodes")["entries"]] == [
            "_content/nodes/a.md"
        ]


def test_the_registry_holds_what_may_be_read_in_the_form_it_has(tmp_path: Path) -> None:
    with working(tmp_path, Private()) as agent:
        agent.write(*DEFINITIONS)
        agent.write(memory("a", "Action"))
        path, file = "_system/registry.json", tmp_path / "_system" / "registry.json"
        assert agent.call("view", path=path)["content"] == file.read_text()
        before = file.read_text()
        agent.write(memory("n", "Project"))
        agent.write(connection("c", "n", "NextAction", "a"))
        assert '"n"' in file.read_text()
        assert agent.call("view", path=path)["content"] == before
        file.write_text("mine now")
        assert agent.refusal("view", path=path)["code"] == "NOT_TEXT"


# -- directories


class Keeping:
    """May do anything but what it is told not to."""

    def __init__(self, *refused: tuple[Action, str], hidden: tuple[str, ...] = ()) -> None:
        self.refused = set(refused) | {(Action.READ, each) for each in hidden}
        self.asked: list[tuple[str, str | None]] = []

    def decide(self, request: Request) -> Decision:
        self.asked.append((request.action, request.resource))
        return Decision((request.action, request.resource) not in self.refused, "kept", "test")


def filled(home: Path) -> None:
    for name in ("d/a", "d/e/b", "d/e/.hidden"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x")
    (home / "d" / "link").symlink_to("a")
    (home / "d" / "empty").mkdir()


BELOW = ["a", "e", "e/.hidden", "e/b", "empty", "link"]


@promise("files, directories", "a directory is renamed or deleted if the policy agrees to everything in it")
def test_to_delete_or_rename_a_directory_is_to_ask_about_everything_in_it(tmp_path: Path) -> None:
    filled(tmp_path)
    policy = Keeping()
    with working(tmp_path, policy) as agent:
        agent.call("rename", old_path="d", new_path="n/d")
        below = [("DELETE", f"file:d/{each}") for each in BELOW]
        assert policy.asked[:7] == [("DELETE", "file:d"), *below]
        assert policy.asked[7:] == [("WRITE", "file:n/d"), *(("WRITE", f"file:n/d/{each}") for each in BELOW)]
        policy.asked.clear()
        agent.call("delete", path="n/d")
        assert policy.asked == [("DELETE", "file:n/d"), *(("DELETE", f"file:n/d/{each}") for each in BELOW)]


@pytest.mark.parametrize("each", BELOW)
@pytest.mark.parametrize(
    ("tool", "arguments", "action", "at"),
    [
        ("delete", {"path": "d"}, Action.DELETE, "d"),
        ("rename", {"old_path": "d", "new_path": "n"}, Action.DELETE, "d"),
        ("rename", {"old_path": "d", "new_path": "n"}, Action.WRITE, "n"),
    ],
)
def test_a_directory_stays_if_one_thing_in_it_must(
    tmp_path: Path, tool: str, arguments: dict[str, Any], action: Action, at: str, each: str
) -> None:
    filled(tmp_path)
    name = f"file:{at}/{each}"
    with working(tmp_path, Keeping((action, name))) as agent:
        told = agent.refusal(tool, **arguments)
        assert (told["code"], name in told["message"]) == ("AUTHORIZATION_DENIED", True)
    with working(tmp_path, Keeping((action, name), hidden=(name,))) as agent:
        told = agent.refusal(tool, **arguments)
        assert (told["code"], name in str(told)) == ("AUTHORIZATION_DENIED", False)


def test_what_comes_into_a_directory_while_the_policy_is_asked_is_asked_about_too(tmp_path: Path) -> None:
    filled(tmp_path)

    class Slow(Keeping):
        def decide(self, request: Request) -> Decision:
            if request.resource == "file:d/a":
                (tmp_path / "d" / "late").write_text("x")
            return super().decide(request)

    with working(tmp_path, Slow((Action.DELETE, "file:d/late"))) as agent:
        with pytest.raises(TallystickError, match="late"):
            agent.call("delete", path="d")
        assert (tmp_path / "d" / "a").exists()


def test_a_directory_with_something_of_the_store_in_it_stays(agent: FilesAgent) -> None:
    filled(agent.home)
    (agent.home / "d" / "e" / ".0123.new").write_text("left by a crash")
    (agent.home / "d" / "e" / "mirror.db").write_text("x")
    for tool, arguments in (("delete", {"path": "d"}), ("rename", {"old_path": "d", "new_path": "n"})):
        assert agent.refusal(tool, **arguments)["code"] == "PATH_RESERVED"
    (agent.home / "d" / "e" / "mirror.db").unlink()
    agent.call("delete", path="d")
    assert not (agent.home / "d").exists()


def test_a_plain_file_is_not_judged_by_a_node_that_is_called_like_it(tmp_path: Path) -> None:
    seen: list[str | None] = []

    class Watching:
        def decide(self, request: Request) -> Decision:
            if request.resource == "file:a":
                seen.append(request.resource_owner)
            return Decision(True, "all", "test")

    (tmp_path / "a").write_text("a")
    with working(tmp_path, Watching()) as agent:
        agent.write(memory("file:a", "note"))
        seen.clear()
        agent.call("view", path="a")
        agent.call("view", path=".")
        agent.call("delete", path="a")
    assert seen == [None, None, None]

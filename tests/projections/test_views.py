"""The views: what a person finds on disk."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tallystick.commits import Operation, Verb, chain, mask
from tallystick.extensions.ontology import views
from tallystick.log import Head
from tallystick.projections.sandboxed_files import SandboxedFiles
from tests.conftest import mounted_small
from tests.projections.workspace import (
    DEFINITIONS,
    Workspace,
    connection,
    cut,
    define_connection,
    define_type,
    gone,
    memory,
    text,
)
from tests.promises import promise

ROOT = Path(__file__).parents[2]
PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path)
    made.write(*DEFINITIONS)
    yield made
    made.close()


# -- what they look like


def test_a_node_stands_in_the_registry_with_its_content_beside_it(workspace: Workspace) -> None:
    workspace.write(memory("mem_k4j9x2_p8n3q1", "Project", text("# Kitchen\n"), status="active"))
    assert workspace.registry() == {
        "nodes": {
            "mem_k4j9x2_p8n3q1": {
                "id": "mem_k4j9x2_p8n3q1",
                "type": "Project",
                "created": "2023-11-14T22:13:22.000Z",
                "modified": "2023-11-14T22:13:22.000Z",
                "properties": {"status": "active"},
                "content": {
                    "path": "_content/nodes/mem_k4j9x2_p8n3q1.md",
                    "format": "markdown",
                    "encoding": "utf-8",
                },
            }
        },
        "connections": {},
    }
    assert workspace.read("_content/nodes/mem_k4j9x2_p8n3q1.md") == "# Kitchen\n"


def test_a_connection_stands_in_the_registry_and_its_content_is_always_markdown(workspace: Workspace) -> None:
    workspace.write(memory("p"), memory("a", "Action"))
    workspace.write(connection("conn_1", "p", "NextAction", "a", text("soon", "html"), priority="high"))
    assert workspace.registry()["connections"] == {
        "conn_1": {
            "id": "conn_1",
            "type": "NextAction",
            "from": "p",
            "to": "a",
            "created": "2023-11-14T22:13:23.000Z",
            "modified": "2023-11-14T22:13:23.000Z",
            "properties": {"priority": "high"},
            "content": {"path": "_content/connections/conn_1.md", "format": "html", "encoding": "utf-8"},
        }
    }
    assert workspace.read("_content/connections/conn_1.md") == "soon"


def test_the_ontology_keeps_its_order_and_leaves_out_what_is_empty(workspace: Workspace) -> None:
    workspace.write(define_type("Person"), define_connection("WaitingFor", "Action", "Person", ["since", "follow up"]))
    assert workspace.read("_system/ontology.yaml") == (
        "node_types:\n  - Project\n  - Action\n  - Person\n"
        "\n"
        "connection_types:\n"
        "  - name: NextAction\n    from_types:\n      - Project\n    to_types:\n      - Action\n"
        "\n"
        "  - name: WaitingFor\n    from_types:\n      - Action\n    to_types:\n      - Person\n"
        '    required_properties:\n      - since\n      - "follow up"\n'
    )


@pytest.mark.parametrize("name", ["true", "No", "a: b", "- x", "#", "1", "é", 'say "hi"', "a\\b"])
def test_names_that_yaml_would_misread_are_quoted(workspace: Workspace, name: str) -> None:
    workspace.write(define_type(name))
    shown = workspace.read("_system/ontology.yaml").splitlines()[3].removeprefix("  - ")
    assert json.loads(shown) == name


def test_nothing_is_shown_of_types_the_ontology_does_not_name(workspace: Workspace) -> None:
    before = workspace.files()
    workspace.write(
        memory("w", "work/node", text("hidden")), memory("n", "note"), connection(None, "w", "NextAction", "n")
    )
    assert workspace.files() == before


def test_a_store_without_an_ontology_has_no_views(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.write(memory("n", "note"))
    assert workspace.files() == {}
    workspace.close()


FILE_NAMES = {
    "mem_a-B9": "mem_a-B9",
    "../../etc/passwd": "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd",
    "a b": "a%20b",
    "ünï": "%C3%BCn%C3%AF",
    ".hidden": "%2Ehidden",
    "%2E": "%252E",
    "nul\0": "nul%00",
}


@pytest.mark.parametrize("node_id", FILE_NAMES)
def test_what_a_client_says_never_becomes_a_path(workspace: Workspace, node_id: str) -> None:
    workspace.write(memory(node_id, "Project", text("x", "../../sh")))
    assert workspace.registry()["nodes"][node_id]["content"]["path"] == f"_content/nodes/{FILE_NAMES[node_id]}.txt"
    assert workspace.read(f"_content/nodes/{FILE_NAMES[node_id]}.txt") == "x"


def test_long_ids_that_begin_alike_have_files_of_their_own(workspace: Workspace) -> None:
    one, two = "é" * 255 + "1", "é" * 255 + "2"
    workspace.write(memory(one, "Project", text("one")), memory(two, "Project", text("two")))
    paths = [workspace.registry()["nodes"][each]["content"]["path"] for each in (one, two)]
    assert [workspace.read(path) for path in paths] == ["one", "two"]


# -- changes


def test_ids_that_differ_in_their_capitals_have_files_of_their_own_on_any_file_system(workspace: Workspace) -> None:
    ids = ["Ada", "ada", "ADA", "aDA"]
    for each in ids:
        workspace.write(memory(each, "Project", text(f"of {each}")))
    paths = {each: workspace.registry()["nodes"][each]["content"]["path"] for each in ids}
    assert paths["Ada"] == "_content/nodes/Ada.md"
    assert len({path.casefold() for path in paths.values()}) == len(ids)
    assert [workspace.read(paths[each]) for each in ids] == [f"of {each}" for each in ids]


def test_a_name_that_is_free_again_is_taken(workspace: Workspace) -> None:
    workspace.write(memory("Ada", "Project", text("first")), memory("ada", "Project", text("second")))
    workspace.write(gone("Ada"), memory("ada", "Project", text("third")))
    assert [name for name in workspace.files() if name.startswith("_content")] == ["_content/nodes/ada.md"]
    live = workspace.files()
    workspace.path("_system/views.db").unlink()
    workspace.restart()
    assert workspace.files() == live


def test_a_new_format_alone_moves_nothing_and_new_content_takes_the_new_ending(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("one")))
    workspace.write(memory("n", "Project", text("one", "json")))
    assert workspace.registry()["nodes"]["n"]["content"] == {
        "path": "_content/nodes/n.md",
        "format": "json",
        "encoding": "utf-8",
    }
    workspace.write(memory("n", "Project", text("two", "json")))
    assert workspace.registry()["nodes"]["n"]["content"]["path"] == "_content/nodes/n.json"
    assert [path.name for path in workspace.path("_content/nodes").iterdir()] == ["n.json"]


def test_an_update_keeps_when_it_was_created(workspace: Workspace) -> None:
    workspace.write(memory("n"))
    workspace.write(memory("n", "Project", done=True))
    shown = workspace.registry()["nodes"]["n"]
    assert (shown["created"], shown["modified"]) == ("2023-11-14T22:13:22.000Z", "2023-11-14T22:13:23.000Z")


def test_deleting_takes_the_files_of_the_node_and_of_its_connections(workspace: Workspace) -> None:
    workspace.write(memory("p", "Project", text("p")), memory("a", "Action", text("a")))
    workspace.write(connection("c", "p", "NextAction", "a", text("c")))
    workspace.write(cut("c", "p", "NextAction", "a"), gone("p"))
    assert list(workspace.registry()["nodes"]) == ["a"]
    assert workspace.registry()["connections"] == {}
    assert [name for name in workspace.files() if name.startswith("_content")] == ["_content/nodes/a.md"]


def test_a_node_made_again_is_new(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("one")), memory("m"))
    workspace.write(gone("n"))
    workspace.write(memory("n", "Project", text("two")))
    assert list(workspace.registry()["nodes"]) == ["m", "n"]
    assert workspace.registry()["nodes"]["n"]["created"] == "2023-11-14T22:13:24.000Z"
    assert workspace.read("_content/nodes/n.md") == "two"


def test_a_type_that_is_named_later_shows_what_was_there_before(workspace: Workspace) -> None:
    workspace.write(memory("p"), memory("x", "Person", text("who")), connection("c", "p", "WaitingFor", "x"))
    assert list(workspace.registry()["nodes"]) == ["p"]
    workspace.write(define_type("Person"))
    assert list(workspace.registry()["nodes"]) == ["p", "x"]
    assert workspace.read("_content/nodes/x.md") == "who"
    workspace.write(define_connection("WaitingFor", "Project", "Person"))
    assert list(workspace.registry()["connections"]) == ["c"]


def test_a_node_that_gets_a_named_type_brings_its_connections(workspace: Workspace) -> None:
    workspace.write(memory("p"), memory("x", "draft"), connection("c", "p", "NextAction", "x"))
    assert workspace.registry()["connections"] == {}
    workspace.write(memory("x", "Action"))
    assert list(workspace.registry()["connections"]) == ["c"]
    workspace.write(memory("x", "draft"))
    assert workspace.registry()["connections"] == {}
    workspace.write(memory("x", "Action"))
    assert list(workspace.registry()["connections"]) == ["c"]


def test_parallel_connections_are_told_apart(workspace: Workspace) -> None:
    workspace.write(memory("p"), memory("a", "Action"))
    workspace.write(connection("c1", "p", "NextAction", "a"), connection("c2", "p", "NextAction", "a"))
    workspace.write(cut("c1", "p", "NextAction", "a"))
    assert list(workspace.registry()["connections"]) == ["c2"]


def test_binary_content_is_shown_as_it_is(workspace: Workspace) -> None:
    prepared = workspace.contents.prepare("nodes", "n", "PNG", "base64", PNG)
    workspace.write(memory("n", "Project", prepared.content))
    assert workspace.path("_content/nodes/n.png").read_bytes() == PNG
    assert workspace.path(f"_content/blobs/{sha256(PNG).hexdigest()}").read_bytes() == PNG


# -- they can be thrown away


def filled(workspace: Workspace) -> None:
    workspace.write(
        memory("p", "Project", text("old")), memory("a", "Action", text("a")), memory("g", "Project", text("g"))
    )
    workspace.write(connection("c", "p", "NextAction", "a", text("why")))
    workspace.write(memory("p", "Project", text("new"), status="active"))
    workspace.write(memory("b", "Project", workspace.contents.prepare("nodes", "b", "png", "base64", PNG).content))
    workspace.write(gone("g"))


def test_every_view_that_was_deleted_comes_back(workspace: Workspace) -> None:
    filled(workspace)
    before = workspace.files()
    workspace.follower.close()
    for name in ("_content/nodes", "_content/connections"):
        shutil.rmtree(workspace.path(name))
    for name in ("registry.json", "ontology.yaml", "views.db"):
        workspace.path(f"_system/{name}").unlink()
    workspace.begin()
    workspace.follower.catch_up()
    assert workspace.files() == before


LOST = [
    "_system/registry.json",
    "_system/ontology.yaml",
    "_system/views.db",
    "_content/nodes/p.md",
    "_content/nodes/b.png",
]


@pytest.mark.parametrize("lost", LOST)
def test_any_one_view_that_was_deleted_comes_back(workspace: Workspace, lost: str) -> None:
    filled(workspace)
    before = workspace.files()
    workspace.follower.close()
    workspace.path(lost).unlink()
    workspace.begin()
    workspace.follower.catch_up()
    assert workspace.files() == before


def test_a_rebuilt_table_does_not_take_what_it_finds_for_edits(workspace: Workspace) -> None:
    filled(workspace)
    before = workspace.files()
    workspace.follower.close()
    workspace.path("_system/views.db").unlink()
    workspace.path("_content/nodes/p.md").write_text("old")
    workspace.begin()
    workspace.follower.catch_up()
    assert workspace.files() == before
    assert workspace.views.problems() == []


@pytest.mark.parametrize("damage", [b"", b"{", b'{"nodes":{}}', b"\0" * 100])
@pytest.mark.parametrize("name", ["registry.json", "ontology.yaml"])
def test_a_file_somebody_else_wrote_is_kept_beside_and_rebuilt(workspace: Workspace, name: str, damage: bytes) -> None:
    filled(workspace)
    before = workspace.files()
    workspace.follower.close()
    workspace.path(f"_system/{name}").write_bytes(damage)
    workspace.begin()
    workspace.follower.catch_up()
    assert workspace.files() == before
    kept = list(workspace.path("_system").glob(f"{name}.rejected-*"))
    # Nothing, or NUL bytes, is what a power cut leaves: there is nothing of anybody's in it.
    assert [path.read_bytes() for path in kept] == [damage] * bool(damage.strip(b"\0"))


def test_a_registry_changed_while_we_run_is_kept_beside_at_the_next_write(workspace: Workspace) -> None:
    workspace.write(memory("n"))
    workspace.path("_system/registry.json").write_text("mine")
    workspace.write(memory("m"))
    assert list(workspace.registry()["nodes"]) == ["n", "m"]
    assert [path.read_text() for path in workspace.path("_system").glob("registry.json.rejected-*")] == ["mine"]


def test_what_a_killed_rewrite_of_the_registry_left_is_swept_when_it_is_old(workspace: Workspace) -> None:
    filled(workspace)
    workspace.follower.close()
    old, young = workspace.path("_system/.0123456789abcdef.new"), workspace.path("_system/.fedcba9876543210.new")
    for path in (old, young):
        path.write_bytes(b"half a registry")
    os.utime(old, (0, 0))
    workspace.begin()
    workspace.follower.catch_up()
    assert not old.exists()
    assert young.exists()


def test_a_damaged_table_is_replayed(workspace: Workspace) -> None:
    filled(workspace)
    before = workspace.files()
    workspace.follower.close()
    workspace.path("_system/views.db").write_bytes(b"not a database, but long enough to be looked at" * 100)
    workspace.begin()
    workspace.follower.catch_up()
    assert workspace.files() == before


def test_the_views_of_another_log_make_room(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    filled(workspace)
    workspace.follower.close()
    other = Workspace(tmp_path_factory.mktemp("other"))
    other.write(*DEFINITIONS)
    other.write(memory("z", "Project", text("z")))
    expected = other.files()
    other.close()
    for name in ("log", "head"):
        here, there = workspace.path(f"_system/{name}"), other.path(f"_system/{name}")
        shutil.rmtree(here) if here.is_dir() else here.unlink()
        shutil.copytree(there, here) if there.is_dir() else shutil.copy(there, here)
    workspace.begin()
    workspace.follower.catch_up()
    assert workspace.files() == expected


# -- several processes, and sudden ends

APPLIER = """
import sys
from pathlib import Path
from tests.projections.workspace import Workspace, memory, text
workspace = Workspace(Path(sys.argv[1]))
workspace.follower.catch_up()
print("ready", flush=True)
for line in sys.stdin:
    node = line.strip()
    while True:
        try:
            workspace.write(memory(node, "Project", workspace.prepared("nodes", node, node)))
            break
        except Exception as error:
            if getattr(error, "code", "") != "HEAD_MOVED":
                raise
    print(node, flush=True)
workspace.close()
"""


def start(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", APPLIER, str(home)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_processes_take_turns_with_the_same_views(workspace: Workspace) -> None:
    both = [start(workspace.home), start(workspace.home)]
    for number, process in enumerate(both):
        assert process.stdin is not None
        process.stdin.write("".join(f"p{number}-{count}\n" for count in range(25)))
        process.stdin.flush()
    for process in both:
        out, _ = process.communicate()
        assert len(out.split()) == 26
        assert process.returncode == 0
    workspace.follower.catch_up()
    expected = {f"p{number}-{count}" for number in (0, 1) for count in range(25)}
    assert set(workspace.registry()["nodes"]) == expected
    assert {path.stem for path in workspace.path("_content/nodes").iterdir()} == expected
    assert all(workspace.read(f"_content/nodes/{name}.md") == name for name in expected)


def test_a_kill_between_append_and_view_is_made_good_at_the_next_start(workspace: Workspace) -> None:
    content = workspace.prepared("nodes", "n", "safe")
    workspace.append(memory("n", "Project", content))
    assert [path.name[:3] for path in workspace.path("_content/nodes").iterdir()] == [".n."]
    workspace.begin()
    workspace.follower.catch_up()
    assert [path.name for path in workspace.path("_content/nodes").iterdir()] == ["n.md"]
    assert workspace.read("_content/nodes/n.md") == "safe"
    assert list(workspace.registry()["nodes"]) == ["n"]


def test_views_killed_again_and_again_end_up_right(workspace: Workspace) -> None:
    for life in range(5):
        process = start(workspace.home)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"l{life}-{count}\n" for count in range(1000)))
        process.stdin.flush()
        for _ in range(3 + 4 * life):
            process.stdout.readline()
        process.kill()
        process.communicate()
    workspace.follower.catch_up()
    nodes = [json.loads(entry.commit.payload)["id"] for entry in workspace.log.read(Head())][len(DEFINITIONS) :]
    assert len(nodes) > 20
    assert list(workspace.registry()["nodes"]) == nodes
    shown = [path.name for path in workspace.path("_content/nodes").iterdir() if not path.name.startswith(".")]
    assert sorted(shown) == sorted(f"{node}.md" for node in nodes)
    assert list(workspace.path("_system").glob("*.rejected-*")) == []


# -- resistance


def test_a_directory_in_the_place_of_a_file_is_kept_beside(workspace: Workspace) -> None:
    workspace.path("_content/nodes/m.md").mkdir(parents=True)
    (workspace.path("_content/nodes/m.md") / "keep").write_text("")
    workspace.write(memory("m", "Project", text("y")))
    workspace.follower.catch_up()
    kept = [path for path in workspace.path("_content/nodes").iterdir() if ".edited-" in path.name]
    assert [path.is_dir() for path in kept] == [True]
    assert workspace.read("_content/nodes/m.md") == "y"


def test_a_directory_that_is_no_directory_is_reported_until_it_is_put_right(workspace: Workspace) -> None:
    workspace.path("_content").mkdir()
    elsewhere = workspace.path("elsewhere")
    elsewhere.mkdir()
    workspace.path("_content/nodes").symlink_to(elsewhere)
    workspace.write(memory("n", "Project", text("x")))
    assert [(each.path, "symbolic" in each.problem) for each in workspace.views.problems()] == [
        ("_content/nodes/n.md", True)
    ]
    assert list(elsewhere.iterdir()) == []
    assert list(workspace.registry()["nodes"]) == ["n"]
    workspace.path("_content/nodes").unlink()
    workspace.follower.catch_up()
    assert workspace.views.problems() == []
    assert workspace.read("_content/nodes/n.md") == "x"


def test_a_registry_that_finds_no_room_is_reported_and_written_later(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SandboxedFiles.write

    def full(files: SandboxedFiles, parts: tuple[str, ...], data: bytes, **how: bool) -> os.stat_result:
        if parts[-1] == "registry.json":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(files, parts, data, **how)

    monkeypatch.setattr(SandboxedFiles, "write", full)
    workspace.write(memory("n", "Project", text("x")))
    assert workspace.follower.position == workspace.log.head()
    assert [(each.path, each.problem) for each in workspace.views.problems()] == [
        ("_system/registry.json", "could not write: No space left on device")
    ]
    assert workspace.read("_content/nodes/n.md") == "x"
    monkeypatch.undo()
    workspace.follower.catch_up()
    assert list(workspace.registry()["nodes"]) == ["n"]
    assert workspace.views.problems() == []


@pytest.mark.parametrize("damage", [None, b"", b"other"])
def test_a_blob_that_is_gone_or_damaged_is_reported_and_not_shown(workspace: Workspace, damage: bytes | None) -> None:
    content = workspace.contents.prepare("nodes", "n", "png", "base64", PNG)
    workspace.write(memory("n", "Project", content.content))
    workspace.follower.close()
    workspace.path("_content/nodes/n.png").unlink()
    blob = workspace.path(f"_content/blobs/{content.content['blob']}")
    blob.unlink()
    if damage is not None:
        blob.write_bytes(damage)
    workspace.begin()
    for _ in range(2):
        workspace.follower.catch_up()
        assert [each.path for each in workspace.views.problems()] == ["_content/nodes/n.png"]
    assert list(workspace.path("_content/nodes").iterdir()) == []


@pytest.fixture
def small_content(workspace: Workspace) -> Iterator[Path]:
    """`_content` with room for little."""
    with mounted_small(workspace.path("_content")) as disk:
        yield disk


def test_a_content_that_finds_no_room_is_reported_and_written_when_there_is(
    workspace: Workspace, small_content: Path
) -> None:
    workspace.write(memory("n", "Project", text("x" * 100_000)), memory("m", "Project", text("small")))
    (problem,) = workspace.views.problems()
    assert problem.path == "_content/nodes/n.md"
    assert "No space left" in problem.problem
    assert list(workspace.registry()["nodes"]) == ["n", "m"]
    assert [path.name for path in (small_content / "nodes").iterdir()] == ["m.md"]
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_content)], check=True)
    workspace.follower.catch_up()
    assert workspace.views.problems() == []
    assert workspace.read("_content/nodes/n.md") == "x" * 100_000


def test_a_file_that_cannot_be_removed_is_reported_and_removed_later(workspace: Workspace, small_content: Path) -> None:
    workspace.write(memory("n", "Project", text("x")))
    subprocess.run(["mount", "-o", "remount,ro", str(small_content)], check=True)
    workspace.write(gone("n"))
    (problem,) = workspace.views.problems()
    assert (problem.path, "Read-only" in problem.problem) == ("_content/nodes/n.md", True)
    assert workspace.registry()["nodes"] == {}
    subprocess.run(["mount", "-o", "remount,rw", str(small_content)], check=True)
    workspace.restart()
    assert workspace.views.problems() == []
    assert list((small_content / "nodes").iterdir()) == []


# -- hand edits


def test_an_edit_that_was_not_adopted_is_kept_beside_what_replaces_it(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("one")))
    workspace.path("_content/nodes/n.md").write_text("by hand")
    workspace.write(memory("n", "Project", text("two")))
    assert workspace.read("_content/nodes/n.md") == "two"
    kept = [path for path in workspace.path("_content/nodes").iterdir() if ".edited-" in path.name]
    assert [path.read_text() for path in kept] == ["by hand"]


def test_an_edit_of_a_node_that_is_deleted_is_kept(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("one")))
    workspace.path("_content/nodes/n.md").write_text("by hand")
    workspace.write(gone("n"))
    assert [path.read_text() for path in workspace.path("_content/nodes").iterdir()] == ["by hand"]


def test_an_edit_made_while_nobody_ran_is_not_overwritten_at_the_start(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("one")))
    workspace.follower.close()
    workspace.path("_content/nodes/n.md").write_text("by hand")
    workspace.begin()
    workspace.follower.catch_up()
    assert workspace.read("_content/nodes/n.md") == "by hand"
    assert [each.path for each in workspace.views.problems()] == ["_content/nodes/n.md"]


@pytest.mark.parametrize("by_hand", [b"by hand", b"\xff not text", b""])
def test_where_nobody_adopts_edits_a_file_that_differs_is_put_right_at_the_start(
    workspace: Workspace, by_hand: bytes
) -> None:
    workspace.write(memory("n", "Project", text("one")), memory("m", "Project", text("two")))
    path = workspace.path("_content/nodes/n.md")
    path.write_bytes(by_hand)
    workspace.restart(repairs=True)
    assert path.read_text() == "one"
    (kept,) = path.parent.glob("n.md.edited-*")
    assert kept.read_bytes() == by_hand
    assert workspace.views.problems() == []
    shown = workspace.files()
    workspace.restart(repairs=True)
    assert workspace.files() == shown


def test_an_older_version_that_came_back_from_a_backup_is_not_an_edit(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("one")))
    path = workspace.path("_content/nodes/n.md")
    old = path.stat()
    workspace.write(memory("n", "Project", text("two")))
    workspace.follower.close()
    path.write_text("one")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    workspace.begin()
    workspace.follower.catch_up()
    assert workspace.read("_content/nodes/n.md") == "two"


def test_a_touched_file_is_no_edit(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("one")))
    os.utime(workspace.path("_content/nodes/n.md"))
    workspace.restart()
    assert workspace.views.problems() == []
    assert workspace.views.edits() == []


# -- redaction


def redact(workspace: Workspace, entity_id: str, fields: list[str] | None = None, *, follow: bool = True) -> None:
    """As the memory toolset does: mask every version of the node, or of the edge with this id."""
    redacts, named = {}, {"node_id": entity_id}
    for entry in workspace.log.read(Head()):
        document = entry.commit.document()
        if entry.commit.operation in (Verb.UPSERT_NODE, Verb.UPSERT_EDGE) and document["id"] == entity_id:
            if entry.commit.operation is Verb.UPSERT_EDGE:
                named = {key: document[key] for key in ("from", "rel", "to", "id")}
            masked = mask.fitted(mask.redact(document, fields), chain.room_of(entry.line))
            redacts[str(entry.commit.lamport)] = sha256(masked).hexdigest()
    payload = {**named, "reason": "asked"} | ({} if fields is None else {"redacted_fields": fields})
    verb = Verb.REDACT_EDGE if "from" in named else Verb.REDACT_NODE
    workspace.append(Operation(verb, payload, redacts=redacts))
    if follow:
        workspace.follower.catch_up()


def everything(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file() and path.parent.name != "log")


def test_a_redaction_leaves_nothing_of_what_it_forgets(workspace: Workspace) -> None:
    secret = "SECRETSECRETSECRETSECRET"
    workspace.write(memory("n", "Project", text(secret + "-one"), email=secret))
    workspace.path("_content/nodes/n.md").write_text(secret + " by hand")
    workspace.write(memory("n", "Project", text(secret + "-two"), email=secret))
    workspace.path("_system/registry.json").write_text(secret)
    workspace.write(memory("m"))
    assert secret.encode() in everything(workspace.home)
    redact(workspace, "n")
    assert secret.encode() not in everything(workspace.home)
    assert workspace.registry()["nodes"]["n"]["properties"] == {"email": "[REDACTED]"}
    assert workspace.read("_content/nodes/n.md") == "[REDACTED]"


@pytest.mark.parametrize("repairs", [False, True])
def test_words_that_were_typed_over_a_redacted_content_are_kept_beside_it(workspace: Workspace, repairs: bool) -> None:
    workspace.write(memory("n", "Project", text("Jane Roe")))
    redact(workspace, "n")
    path = workspace.path("_content/nodes/n.md")
    assert path.read_text() == "[REDACTED]"
    path.write_text("typed since")
    workspace.restart(repairs=repairs)
    assert workspace.views.edits() == []
    workspace.restart(repairs=repairs)
    assert path.read_text() == "[REDACTED]"
    assert [kept.read_text() for kept in path.parent.glob("n.md.edited-*")] == ["typed since"]
    path.write_text("[REDACTED]")
    workspace.restart(repairs=repairs)
    assert len(list(path.parent.glob("n.md.edited-*"))) == 1


def test_what_was_edited_before_a_redaction_goes_with_it(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("Jane Roe")))
    workspace.path("_content/nodes/n.md").write_text("Jane Roe, edited")
    redact(workspace, "n")
    assert [path.read_text() for path in workspace.path("_content/nodes").iterdir()] == ["[REDACTED]"]


@promise("L51, M13, connections", "a redaction of a connection leaves nothing of its content file or blob")
def test_a_redaction_of_a_connection_leaves_nothing_of_what_it_forgets(workspace: Workspace) -> None:
    secret = "SECRETSECRETSECRETSECRET"
    ends = ("e1", "p", "NextAction", "a")
    workspace.write(
        memory("p"), memory("a", "Action"), connection(*ends, text(f"{secret}-one"), note=secret, since="2001")
    )
    workspace.path("_content/connections/e1.md").write_text(secret + " by hand")
    workspace.write(connection(*ends, text(f"{secret}-two"), note=secret, since="2001-02-03"))
    assert secret.encode() in everything(workspace.home)
    redact(workspace, "e1", ["attrs.note"])
    shown = workspace.registry()["connections"]["e1"]
    assert shown["properties"] == {"note": "[REDACTED]", "since": "2001-02-03"}
    assert workspace.read("_content/connections/e1.md") == f"{secret}-two"
    redact(workspace, "e1")
    assert secret.encode() not in everything(workspace.home)
    shown = workspace.registry()["connections"]["e1"]
    assert (shown["properties"], shown["from"]) == ({"note": "[REDACTED]", "since": "[REDACTED]"}, "p")
    assert workspace.read("_content/connections/e1.md") == "[REDACTED]"


def test_short_values_are_shown_like_long_ones_and_none_is_invented(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("hi"), pin=1, kept=0), memory("a", "Action"))
    workspace.write(connection("e1", "n", "NextAction", "a", text(""), since=1))
    for fields in (["attrs.pin", "attrs.nickname"], None):
        redact(workspace, "n", fields)
        pinned = {"kept": 0 if fields else "[REDACTED]", "pin": "[REDACTED]"}
        assert workspace.registry()["nodes"]["n"]["properties"] == pinned
    redact(workspace, "e1")
    assert workspace.registry()["connections"]["e1"]["properties"] == {"since": "[REDACTED]"}
    shown = workspace.files()
    assert workspace.read("_content/nodes/n.md") == workspace.read("_content/connections/e1.md") == "[REDACTED]"
    workspace.views.reset()
    workspace.restart()
    assert workspace.files() == shown


def test_a_redaction_takes_the_blob_of_a_deleted_connection(workspace: Workspace) -> None:
    content = workspace.contents.prepare("connections", "e1", "png", "base64", PNG).content
    workspace.write(memory("p"), memory("a", "Action"), connection("e1", "p", "NextAction", "a", content))
    workspace.write(cut("e1", "p", "NextAction", "a"))
    redact(workspace, "e1")
    assert list(workspace.path("_content/blobs").iterdir()) == []


def test_views_that_hear_late_of_two_redactions_of_one_version_go_on(workspace: Workspace) -> None:
    """The first one's masks are nowhere to be seen any more."""
    ends = ("e1", "p", "NextAction", "a")
    workspace.write(memory("p", mail="p@example.org", name="Somebody"), memory("a", "Action"))
    workspace.write(connection(*ends, mail="p@example.org", name="Somebody"))
    for entity in ("p", "e1"):
        for field in ("attrs.mail", "attrs.name"):
            redact(workspace, entity, [field], follow=False)
    workspace.follower.catch_up()
    told = workspace.registry()
    for shown in (told["nodes"]["p"], told["connections"]["e1"]):
        assert shown["properties"] == {"mail": "[REDACTED]", "name": "[REDACTED]"}


def test_a_redaction_of_content_that_no_file_ever_held_is_done(workspace: Workspace) -> None:
    """Written, taken away and redacted before the views looked: there is no directory for its file either."""
    workspace.append(memory("n", "Project", text("a secret")), memory("n"))
    redact(workspace, "n")
    assert not workspace.path("_content").exists()
    assert workspace.follower.erase()
    assert workspace.views.problems() == []


def test_a_redaction_takes_the_blob_unless_another_node_has_it_too(workspace: Workspace) -> None:
    for node, data in (("n", PNG), ("m", PNG), ("n", b"\x00only here")):
        workspace.write(
            memory(node, "Project", workspace.contents.prepare("nodes", node, "png", "base64", data).content)
        )
    redact(workspace, "n")
    assert [path.name for path in workspace.path("_content/blobs").iterdir()] == [sha256(PNG).hexdigest()]
    assert workspace.read("_content/nodes/n.png") == "[REDACTED]"
    workspace.restart()
    assert workspace.views.problems() == []


# -- how often


class Ticking:
    """Seconds that pass only when told, and that one rewrite takes."""

    def __init__(self, rewrite: float) -> None:
        self.now = 0.0
        self._rewrite = rewrite

    def __call__(self) -> float:
        self.now += self._rewrite
        return self.now


@pytest.mark.parametrize(("cost", "rewritten"), [(0.001, [1, 2, 3]), (0.021, [1, 1, 1])])
def test_a_dear_registry_is_rewritten_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float, rewritten: list[int]
) -> None:
    monkeypatch.setattr(views, "CHEAP_SECONDS", 0.020)
    workspace = Workspace(tmp_path)
    workspace.write(*DEFINITIONS)
    seconds = Ticking(cost)
    workspace.views._seconds = seconds
    workspace.views._rewritten_at = float("-inf")
    shown = []
    for number in (1, 2, 3):
        workspace.write(memory(f"n{number}"))
        shown.append(len(workspace.registry()["nodes"]))
    assert shown == rewritten
    seconds.now += 1.0
    workspace.follower.catch_up()
    assert len(workspace.registry()["nodes"]) == 3
    workspace.write(memory("n4"))
    workspace.close()
    assert len(workspace.registry()["nodes"]) == 4


def test_what_the_views_were_shown_before_a_restart_need_not_be_replayed(workspace: Workspace) -> None:
    workspace.write(memory("n", "Project", text("one")))
    at = workspace.views.position()
    assert at == workspace.log.head()
    workspace.restart()
    assert workspace.views.position() == at

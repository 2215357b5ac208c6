"""The files of a repository as a tree: counted once, looked into by directory."""

from __future__ import annotations

from tallystick.extensions.web.reports.known_tree import KnownTree
from tallystick.state.knowledge.catalogue import Atom, routes_of

FILES = ["README.md", "src/api/routes.py", "src/queue.py", "src/retry.py", "srcs/other.py"]


def atom(name: str, *patterns: str) -> Atom:
    return Atom(name, "p", name, (name, name), None, True, routes_of(list(patterns)))


QUEUE, API, ALL = atom("queue", "src/*.py"), atom("api", "src/api/**"), atom("all", "src/queue.py")


def tree(files: list[str] = FILES, *, files_max: int = 100, below: str = "") -> KnownTree:
    return KnownTree([QUEUE, API, ALL], files, files_max=files_max, below=below)


def test_directories_come_first_and_count_what_is_below_them() -> None:
    made = tree()
    assert made.children("") == [(False, "src"), (False, "srcs"), (True, "README.md")]
    assert made.children("src") == [(False, "api"), (True, "queue.py"), (True, "retry.py")]
    assert [made.counts(path) for path in ("", "src", "src/api", "srcs", "src/queue.py")] == [
        *((5, 3), (3, 3), (1, 1), (1, 0), (1, 1)),
    ]
    assert made.children("src/queue.py") == made.children("nowhere") == []


def test_a_file_is_stale_once_however_much_of_what_is_known_of_it_is() -> None:
    made = tree()
    assert made.stale_below("", ["queue", "all"]) == {"src": 2}
    assert made.stale_below("src", ["queue", "all", "api"]) == {"queue.py": 1, "retry.py": 1, "api": 1}
    assert made.stale_below("srcs", ["queue"]) == {}


def test_of_too_many_files_the_first_are_counted_and_a_directory_has_its_own() -> None:
    assert tree(files_max=2).is_cut
    assert tree(files_max=2).counts("") == (2, 1)
    inside = tree(files_max=1, below="srcs")
    assert (inside.is_cut, inside.counts("srcs"), inside.children("srcs")) == (False, (1, 0), [(True, "other.py")])


def test_it_is_made_anew_when_files_or_knowledge_change() -> None:
    made = tree()
    same = atom("queue", "src/*.py")
    assert made.is_of([QUEUE, API, ALL], FILES, "")
    assert not made.is_of([same, API, ALL], FILES, "")
    assert not made.is_of([QUEUE, API], FILES, "")
    assert not made.is_of([QUEUE, API, ALL], [*FILES], "")
    assert not made.is_of([QUEUE, API, ALL], FILES, "src")

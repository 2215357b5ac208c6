"""File names of ids that may be anything."""

from __future__ import annotations

from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.extensions.exporters.file_names import file_names, paths
from tests.promises import promise


def test_a_plain_id_is_its_own_name_in_every_export() -> None:
    ids = ["ada", "task-7", "v1.2_final", "Zürich"]
    assert file_names(ids) == {each: each for each in ids}


@promise("export-names", "no id leaves its directory or means something to a file system")
@pytest.mark.parametrize(
    "hostile",
    [
        "../x", "..", ".", "/etc/passwd", "a/b", "a\\b", "x\ny", ".hidden", "-rf", "con", "NUL.txt", "LPT1",
        "index", "Log", "a:b", "a|b", "[[a]]", "a#b", "trailing.", "trailing ", "a\x00b", "node_modules", "x" * 5_000,
        "％２ｅ", "\u202egnp.md", "emoji 🏔", "a%2fb", "~", "$HOME", "`id`", "ﬁ/ﬂ",
    ],
)  # fmt: skip
def test_no_id_leaves_its_directory_or_means_something_to_a_file_system(hostile: str) -> None:
    name = file_names([hostile])[hostile]
    assert name != hostile
    assert not set(name) & set("/\\:|[]#<>?*\"' \n\x00%()$`~")
    assert name[0] not in ".-"
    assert name[-1] not in ". "
    assert name.partition(".")[0].casefold() not in {"con", "nul", "lpt1", "index", "log", "node_modules"}
    assert len(f"{name}.md".encode()) <= 255
    assert name.isprintable()


def test_names_that_differ_in_case_or_form_alone_are_told_apart() -> None:
    names = file_names(["ada", "Ada", "ADA", "straße", "STRASSE", "e\u0301", "é", "grace"])
    assert names["grace"] == "grace"
    assert len({normalize("NFKD", each).casefold() for each in names.values()}) == len(names)


def test_an_id_that_looks_like_another_ones_name_gets_a_name_of_its_own() -> None:
    taken = file_names(["a/b"])["a/b"]
    names = file_names(["a/b", taken])
    assert names[taken] == taken
    assert names["a/b"] != taken


@given(st.lists(st.text(max_size=80), unique=True, max_size=20))
def test_no_two_ids_share_a_name_whatever_they_are(ids: list[str]) -> None:
    names = file_names(ids)
    assert list(names) == ids
    assert len({normalize("NFKD", each).casefold() for each in names.values()}) == len(ids)
    assert all(name and "/" not in name and name not in (".", "..") for name in names.values())


def test_a_type_is_a_directory() -> None:
    assert paths({"a": "note", "b": "../x", "A": "Note"})["a"].startswith("note-")
    found = paths({"a": "note", "b": "work/node"})
    assert found["a"] == "note/a"
    assert found["b"].startswith("work-node-")
    assert found["b"].count("/") == 1

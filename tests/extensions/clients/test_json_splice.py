"""Splicing into JSON: what was put in comes out again byte for byte, and nothing else is touched."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.extensions.clients import json_splice
from tallystick.extensions.clients.splice import Unreadable
from tests.clients import configurations

ENTRY = {"command": "tallystick", "args": ["serve"]}
PATHS = st.sampled_from([("mcpServers", "tallystick"), ("tallystick",), ("hooks", "SessionStart"), ("a", "b", "c")])


def _with(value: Any, path: tuple[str, ...], entry: Any) -> Any:
    changed = copy.deepcopy(value or {})
    holder = changed
    for key in path[:-1]:
        holder = holder.setdefault(key, {})
    holder[path[-1]] = entry
    return changed


def _can_hold(value: Any, path: tuple[str, ...]) -> bool:
    for key in path[:-1]:
        value = value.get(key, {})
        if not isinstance(value, dict):
            return False
    return path[-1] not in value


def _value(text: str, comments: bool) -> Any:
    node = json_splice.parse(text, comments=comments)
    if not comments and node is not None:
        assert node.value == json.loads(text.removeprefix("\ufeff"))
    return None if node is None else node.value


@st.composite
def _configuration(draw: st.DrawFn) -> tuple[str, Any, bool]:
    value, comments = draw(configurations.OBJECTS), draw(st.booleans())
    form = configurations.written(value, comments) if draw(st.booleans()) else configurations.pretty(value)
    return draw(form), value, comments


@given(_configuration())
def test_a_configuration_is_read_as_it_was_meant(written: tuple[str, Any, bool]) -> None:
    text, value, comments = written
    assert _value(text, comments) == value


@given(_configuration(), PATHS)
def test_a_key_is_added_and_taken_out_again(written: tuple[str, Any, bool], path: tuple[str, ...]) -> None:
    text, value, comments = written
    if not _can_hold(value, path):
        return
    splice = json_splice.put(text, path, ENTRY, comments=comments)
    after = splice.into(text)
    assert _value(after, comments) == _with(value, path, ENTRY)
    assert json_splice.value_at(after, path, comments=comments) == ENTRY
    assert splice.undone(after) == text
    with pytest.raises(Unreadable, match="already"):
        json_splice.put(after, path, ENTRY, comments=comments)


@given(_configuration(), PATHS)
def test_without_a_record_it_is_cut_by_what_it_means(written: tuple[str, Any, bool], path: tuple[str, ...]) -> None:
    text, value, comments = written
    if not _can_hold(value, path):
        return
    splice = json_splice.put(text, path, ENTRY, comments=comments)
    cut = json_splice.cut_key(splice.into(text), path, comments=comments, made=splice.made)
    assert _value(cut, comments) == value


@given(_configuration(), st.sampled_from([("hooks", "Stop"), ("Stop",)]))
def test_an_element_is_appended_and_taken_out_again(written: tuple[str, Any, bool], path: tuple[str, ...]) -> None:
    text, value, comments = written
    if not _can_hold(value, path):
        return
    for before in ([], [{"own": 1}], [{"own": 1}, True]):
        held = json_splice.put(text, path, before, comments=comments).into(text) if before else text
        splice = json_splice.append(held, path, ENTRY, comments=comments)
        after = splice.into(held)
        assert json_splice.value_at(after, path, comments=comments) == [*before, ENTRY]
        assert splice.undone(after) == held
        cut = json_splice.cut_element(after, path, ENTRY, comments=comments, made=splice.made)
        assert _value(cut, comments) == _value(held, comments)


@given(_configuration(), st.data())
def test_any_key_can_be_cut(written: tuple[str, Any, bool], data: st.DataObject) -> None:
    text, value, comments = written
    if not value:
        return
    key = data.draw(st.sampled_from(sorted(value)))
    cut = json_splice.cut_key(text, (key,), comments=comments)
    assert _value(cut, comments) == {name: each for name, each in value.items() if name != key}


ADDED = '"tallystick": {"command": "tallystick", "args": ["serve"]}'
LINES = [
    ("{}", '{\n  "s": {\n    "t": 1\n  }\n}'),
    ("", '{\n  "s": {\n    "t": 1\n  }\n}\n'),
    ("\n", '{\n  "s": {\n    "t": 1\n  }\n}\n'),
    ("\ufeff", '\ufeff{\n  "s": {\n    "t": 1\n  }\n}\n'),
    ("// mine\n", '// mine\n{\n  "s": {\n    "t": 1\n  }\n}\n'),
    ('{"s":{"a":{}}}', '{"s":{"a":{}, "t": 1}}'),
    ('{\n\t"s": {\n\t\t"a": 1\n\t}\n}', '{\n\t"s": {\n\t\t"a": 1,\n\t\t"t": 1\n\t}\n}'),
    ('{\r\n  "s": {\r\n    "a": 1\r\n  }\r\n}', '{\r\n  "s": {\r\n    "a": 1,\r\n    "t": 1\r\n  }\r\n}'),
    ('{\n  "s": {\n    "a": 1,\n  },\n}', '{\n  "s": {\n    "a": 1,\n    "t": 1,\n  },\n}'),
    ('{\n  "s": {\n    "a": 1 // one\n  }\n}', '{\n  "s": {\n    "t": 1,\n    "a": 1 // one\n  }\n}'),
    ('{\n  "s": {\n    "a": 1, // one\n  }\n}', '{\n  "s": {\n    "a": 1, // one\n    "t": 1,\n  }\n}'),
    ('{\n  "s": {\n    "a": 1\n    // "b": 2\n  }\n}', '{\n  "s": {\n    "a": 1,\n    "t": 1\n    // "b": 2\n  }\n}'),
    ('{ // all\n}', '{ // all\n  "s": {\n    "t": 1\n  }\n}'),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), LINES)
def test_it_looks_as_if_its_owner_had_written_it(before: str, after: str) -> None:
    splice = json_splice.put(before, ("s", "t"), 1)
    assert splice.into(before) == after
    assert splice.undone(after) == before


WRONG = [
    ("{", "line 1, column 2: it ends where"),
    ('{"a": 1', "line 1, column 8: it ends where ',' or '}'"),
    ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: ',' or '}' is expected"),
    ('{"a" 1}', "':' is expected"),
    ("{a: 1}", "a key in quotes is expected"),
    ("[1, 2]", "the whole is no object"),
    ('{"s": []}', "'s' is no object"),
    ('{"s": null}', "'s' is no object"),
    ('{"s": {}, "s": {}}', "'s' stands here a second time"),
    ('{"a": "unended}', "does not end"),
    ('{"a": "\x01"}', "must be escaped"),
    ("{} {}", "something follows"),
    ('{"a": nul}', "a value is expected"),
    ("[" * 1000, "nested too deeply"),
    ('{"a": 1 /* unended }', "is expected"),
    ("\x00", "a value is expected"),
]


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_what_cannot_be_read_is_refused_and_the_place_is_named(text: str, told: str) -> None:
    with pytest.raises(Unreadable) as refused:
        json_splice.put(text, ("s", "t"), ENTRY)
    assert told in refused.value.message


@pytest.mark.parametrize(
    ("text", "told"),
    [('{"a": 1} // x', "something follows"), ("{ // x\n}", "no comments"), ('{"a": 1,}', "no comma may stand")],
)
def test_a_strict_reader_gets_strict_json(text: str, told: str) -> None:
    json_splice.put(text, ("s", "t"), ENTRY)
    with pytest.raises(Unreadable) as refused:
        json_splice.put(text, ("s", "t"), ENTRY, comments=False)
    assert told in refused.value.message


CUTS = [
    ('{\n  "a": 1,\n  "t": 2,\n  "b": 3\n}', '{\n  "a": 1,\n  "b": 3\n}'),
    ('{\n  "a": 1, // one\n  "t": 2\n}', '{\n  "a": 1 // one\n}'),
    ('{\n  "t": 2, // ours\n  "a": 1\n}', '{\n  "a": 1\n}'),
    ('{\n  "t": 2\n}', "{}"),
    ('{"a": 1, "t": 2, "b": 3}', '{"a": 1, "b": 3}'),
    ('{"t": 2,}', "{}"),
]


@pytest.mark.parametrize(("before", "after"), CUTS)
def test_what_others_say_about_their_lines_stays(before: str, after: str) -> None:
    assert json_splice.cut_key(before, ("t",)) == after

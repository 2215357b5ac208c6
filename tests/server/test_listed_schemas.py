"""What a tool's schema says is what its arguments are held to, both ways and for every tool."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tallystick import app
from tallystick.commits import Draft, Operation, Verb
from tallystick.config import Settings
from tallystick.errors import InvalidArgument
from tallystick.policy import Principal
from tallystick.policy.visible_names import is_visible
from tallystick.server import Offer
from tallystick.server.dispatch import Done, OfferedTool, Refused, call, choose, prepare
from tallystick.server.schemas import input_schema, shown_schema, with_references
from tallystick.toolsets.operation_arguments import OperationArguments, operation_faults
from tests.promises import promise

Schema = dict[str, Any]

EVERY_TOOL = choose(app.toolsets(Settings(base=Path("nowhere")))).entries
each_tool = pytest.mark.parametrize("entry", EVERY_TOOL, ids=lambda entry: entry.dotted)
ONE_OPERATION_ONLY = re.compile(r"field '.*' does not belong to |.* takes ")
"""Which operation takes what is said in words, at each parameter."""


def problems_of(entry: OfferedTool, arguments: Any) -> list[str]:
    try:
        prepare(entry.tool, arguments)
    except InvalidArgument as refused:
        return refused.problems
    return []


# -- whatever fits is taken


def fitting(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return fitting(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "type" not in schema:
        return st.none() | st.booleans() | st.text(max_size=5)
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of(*(KINDS[kind](schema, root) for kind in kinds))


def _texts(schema: Schema, root: Schema) -> st.SearchStrategy[Any]:
    if schema.get("format") == "date-time":
        return st.datetimes().map(lambda time: f"{time.isoformat()}Z").filter(lambda text: text > "0002")
    least, most = schema.get("minLength", 0), schema.get("maxLength", 1_000)
    # Schemas do not repeat in each field that no text is blank: the server's instructions do.
    visible = st.text(st.characters(codec="utf-8"), min_size=least, max_size=min(most, least + 8)).filter(
        lambda text: not text or is_visible(text)
    )
    found = visible | st.just("a" * most)
    if "pattern" not in schema:
        return found
    pattern = re.compile(schema["pattern"].replace("$", r"\Z"))
    odd = st.sampled_from(("2024-02-29", "0" * 64, "0" * 32, "01234567-89ab-cdef-0123-456789ABCDEF"))
    return (found | odd).filter(lambda text: pattern.search(text) and least <= len(text) <= most)


def _wholes(schema: Schema, root: Schema) -> st.SearchStrategy[int]:
    least, most = schema.get("minimum", -1_000), schema.get("maximum", 1_000)
    return st.sampled_from((least, most)) | st.integers(least, most)


def _lists(schema: Schema, root: Schema) -> st.SearchStrategy[list[Any]]:
    least = schema.get("minItems", 0)
    return st.lists(
        fitting(schema.get("items", {}), root), min_size=least, max_size=min(schema.get("maxItems", 3), least + 2)
    )


def _objects(schema: Schema, root: Schema) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" not in schema:
        more = schema.get("additionalProperties", {})
        return st.dictionaries(st.text("abc", min_size=1, max_size=3), fitting(more, root), max_size=2)
    members = {name: fitting(each, root) for name, each in schema["properties"].items()}
    needed = {name: members.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(needed, optional=members)


KINDS: dict[str, Any] = {
    "string": _texts,
    "integer": _wholes,
    "number": lambda schema, root: st.floats(-1e6, 1e6),
    "boolean": lambda schema, root: st.booleans(),
    "null": lambda schema, root: st.none(),
    "array": _lists,
    "object": _objects,
}


@promise("FR-001, complete", "whatever fits a tool's schema has a form that the tool takes")
@each_tool
@settings(max_examples=15)
@given(st.data())
def test_whatever_fits_a_tools_schema_has_a_form_that_the_tool_takes(entry: OfferedTool, data: st.DataObject) -> None:
    schema = input_schema(entry.tool)
    arguments = data.draw(fitting(schema, schema))
    of_operations = {fault for _, fault in operation_faults(entry.tool.input, arguments)}
    form = [each for each in problems_of(entry, arguments) if each not in of_operations]
    assert [each for each in form if not ONE_OPERATION_ONLY.match(each)] == []


# -- whatever does not fit is refused


def example(schema: Schema, root: Schema) -> Any:
    """With every member there is."""
    if "$ref" in schema:
        return example(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "string")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            members = schema.get("properties", {"a": schema.get("additionalProperties", {"type": "string"})})
            return {name: example(each, root) for name, each in members.items()}
        case "array":
            return [example(schema.get("items", {}), root)] * max(1, schema.get("minItems", 0))
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return True
        case _:
            texts = ("a", "2025-01-01T00:00:00Z", "0" * 64, "0" * 32)
            fits = re.compile("2025" if schema.get("format") == "date-time" else schema.get("pattern", ""))
            return next(text for text in texts if fits.search(text))


def examples(entry: OfferedTool) -> Iterator[dict[str, Any]]:
    """One for each operation, with all that it takes."""
    schema = input_schema(entry.tool)
    whole = example(schema, schema)
    model = entry.tool.input
    batches = {name: whole[name] for name in _batches(whole)}
    has_operations = issubclass(model, OperationArguments)
    yield from _unmixed(entry, schema, batches if has_operations else whole)
    if not issubclass(model, OperationArguments):
        yield from [] if batches else [whole]
        return
    whole = {name: value for name, value in whole.items() if name not in batches}
    choices = [(model.operation_field, word) for word in schema["properties"][model.operation_field]["enum"]]
    kinds = schema["properties"][model.kind_field]["enum"] if model.kind_field else [None]
    for (field, operation), kind in ((choice, kind) for choice in choices for kind in kinds):
        chosen = {**whole, field: operation} | ({model.kind_field: kind} if model.kind_field else {})
        unused = {
            found[1] for each in problems_of(entry, chosen) if (found := re.match(r"field '(\w+)' does not", each))
        }
        yield {name: value for name, value in chosen.items() if name not in unused}


def _batches(whole: dict[str, Any]) -> Iterator[str]:
    for name, value in whole.items():
        if isinstance(value, list) and value and isinstance(value[0], dict) and "op" in value[0]:
            yield name


def _unmixed(entry: OfferedTool, schema: Schema, whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A batch of operations has one of each, with what it takes."""
    plain = without_references(schema)
    for name in _batches(whole):
        for operation in plain["properties"][name]["items"]["properties"]["op"]["enum"]:
            item = {**whole[name][0], "op": operation}
            said = problems_of(entry, {**whole, name: [item]})
            unused = {found[1] for each in said if (found := re.search(r"(\w+)' does not belong", each))}
            yield {**whole, name: [{key: each for key, each in item.items() if key not in unused}]}


def spoilt(schema: Schema, value: Any, root: Schema) -> Iterator[tuple[str, Any]]:
    """The value with one thing in it that breaks one rule, for every rule there is."""
    if "$ref" in schema:
        yield from spoilt(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root)
        return
    yield from _spoilt_itself(schema, value)
    if isinstance(value, dict):
        yield from _spoilt_members(schema, value, root)
    elif isinstance(value, list) and value:
        for rule, item in spoilt(schema.get("items", {}), value[0], root):
            yield f"[0] {rule}", [item, *value[1:]]


def _spoilt_itself(schema: Schema, value: Any) -> Iterator[tuple[str, Any]]:
    kinds = schema.get("type", ())
    if kinds:
        yield "type", [["no"]] if kinds == "object" else {"no": "such"}
    if "enum" in schema:
        yield "enum", "no such word"
    if "minimum" in schema:
        yield "minimum", schema["minimum"] - 1
    if "maximum" in schema:
        yield "maximum", schema["maximum"] + 1
    if schema.get("minLength"):
        yield "minLength", ""
    if "maxLength" in schema:
        yield "maxLength", "a" * (schema["maxLength"] + 1)
    if "format" in schema:
        yield "format", "yesterday"
    if "pattern" in schema:
        yield (
            "pattern",
            next(text for text in ("a\0", " ", "no such", "a/b", "a" * 999) if not re.search(schema["pattern"], text)),
        )
    if schema.get("minItems"):
        yield "minItems", []
    if "maxItems" in schema:
        yield "maxItems", value * (schema["maxItems"] + 1)


def _spoilt_members(schema: Schema, value: dict[str, Any], root: Schema) -> Iterator[tuple[str, Any]]:
    if schema.get("additionalProperties") is False:
        yield "additionalProperties", {**value, "no_such_member": 1}
    for name in schema.get("required", ()):
        yield f"required {name}", {key: each for key, each in value.items() if key != name}
    more = schema.get("additionalProperties")
    members = schema.get("properties", dict.fromkeys(value, more) if isinstance(more, dict) else {})
    for name in members.keys() & value.keys():
        for rule, spoiled in spoilt(members[name], value[name], root):
            yield f"{name} {rule}", {**value, name: spoiled}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def refusal(offer: Offer, entry: OfferedTool, arguments: dict[str, Any]) -> bool:
    """By the form alone, or by the tool, which counts bytes and looks at values."""
    if problems_of(entry, arguments):
        return True
    outcome = await call(offer.tools.get(entry.dotted), arguments, offer.store, lambda: Principal("a"))
    return isinstance(outcome, Refused) and isinstance(outcome.error, InvalidArgument)


async def write_sample(offer: Offer) -> None:
    """What examples name, so that a tool gets as far as the values."""
    kind = {"name": "a", "from_types": ["a"], "to_types": ["a"]}
    for tool, arguments in (
        ("create_ontology", {"node_types": ["a"], "connection_types": [kind]}),
        ("memory.write", {"op": "UPSERT_NODE", "node": {"id": "a", "type": "a", "attrs": {}}}),
    ):
        outcome = await call(offer.tools.get(tool), arguments, offer.store, lambda: Principal("a"))
        assert isinstance(outcome, Done), outcome
    # Called like the node, as no tool lets it be, so that one example fits both.
    edge = Operation(Verb.UPSERT_EDGE, {"from": "a", "rel": "a", "to": "a", "id": "a", "attrs": {}})
    partition = await offer.store.partition(Principal("a"))
    await partition.commit(lambda state: Draft((edge,), actor="a", tool="memory.write"))


@promise("FR-001, enforced", "whatever breaks a rule of a tool's schema is refused")
@each_tool
async def test_whatever_breaks_a_rule_of_a_tools_schema_is_refused(entry: OfferedTool, tmp_path: Path) -> None:
    schema = input_schema(entry.tool)
    Draft202012Validator.check_schema(schema)
    taken, tried = [], 0
    async with app.served(Settings(base=tmp_path, toolsets=("all",))) as offer:
        await write_sample(offer)
        for arguments in examples(entry):
            assert problems_of(entry, arguments) == []
            Draft202012Validator(schema).validate(arguments)
            for rule, wrong in spoilt(schema, arguments, schema):
                tried += 1
                if not await refusal(offer, entry, copy.deepcopy(wrong)):
                    taken.append(rule)
    assert taken == []
    assert tried > 1


@promise("FR-001, shown", "agents are shown the same rules, but for what the instructions tell once")
@each_tool
def test_agents_are_shown_the_same_rules_but_for_what_is_told_once(entry: OfferedTool) -> None:
    whole, shown = without_references(input_schema(entry.tool)), without_references(shown_schema(entry.tool))
    Draft202012Validator.check_schema(shown_schema(entry.tool))
    lost = [each for each in _lost(whole, shown, "") if not SHOWN_ABOVE.search(each)]
    assert [each for each in lost if each.split()[-1] not in TOLD_ONCE] == []
    assert [each for each in lost if not NAMING.search(each)] == []


TOLD_ONCE = ("minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "default")
SHOWN_ABOVE = re.compile(r"(ops items|properties filters) (required|additionalProperties|properties \w+ .*)$")
"""The fields of one among several operations are those of a call with one; those of `filters` are the call's own: there
only their names are listed."""
NAMING = re.compile(
    r"(id|ids|if_commit|summary|goal|reason|type|types|rel|from|to|ref|name|fields|since|until|as_of|nonce|actor|links|project|scope|depends_on"
    r"|ancestor|author|source|target|new_parent|_by|items|paths|sections|related\w+|Id|format"
    r"|include_\w+|\w+_active|claim|release|remove|overwrite|around|facets|stale|proof|receipt|closure) \w+$"
)
"""Names, lists of them, times; and flags, which are false when nothing is said."""


def without_references(schema: Schema) -> Schema:
    definitions = schema.get("$defs", {})

    def replaced(reference: str) -> Schema:
        found: Schema = with_references(definitions[reference.removeprefix("#/$defs/")], replaced)
        return found

    plain: Schema = with_references({key: value for key, value in schema.items() if key != "$defs"}, replaced)
    return plain


def _lost(whole: Any, shown: Any, where: str) -> Iterator[str]:
    if isinstance(whole, dict):
        for key, value in whole.items():
            if key not in shown:
                yield f"{where} {key}"
            else:
                yield from _lost(value, shown[key], f"{where} {key}")
    else:
        assert whole == shown

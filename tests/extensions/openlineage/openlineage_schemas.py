"""The official OpenLineage schemas, kept with the tests: nothing is fetched."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

GOLDEN = Path(__file__).parents[2] / "golden" / "openlineage"


def faults_of(event: dict[str, Any]) -> list[str]:
    """What the schemas say against an event; every facet is held against the schema that it names."""
    found = [error.message for error in _validator("RunEvent").iter_errors(event)]
    for facet in _facets(event):
        found += [error.message for error in _facet_validator(facet["_schemaURL"]).iter_errors(facet)]
    return found


def _facets(event: dict[str, Any]) -> list[dict[str, Any]]:
    holders = [event["run"], event["job"], *event.get("inputs", []), *event.get("outputs", [])]
    return [
        facet
        for holder in holders
        for key in ("facets", "inputFacets", "outputFacets")
        for facet in holder.get(key, {}).values()
    ]


@cache
def _registry() -> Registry[Any]:
    documents = [json.loads(path.read_text("utf-8")) for path in GOLDEN.rglob("*.json")]
    return Registry().with_resources((each["$id"], Resource.from_contents(each)) for each in documents)


@cache
def _validator(name: str) -> Draft202012Validator:
    core = json.loads((GOLDEN / "OpenLineage.json").read_text("utf-8"))
    return _facet_validator(f"{core['$id']}#/$defs/{name}")


@cache
def _facet_validator(url: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": url}, registry=_registry(), format_checker=Draft202012Validator.FORMAT_CHECKER)

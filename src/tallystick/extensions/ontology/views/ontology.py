"""The ontology as its readers see it: which types there are, and `_system/ontology.yaml`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

ROOT = "ontology/ontology"
NODE_TYPE = "ontology/node_type"
CONNECTION_TYPE = "ontology/connection_type"
DEFINITIONS = frozenset({ROOT, NODE_TYPE, CONNECTION_TYPE})

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_TEXT = frozenset(["true", "false", "null", "yes", "no", "on", "off", "y", "n"])
"""Words that YAML would not read as text."""


class ConnectionType(msgspec.Struct, frozen=True):
    name: str
    from_types: list[str] = []
    to_types: list[str] = []
    required_properties: list[str] = []


class OntologyDocument:
    """The definitions so far, in the order in which they were made."""

    def __init__(self, definitions: Iterable[tuple[str, dict[str, Any]]] = ()) -> None:
        self.exists = False
        self.node_types: dict[str, None] = {}
        self.connection_types: dict[str, ConnectionType] = {}
        for kind, attrs in definitions:
            self.learn(kind, attrs)

    def learn(self, kind: str, attrs: dict[str, Any]) -> None:
        self.exists = True
        if kind == NODE_TYPE:
            self.node_types[str(attrs["name"])] = None
        elif kind == CONNECTION_TYPE:
            defined = msgspec.convert(attrs, ConnectionType)
            self.connection_types[defined.name] = defined


def to_yaml(known: OntologyDocument) -> bytes:
    lines = [*_listed("node_types", list(known.node_types), 0), ""]
    if not known.connection_types:
        return "\n".join([*lines, "connection_types: []", ""]).encode()
    lines.append("connection_types:")
    for number, defined in enumerate(known.connection_types.values()):
        if number:
            lines.append("")
        lines.append(f"  - name: {_text(defined.name)}")
        lines += _listed("from_types", defined.from_types, 4)
        lines += _listed("to_types", defined.to_types, 4)
        if defined.required_properties:
            lines += _listed("required_properties", defined.required_properties, 4)
    return "\n".join([*lines, ""]).encode()


def _listed(key: str, values: Sequence[str], indent: int) -> list[str]:
    margin = " " * indent
    if not values:
        return [f"{margin}{key}: []"]
    return [f"{margin}{key}:", *(f"{margin}  - {_text(value)}" for value in values)]


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    # A JSON string is a double-quoted YAML one.
    return json.dumps(value, ensure_ascii=False)

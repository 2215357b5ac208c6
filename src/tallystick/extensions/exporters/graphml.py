"""GraphML: a node for each entity, an edge for each edge, a key for each attribute.

Keys stand before the graph and follow from what is in it, so the graph is put aside until all of it is known.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from hashlib import sha256
from typing import Any, BinaryIO, Literal
from xml.sax.saxutils import escape, quoteattr

import orjson

from tallystick.extensions.exporters import Entity, Graph, Losses

_UNHEARD_OF = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot say, not even escaped."""
_BEGIN = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns'
    ' http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">\n'
)

Domain = Literal["node", "edge"]
Kind = Literal["boolean", "long", "double", "string"]


def open_writer(graph: Graph, output: BinaryIO, losses: Losses) -> _Writer:
    return _Writer(output, losses)


class _Key:
    def __init__(self, key_id: str, name: str) -> None:
        self.id = key_id
        self.name = name
        self.kinds: set[Kind] = set()
        self.is_json = False

    @property
    def kind(self) -> Kind:
        if len(self.kinds) == 1:
            return next(iter(self.kinds))
        return "double" if self.kinds == {"long", "double"} else "string"


class _Writer:
    def __init__(self, output: BinaryIO, losses: Losses) -> None:
        self._output = output
        self._losses = losses
        self._graph = tempfile.TemporaryFile()  # noqa: SIM115  # closed by finish, or with the writer
        self._keys: dict[tuple[Domain, str], _Key] = {}
        self._edges = 0

    def add(self, entity: Entity) -> None:
        said: dict[str, Any] = {
            "label": entity.title,
            "type": entity.type,
            "created_by": entity.created_by,
            "updated_by": entity.updated_by,
            "at": entity.at,
            "position": entity.position,
            "commit_id": entity.commit_id,
            "untrusted": entity.untrusted,
            "stale": entity.stale,
            "content": entity.text,
        }
        node_id = self._node_id(entity.id)
        parts = [f"<node id={node_id}>", *self._data("node", said, entity.attrs, entity.id), "</node>\n"]
        for link in entity.links:
            ends = f"source={node_id} target={self._node_id(link.target)}"
            edge: dict[str, Any] = {"rel": link.rel, "label": link.rel, "id": link.id, "at": link.at}
            edge |= {"content": link.text, "untrusted": link.untrusted, "stale": link.stale}
            # Not by its own id: an edge may be called as a node is.
            self._edges += 1
            parts.append(f'<edge id="e{self._edges}" {ends}>')
            parts += [*self._data("edge", edge, link.attrs, link.id), "</edge>\n"]
        self._graph.write("".join(parts).encode())

    def finish(self) -> None:
        self._output.write(_BEGIN.encode())
        for (domain, _), key in self._keys.items():
            attributes = f'id="{key.id}" for="{domain}" attr.name={self._quoted(key.name)} attr.type="{key.kind}"'
            self._output.write(f"<key {attributes}/>\n".encode())
            if key.kind == "string" and key.kinds != {"string"}:
                self._losses.note("attribute", "its values are of several kinds: all are texts there", key.name)
            if key.is_json:
                self._losses.note("attribute", "lists and objects are JSON there", key.name)
        self._output.write(b'<graph id="memory" edgedefault="directed">\n')
        self._graph.seek(0)
        shutil.copyfileobj(self._graph, self._output, 1 << 20)
        self._graph.close()
        self._output.write(b"</graph>\n</graphml>\n")

    def _data(self, domain: Domain, said: dict[str, Any], attrs: dict[str, Any], entity_id: str) -> list[str]:
        named = [(name, name, value) for name, value in said.items() if value is not None]
        # An attribute called as one of ours is told apart by its key.
        named += [(f"attrs.{name}", f"attrs.{name}" if name in said else name, value) for name, value in attrs.items()]
        for name, value in attrs.items():
            if value is None:
                self._losses.note("attribute that is null", "left out", f"{entity_id}: {name}")
        return [self._datum(domain, place, name, value, entity_id) for place, name, value in named if value is not None]

    def _datum(self, domain: Domain, place: str, name: str, value: Any, entity_id: str) -> str:
        key = self._keys.get((domain, place))
        if key is None:
            key = self._keys[domain, place] = _Key(f"k{len(self._keys)}", name)
        key.kinds.add(_kind_of(value))
        key.is_json |= isinstance(value, dict | list)
        text = value if isinstance(value, str) else orjson.dumps(value).decode()
        return f'<data key="{key.id}">{escape(self._sayable(text, entity_id), _CARRIAGE)}</data>'

    def _node_id(self, entity_id: str) -> str:
        """Two that differ only in what XML cannot say stay two."""
        if _UNHEARD_OF.search(entity_id) is None:
            return self._quoted(entity_id)
        return self._quoted(f"{entity_id} {sha256(entity_id.encode('utf-8', 'surrogatepass')).hexdigest()}")

    def _quoted(self, text: str) -> str:
        return quoteattr(self._sayable(text, text), _BLANKS)

    def _sayable(self, text: str, entity_id: str) -> str:
        found, count = _UNHEARD_OF.subn("\ufffd", text)
        if count:
            self._losses.note("character that XML does not have", "replaced by U+FFFD", entity_id)
        return found


_CARRIAGE = {"\r": "&#13;"}
_BLANKS = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}


def _kind_of(value: Any) -> Kind:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long"
    return "double" if isinstance(value, float) else "string"

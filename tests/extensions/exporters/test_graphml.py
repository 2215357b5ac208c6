"""Exports as GraphML, read by an XML parser."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.command_line import CommandLine, edge, node
from tests.extensions.exporters.exports import exported
from tests.promises import promise

_NAMESPACE = {"g": "http://graphml.graphdrawing.org/xmlns"}


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


class _Read:
    """As programs read it: by the keys that stand before the graph."""

    def __init__(self, path: Path) -> None:
        self.root = ElementTree.parse(path).getroot()
        keys = self.root.findall("g:key", _NAMESPACE)
        self.types = {(each.get("for"), each.get("attr.name")): each.get("attr.type") for each in keys}
        self._names = {each.get("id"): each.get("attr.name") for each in keys}
        self.nodes = {each.get("id"): self._data(each) for each in self.root.findall("g:graph/g:node", _NAMESPACE)}
        edges = self.root.findall("g:graph/g:edge", _NAMESPACE)
        self.edges = [(each.get("source"), each.get("target"), self._data(each)) for each in edges]

    def _data(self, element: ElementTree.Element) -> dict[str | None, Any]:
        return {self._names[each.get("key")]: each.text for each in element.findall("g:data", _NAMESPACE)}


def test_nodes_and_edges_have_their_attributes_with_the_types_that_they_have(
    tmp_path: Path, shell: CommandLine
) -> None:
    shell.write(
        node("a", "T", name="A", n=1, x=1.5, both=1, flag=True, any="1", tags=["x"], label="mine"),
        node("b", "T", n=2, x=2, both=1.5, any=1),
        edge("a", "near", "b", weight=3),
    )
    report = exported(shell, "graphml", tmp_path / "g.xml")
    read = _Read(tmp_path / "g.xml")
    wanted = {"n": "long", "x": "double", "both": "double", "flag": "boolean", "any": "string", "tags": "string"}
    assert {name: read.types["node", name] for name in wanted} == wanted
    assert read.types["edge", "weight"] == "long"
    a = read.nodes["a"]
    assert (a["label"], a["attrs.label"], a["type"], a["n"], a["flag"], a["tags"]) == (
        "A",
        "mine",
        "T",
        "1",
        "true",
        '["x"]',
    )
    ((source, target, said),) = read.edges
    assert (source, target, said["rel"], said["weight"]) == ("a", "b", "near", "3")
    told = {each["reason"]: each["examples"] for each in report["losses"] if each["what"] == "attribute"}
    assert told == {
        "its values are of several kinds: all are texts there": ["any"],
        "lists and objects are JSON there": ["tags"],
    }


@promise("export-graphml", "GraphML is whole XML, and says the same whatever is written")
def test_whatever_is_written_the_xml_is_whole_and_says_the_same(tmp_path: Path, shell: CommandLine) -> None:
    texts = ["<b>&amp;", "]]>", "quote\"'", " blank ", "a\r\nb\tc", "<!--", "<?x?>", "🏔"]
    shell.write(
        *(node(f"n{number}", text, text=text, **{text: 1}) for number, text in enumerate(texts) if text.isprintable())
    )
    shell.write(node("controls", text="a\x00\x1b\ufffeb"), node("ends", text="a\r\nb\tc"))
    report = exported(shell, "graphml", tmp_path / "g.xml")
    read = _Read(tmp_path / "g.xml")
    for number, text in enumerate(texts):
        if text.isprintable():
            said = read.nodes[f"n{number}"]
            assert (said["text"], said["type"], said[text]) == (text, text, "1")
    assert read.nodes["controls"]["text"] == "a\ufffd\ufffd\ufffdb"
    assert read.nodes["ends"]["text"] == "a\r\nb\tc"
    (told,) = [each for each in report["losses"] if "XML" in each["what"]]
    assert told["examples"] == ["controls"]

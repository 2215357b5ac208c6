"""The block in AGENTS.md and CLAUDE.md that tells an agent, in a few lines, to use its memory.

Between two comments with a version: what is between them is ours and is replaced as a whole, all else is theirs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tallystick.extensions.clients.splice import Splice, newline_of, unreadable

VERSION = 1
BLOCK = """\
<!-- tallystick:begin v1 -->
## Memory

Tallystick is this repository's memory, shared by all agents that work here; its tools are served over MCP.

- Look before you write: ask `memory_search` what is known before you decide, and `query_graph` about the files that you are going to change.
- Claim before you work: take the next task by `graph_next` with `claim`, so that nobody else begins it too.
- Done with evidence: when it is finished, resolve it by `graph_update` and name what shows it (a commit, a test).
- Write down by `memory_write` what the next one could not see in the code: decisions with their reasons, what failed, and why.
<!-- tallystick:end -->
"""  # noqa: E501
_BEGIN = re.compile(r"(?:^|(?<=\ufeff))<!-- tallystick:begin v(\d{1,6}) -->[ \t]*\r?$", re.MULTILINE)
_END = re.compile(r"^<!-- tallystick:end -->[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_IMPORT = re.compile(r"(?:^|\s)@(?:\./)?AGENTS\.md\b", re.MULTILINE)


class Block(NamedTuple):
    start: int
    end: int
    version: int
    text: str

    @property
    def is_ours(self) -> bool:
        return self.text.replace("\r\n", "\n").rstrip() == BLOCK.rstrip()


def find(text: str) -> Block | None:
    """Raises Unreadable where it begins twice, or does not end."""
    begins = list(_BEGIN.finditer(text))
    if not begins:
        return None
    end = _END.search(text, begins[0].end())
    if len(begins) > 1:
        raise unreadable(text, begins[1].start(), "'tallystick:begin' stands here a second time")
    if end is None:
        raise unreadable(text, begins[0].start(), "'tallystick:begin' is followed by no 'tallystick:end'")
    start = begins[0].start()
    return Block(start, end.end(), int(begins[0][1]), text[start : end.end()])


def put(text: str) -> Splice:
    """At the end, apart by an empty line."""
    newline = newline_of(text)
    gap = "" if not text.strip("\ufeff \t\r\n") else newline if text.endswith("\n") else newline * 2
    return Splice(len(text), gap + BLOCK.replace("\n", newline))


def cut(text: str) -> str:
    """Without it, and without the empty line before it unless that parts what is left."""
    block = find(text)
    if block is None:
        raise KeyError("tallystick:begin")
    before, rest = text[: block.start], text[block.end :]
    for newline in ("\r\n", "\n"):
        if before.endswith(newline * 2) and (not rest or rest.startswith(newline)):
            before = before.removesuffix(newline)
            break
    return before + rest


def imports_agents(text: str) -> bool:
    """Whether a CLAUDE.md takes AGENTS.md in, so that the block there is enough."""
    return _IMPORT.search(text) is not None

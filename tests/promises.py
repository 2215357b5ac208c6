"""The promises of the specs, in our own words, each on the test that shows it.

`docs/reference/promises.md` lists them; `make docs` writes it from these decorators.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

T = TypeVar("T")
ROOT = Path(__file__).parent.parent


class Promise(NamedTuple):
    id: str
    text: str
    test: str


def promise(id: str, text: str) -> Callable[[T], T]:
    """Mark a test as the one that shows a promise. `id` is the requirement, scenario or reading that makes it."""
    return lambda test: test


def promises() -> list[Promise]:
    """Return every promise, in the order of the ids."""
    paths = (path for path in (ROOT / "tests").rglob("*.py") if "node_modules" not in path.parts)
    return sorted(each for path in paths for each in _promises(path))


def _promises(path: Path) -> Iterator[Promise]:
    text = path.read_text("utf-8")
    if "@promise(" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                match decorator:
                    case ast.Call(func=ast.Name(id="promise"), args=[id, words]):
                        test = f"{path.relative_to(ROOT)}::{node.name}"
                        yield Promise(ast.literal_eval(id), ast.literal_eval(words), test)

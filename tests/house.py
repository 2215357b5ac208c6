"""The figures of the house: the size of the core, which files name an extension, what a session loads.

`make house` prints them. `test_house.py` holds the counts, and never a time.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tallystick"
EXTENSIONS = SOURCE / "extensions"

_REPORTING = """
import atexit, sys
atexit.register(lambda: print(sum(name.split(".")[0] == "tallystick" for name in sys.modules), file=sys.stderr))
from tallystick.cli import main
main()
"""
_NODE = {"id": "tea", "type": "Note", "attrs": {"text": "brewed at noon"}}
_CALLS = (
    ("memory.write", {"op": "UPSERT_NODE", "node": _NODE}),
    ("memory.search", {"query": "brewed"}),
    ("graph_open", {"project": "shop", "goal": "sell"}),
    ("graph_next", {"project": "shop", "claim": True}),
)


def sources() -> dict[Path, str]:
    """Return the text of each module by its path below the package."""
    return {path.relative_to(SOURCE): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}


def is_core(path: Path) -> bool:
    return path.parts[0] != "extensions"


def lines(texts: dict[Path, str]) -> int:
    return sum(len(text.splitlines()) for text in texts.values())


def files_that_name(texts: dict[Path, str]) -> Counter[str]:
    """Return how many files outside of each extension refer to its package."""
    names = [each.name for each in EXTENSIONS.iterdir() if (each / "extension.py").exists()]
    references: Counter[str] = Counter(dict.fromkeys(names, 0))
    for path, text in texts.items():
        for name in names:
            outside = path.parts[:2] != ("extensions", name)
            references[name] += outside and bool(re.search(rf"extensions(\.| import ){name}\b", text))
    return references


def modules_at_root() -> list[str]:
    return sorted(path.stem for path in SOURCE.glob("*.py") if not path.stem.startswith("__"))


def functions_with_state_and_filter(texts: dict[Path, str]) -> list[str]:
    """Return the functions that are passed both a state and a read filter."""
    return [f"{path}:{name}" for path, text in texts.items() for name in _holders(ast.parse(text))]


def _holders(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            kinds = {ast.unparse(each.annotation) for each in arguments if each.annotation is not None}
            names = {each.arg for each in arguments}
            if {"State", "ReadFilter"} <= kinds or {"state", "read_filter"} <= names:
                yield getattr(node, "name", "lambda")


def modules_loaded(base: Path) -> int:
    """Return how many of our modules a session over stdio loads that writes, searches and claims."""
    requests: list[dict[str, object]] = [
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "house", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    for number, (name, arguments) in enumerate(_CALLS, 1):
        parameters = {"name": name, "arguments": arguments}
        requests.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": parameters})
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TALLYSTICK_", "GRAPH_"))}
    server = subprocess.Popen(
        [sys.executable, "-c", _REPORTING, "serve", "--base", str(base)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd=base.parent,
    )  # fmt: skip
    assert server.stdin is not None
    assert server.stdout is not None
    for request in requests:
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        if "id" in request:
            answer = json.loads(server.stdout.readline())
            assert "result" in answer, answer
            assert not answer["result"].get("isError"), answer
    _, errors = server.communicate()
    return int(errors.split()[-1])


def main() -> None:
    texts = sources()
    core = {path: text for path, text in texts.items() if is_core(path)}
    naming = files_that_name(texts)
    with tempfile.TemporaryDirectory() as directory:
        loaded = modules_loaded(Path(directory) / "base")
    rows: dict[str, object] = {
        "lines outside extensions/": lines(core),
        "lines in src": lines(texts),
        "files in src": len(texts),
        "modules at the root of the package": len(modules_at_root()),
        "modules that a session over stdio loads": loaded,
        "functions that hold a state and a read filter": len(functions_with_state_and_filter(texts)),
        "files that name an extension, the worst": f"{max(naming.values())} ({max(naming, key=naming.__getitem__)})",
    }
    for name, value in rows.items():
        print(f"{name:46} {value}")
    for name, count in naming.most_common():
        print(f"  {name:44} {count}")


if __name__ == "__main__":
    main()

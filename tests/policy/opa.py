"""A double of an OPA server: its data API over HTTP, with OPA's own evaluator behind it, or ours.

No package registry has the server itself. Its evaluator is to be had (see opa.txt): with it,
what a policy means is OPA's own word, and only the HTTP face is a double. Run as a process of
its own, since the evaluator brings the Go runtime with it:

    python -m tests.policy.opa opa|regorus FILE.rego ...      prints the port
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from tallystick.policy.bundle import Module
from tallystick.policy.rego import Engine, RegoError

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
POLICIES = sorted((HERE / "policies").glob("*.rego"))
HAS_OPA = importlib.util.find_spec("opa_bindings") is not None
WITHOUT_OPA = "OPA's evaluator is not installed: pip install … -r tests/policy/opa.txt"

Evaluate = Callable[[str, Any], Any]
"""The value at a path with dots, None where it is undefined; raises ValueError where it cannot be told."""


def by_opa(files: list[Path]) -> Evaluate:
    bindings: Any = importlib.import_module("opa_bindings")
    engine = bindings.OpaEngine()
    for file in files:
        engine.add_policy(file.name, file.read_text("utf-8"))

    def evaluate(path: str, question: Any) -> Any:
        try:
            return engine.eval_document(path, question)
        except bindings.OpaUndefinedError:
            return None
        except bindings.OpaError as error:
            raise ValueError(str(error)) from None

    return evaluate


def by_regorus(files: list[Path]) -> Evaluate:
    modules = [Module(file.name, file.read_text("utf-8")) for file in files]

    def evaluate(path: str, question: Any) -> Any:
        # Made anew each time: an engine belongs to one thread, and each connection has its own.
        engine = Engine(modules)
        if all(rule.path != f"data.{path}" for rule in engine.rules):
            return None
        try:
            return engine.evaluate(f"data.{path}", question)
        except RegoError as error:
            raise ValueError(str(error)) from None

    return evaluate


ENGINES = {"opa": by_opa, "regorus": by_regorus}


@contextmanager
def running(engine: str, files: list[Path]) -> Iterator[str]:
    """The address of such a server, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.policy.opa", engine, *map(str, files)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class _Face(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body leave together: the client would otherwise wait for a delayed acknowledgement.
    wbufsize = -1
    evaluate: Evaluate
    lock = Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = re.fullmatch(r"/v1/data/([\w/]+)", self.path)
        if path is None:
            self._answer(404, {"code": "undefined_document", "message": "no such path"})
            return
        try:
            question = json.loads(body)["input"]
        except (ValueError, KeyError) as error:
            self._answer(400, {"code": "invalid_parameter", "message": f"body: {error}"})
            return
        try:
            with self.lock:
                value = type(self).evaluate(path[1].replace("/", "."), question)
        except ValueError as error:
            self._answer(500, {"code": "internal_error", "message": str(error)})
            return
        self._answer(200, {} if value is None else {"result": value})

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Tests print nothing."""


def main(engine: str, *files: str) -> None:
    _Face.evaluate = staticmethod(ENGINES[engine]([Path(file) for file in files]))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Face)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

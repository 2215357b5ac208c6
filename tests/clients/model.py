"""A stand-in for a provider's API: the model that agent frameworks ask, with a script instead of a mind.

It speaks as much of OpenAI's two APIs (chat completions, responses) as the frameworks ask for, refuses tools
whose names the provider would refuse, and keeps all that a model would have seen.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAMES = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What the provider accepts; it refuses the whole request for one other name."""

Call = tuple[str, dict[str, Any]]


class Model:
    """Calls one tool of the script in each turn, then says that it is done."""

    def __init__(self, script: Sequence[Call]) -> None:
        self._script = list(script)
        self._turns: Iterator[Call] = iter(self._script)
        self.seen: list[dict[str, Any]] = []
        """The requests, oldest first."""
        self.url = ""

    @property
    def tools(self) -> list[str]:
        """As it was offered them: by the API, or as functions for the code that it is asked to write."""
        by_api = [_tool_name(tool) for tool in self.seen[0].get("tools", ())]
        return by_api or _FUNCTION.findall(self.read(turn=0))

    def read(self, *, turn: int) -> str:
        """All that it was told until a turn, wherever the framework put it."""
        said = self.seen[turn].get("messages") or self.seen[turn].get("input")
        return "\n".join(_texts(said))

    def answer(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.seen.append(request)
        tools = [_tool_name(tool) for tool in request.get("tools", ())]
        refused = [name for name in tools if not NAMES.fullmatch(name)]
        if refused:
            words = f"Invalid 'tools[{tools.index(refused[0])}].function.name': string does not match pattern."
            return 400, {"error": {"message": words, "type": "invalid_request_error", "code": "invalid_value"}}
        call = next(self._turns, None)
        number = len(self.seen)
        if not tools:
            return 200, _completion(number, None, _code(call))
        return 200, _response(number, call) if path.endswith("/responses") else _completion(number, call)


@contextmanager
def serving(model: Model) -> Iterator[Model]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, said = model.answer(self.path, asked)
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _tool_name(tool: dict[str, Any]) -> str:
    return str(tool["function"]["name"] if "function" in tool else tool["name"])


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


_FUNCTION = re.compile(r"^def (\S+)\(", re.MULTILINE)


def _code(call: Call | None) -> str:
    line = 'final_answer("done")' if call is None else f"print({call[0]}(**{call[1]!r}))"
    return f"Thought: so be it.\n<code>\n{line}\n</code>"


def _completion(number: int, call: Call | None, text: str = "done") -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text if call is None else None}
    if call is not None:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop" if call is None else "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _response(number: int, call: Call | None) -> dict[str, Any]:
    if call is None:
        text = {"type": "output_text", "text": "done", "annotations": []}
        item: dict[str, Any] = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
    else:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": call[0]}
        item["arguments"] = json.dumps(call[1])
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "gpt-4o",
        "output": [{**item, "status": "completed"}],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }

"""A stand-in for the models' APIs: what Claude Code and Codex ask, with a script instead of a mind.

It streams as Anthropic's messages and OpenAI's responses do, takes the turns of the script one after another, and
keeps every request: what a model would have seen.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple

Event = dict[str, Any]


class Say(NamedTuple):
    """A turn that ends with words."""

    text: str


class Call(NamedTuple):
    """A turn that calls a tool by the name under which the client offers it."""

    name: str
    arguments: dict[str, Any]
    namespace: str | None = None
    """Of Codex's tools; Claude Code has none."""


class Code(NamedTuple):
    """A turn that runs JavaScript, which calls tools: how Codex offers them to newer models."""

    script: str


class Await(NamedTuple):
    """Calls something harmless, turn after turn, until the tools on offer say a word: Codex begins without a server
    that is slow to start, and offers its tools later."""

    word: str
    meanwhile: Call


Step = Say | Call | Code
Turn = Step | Await
OVER = Say("That is all.")
PATIENCE = 500
"""Requests in a conversation; far more than are needed on a busy machine."""


class Model:
    def __init__(self, script: Sequence[Turn]) -> None:
        self._script = list(script)
        self._numbers = count(1)
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        """Of the conversation, oldest first; not those for a title and the like."""
        self.asides: list[tuple[str, Any]] = []
        """The other requests, with their paths."""
        self.url = ""

    def messages(self, request: dict[str, Any]) -> list[Event]:
        return list(_anthropic(next(self._numbers), self._next(request)))

    def responses(self, request: dict[str, Any]) -> list[Event]:
        return list(_openai(next(self._numbers), self._next(request)))

    def _next(self, request: dict[str, Any]) -> Step:
        with self._lock:
            if not _tools(request):
                self.asides.append(("", request))
                return OVER
            self.requests.append(request)
            return self._turn(json.dumps(_tools(request)))

    def _turn(self, offered: str) -> Step:
        turn = self._script.pop(0) if self._script else OVER
        if not isinstance(turn, Await):
            return turn
        if turn.word in offered:
            return self._turn(offered)
        self._script.insert(0, turn)
        return turn.meanwhile if len(self.requests) < PATIENCE else OVER

    def told(self, request: int = -1) -> list[str]:
        """Every text that one request holds beside the tools, in order."""
        asked = self.requests[request]
        said = [asked.get(key) for key in ("system", "instructions", "messages", "input")]
        return list(_texts(said))

    def tools(self, request: int = -1) -> list[dict[str, Any]]:
        """As the client offers them in one request."""
        return _tools(self.requests[request])


@contextmanager
def serving(model: Model) -> Iterator[Model]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            match path:
                case "/v1/messages":
                    self._stream(model.messages(json.loads(body)))
                case "/v1/responses":
                    self._stream(model.responses(json.loads(body)))
                case _:
                    self._refuse(path, body)

        def do_GET(self) -> None:
            self._refuse(self.path, b"")

        do_HEAD = do_GET

        def _stream(self, events: list[Event]) -> None:
            data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
            self._send(200, "text/event-stream", data)

        def _refuse(self, path: str, body: bytes) -> None:
            model.asides.append((path, body))
            self._send(404, "application/json", b'{"type":"error","error":{"type":"not_found_error","message":""}}')

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _tools(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that stand in Codex's input, too."""
    return [*request.get("tools", ()), *(tool for item in request.get("input", ()) for tool in item.get("tools", ()))]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _anthropic(number: int, turn: Step) -> Iterator[Event]:
    usage = {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    opened: Event = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": opened}
    assert not isinstance(turn, Code)
    if isinstance(turn, Say):
        block: Event = {"type": "text", "text": ""}
        delta: Event = {"type": "text_delta", "text": turn.text}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": turn.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    reason = "end_turn" if isinstance(turn, Say) else "tool_use"
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


def _openai(number: int, turn: Step) -> Iterator[Event]:
    response = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "gpt-5"}
    yield {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}
    if isinstance(turn, Say):
        text = {"type": "output_text", "text": turn.text, "annotations": []}
        item: Event = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
    elif isinstance(turn, Code):
        item = {"type": "custom_tool_call", "id": f"ctc_{number}", "call_id": f"call_{number}", "name": "exec"}
        item["input"] = turn.script
    elif turn.name == "tool_search":
        item = {"type": "tool_search_call", "id": f"ts_{number}", "call_id": f"call_{number}", "execution": "client"}
        item["arguments"] = turn.arguments
    else:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": turn.name}
        item["arguments"] = json.dumps(turn.arguments)
        if turn.namespace is not None:
            item["namespace"] = turn.namespace
    done = {**item, "status": "completed"}
    yield {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": done}
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    done_response = {**response, "status": "completed", "output": [done], "usage": usage}
    yield {"type": "response.completed", "response": done_response}

"""Ask a server instead of the files: where tokens or a policy decide who may read what, it decides.

Over REST, with the token that the environment holds, and within the time that a hook has.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import msgspec

from tallystick.config import Settings
from tallystick.extensions.hooks.clients import Event
from tallystick.extensions.hooks.command import seconds
from tallystick.system.processes import tags_above

TOKEN_VARIABLE = "TALLYSTICK_TOKEN"
PATH = "/v1/tools/hook.context"
_SHARE = 0.7
"""Of the time that a hook has."""
_ANSWER_BYTES_MAX = 64 << 10


class _Specific(msgspec.Struct, frozen=True, rename="camel"):
    additional_context: str = ""


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    hook_specific_output: _Specific = _Specific()
    reason: str = ""


def ask(settings: Settings, event: Event, paths: Sequence[str]) -> str:
    """What it has to say; empty where there is no server, or it refuses. Raises what a connection raises."""
    address = urlsplit(os.environ.get("TALLYSTICK_URL") or _address(settings))
    if address.scheme not in ("http", "https") or not address.hostname:
        return ""
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    connection = kind(address.hostname, address.port, timeout=_SHARE * seconds())
    said = {
        "event": event.kind,
        "client": event.client,
        "session_id": event.session,
        "prompt": event.prompt,
        "paths": list(paths),
        "stop_hook_active": event.is_repeated,
        "processes": sorted(tags_above()),
    }
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    if token := os.environ.get(TOKEN_VARIABLE):
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request("POST", address.path.rstrip("/") + PATH, msgspec.json.encode(said), headers)
        answer = connection.getresponse()
        data = answer.read(_ANSWER_BYTES_MAX)
        found = msgspec.json.decode(data, type=_Answer) if answer.status == 200 else _Answer()
    except (HTTPException, msgspec.MsgspecError):
        return ""
    finally:
        connection.close()
    return found.hook_specific_output.additional_context or found.reason


def _address(settings: Settings) -> str:
    if settings.public_url or not settings.http:
        return settings.public_url
    return f"{'https' if settings.tls_cert else 'http'}://{settings.http}"

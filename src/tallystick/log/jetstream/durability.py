"""Whether the servers sync every write: asked of themselves, since by default they do so every two minutes.

A server says it to its monitoring (`/varz`) and to whoever may ask the system account. Which of the two an
operator opens to us is theirs to choose; where neither is open, the answer is that nobody knows.
"""

from __future__ import annotations

import http.client
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.log.jetstream.client import Client, NoAnswer

if TYPE_CHECKING:
    from tallystick.log.jetstream.stream import Stream

_PING = "$SYS.REQ.SERVER.PING.JSZ"
_USER = "$SYS.REQ.USER.INFO"
_SECONDS = 1.0
_MONITOR_SECONDS = 5.0
_ANSWER_BYTES_MAX = 4 << 20
_HOW = (
    "set 'sync_interval: always' in the jetstream block of every server. To let it be seen, name the servers'"
    " monitoring in log_monitor (http://host:8222), or let our account import the service $SYS.REQ.SERVER.PING.JSZ of"
    ' the system account. log_sync = "unchecked" goes without'
)


def find_unsynced(client: Client, peers: Collection[str], monitors: Sequence[str]) -> tuple[str, str] | None:
    """What stands against trusting these servers, and what to do; None where a quorum of them syncs every write.

    `peers` are the names of those that keep the stream; empty where there is one server and no cluster.
    """
    said = dict(_asked_of_monitors(monitors)) or dict(_asked_of_system(client))
    lazy = sorted(name for name, syncs in said.items() if not syncs and (not peers or name in peers))
    if lazy:
        return f"the NATS server {', '.join(lazy)} does not sync every write: a power cut may lose commits", _HOW
    seen = {name for name in said if not peers or name in peers}
    if len(seen) <= len(peers) // 2:
        return (
            f"it cannot be seen whether the NATS servers ({', '.join(sorted(peers)) or 'one'}) sync every write",
            _HOW,
        )
    return None


def _asked_of_system(client: Client) -> Iterator[tuple[str, bool]]:
    try:
        answers = client.survey(_PING, seconds=_SECONDS)
    except NoAnswer:
        return
    for answer in answers:
        said = _decoded(answer.data)
        yield said.get("server", {}).get("name", "?"), _syncs(said.get("data", {}))


def _asked_of_monitors(monitors: Sequence[str]) -> Iterator[tuple[str, bool]]:
    for monitor in monitors:
        said = _monitored(monitor, "varz")
        if said:
            yield said.get("server_name", monitor), _syncs(said.get("jetstream", {}))


def raft_logs(stream: Stream, monitors: Sequence[str]) -> dict[str, tuple[int, int]] | None:
    """Server → the first and the last entry that the Raft log of a stream has there; None where nobody may look."""
    info = stream.info() or {}
    group = (info.get("cluster") or {}).get("raft_group")
    if group is None:
        # One server without a cluster has none.
        return {}
    if not monitors:
        return None
    account = _decoded(stream.client.request(_USER, seconds=_MONITOR_SECONDS).data).get("data", {}).get("account", "$G")
    found = {}
    for monitor in monitors:
        name = _monitored(monitor, "varz").get("server_name")
        said = _monitored(monitor, f"raftz?{urllib.parse.urlencode({'acc': account, 'group': group})}")
        log = said.get(account, {}).get(group, {}).get("wal")
        if name is not None and log is not None:
            found[name] = (int(log["first_seq"]), int(log["last_seq"]))
    return found


def _monitored(monitor: str, path: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{monitor.rstrip('/')}/{path}", timeout=_MONITOR_SECONDS) as answer:
            return _decoded(answer.read(_ANSWER_BYTES_MAX))
    except (OSError, ValueError, http.client.HTTPException):
        # One that is down is asked again later.
        return {}


def _syncs(said: dict[str, Any]) -> bool:
    return (said.get("config") or {}).get("sync_always") is True


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}

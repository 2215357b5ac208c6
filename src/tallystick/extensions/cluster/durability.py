"""Whether the servers sync every write: asked of themselves, since by default they do so every two minutes.

A server says it to its monitoring (`/varz`) and to whoever may ask the system account. Which of the two an
operator opens to us is theirs to choose; where neither is open, the answer is that nobody knows.
"""

from __future__ import annotations

import http.client
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.extensions.cluster.client import Client, Forbidden, NoAnswer

if TYPE_CHECKING:
    from tallystick.extensions.cluster.stream import Stream

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

    `peers` are the names of those that keep the stream; empty where there is one server and no cluster. Raises
    NoAnswer while fewer than a quorum answer that could.
    """
    said = _said(client, peers, monitors)
    if not all(said.values()):
        return _lazy(said)
    if len(said) <= len(peers) // 2:
        if said or monitors:
            # There is a way to see it, and too few of them answer now.
            answered = ", ".join(sorted(said)) or "none"
            raise NoAnswer(f"of the servers {', '.join(sorted(peers))} only {answered} answered", was_sent=True)
        return (
            f"it cannot be seen whether the NATS servers ({', '.join(sorted(peers)) or 'one'}) sync every write",
            _HOW,
        )
    return None


def find_lazy(client: Client, peers: Collection[str], monitors: Sequence[str]) -> tuple[str, str] | None:
    """The same of those that answer now; None where none of them says otherwise. Raises NoAnswer where none answers."""
    said = _said(client, peers, monitors)
    if not said:
        raise NoAnswer("no server says whether it syncs every write", was_sent=True)
    return None if all(said.values()) else _lazy(said)


def _said(client: Client, peers: Collection[str], monitors: Sequence[str]) -> dict[str, bool]:
    """Server → whether it syncs every write."""
    said = dict(_asked_of_monitors(monitors)) or dict(_asked_of_system(client))
    return {name: syncs for name, syncs in said.items() if not peers or name in peers}


def _lazy(said: Mapping[str, bool]) -> tuple[str, str]:
    lazy = ", ".join(sorted(name for name, syncs in said.items() if not syncs))
    return f"the NATS server {lazy} does not sync every write: a power cut may lose commits", _HOW


def _asked_of_system(client: Client) -> Iterator[tuple[str, bool]]:
    try:
        answers = client.survey(_PING, seconds=_SECONDS)
    except Forbidden:
        return
    for answer in answers:
        said = _decoded(answer.data)
        yield said.get("server", {}).get("name", "?"), _syncs(said.get("data", {}))


def _asked_of_monitors(monitors: Sequence[str]) -> Iterator[tuple[str, bool]]:
    for monitor in monitors:
        said = _monitored(monitor, "varz")
        if said:
            yield said.get("server_name", monitor), _syncs(said.get("jetstream", {}))


class RaftLogs(msgspec.Struct, frozen=True):
    """Of one stream, on the servers that keep it."""

    servers: frozenset[str] = frozenset()
    """None where one server keeps it: it needs no such log."""
    leader: str = ""
    may_look: bool = False
    found: dict[str, tuple[int, int]] = {}
    """Server → the first and the last entry that its log has; only those that answer."""

    def last(self) -> int | None:
        """The newest entry; only the leader is sure to have it."""
        return self.found[self.leader][1] if self.leader in self.found else None


def raft_logs(stream: Stream, monitors: Sequence[str]) -> RaftLogs:
    """Raises NoAnswer."""
    info = stream.info() or {}
    cluster = info.get("cluster") or {}
    group = cluster.get("raft_group")
    if group is None or info["config"]["num_replicas"] < 2:
        return RaftLogs()
    servers, leader = frozenset(peers_of(info)), cluster.get("leader") or ""
    if not monitors:
        return RaftLogs(servers, leader)
    account = _decoded(stream.client.request(_USER, seconds=_MONITOR_SECONDS).data).get("data", {}).get("account", "$G")
    found = {}
    for monitor in monitors:
        name = _monitored(monitor, "varz").get("server_name")
        said = _monitored(monitor, f"raftz?{urllib.parse.urlencode({'acc': account, 'group': group})}")
        log = said.get(account, {}).get(group, {}).get("wal")
        if name is not None and log is not None:
            found[name] = (int(log["first_seq"]), int(log["last_seq"]))
    return RaftLogs(servers, leader, True, found)


def peers_of(info: Mapping[str, Any]) -> set[str]:
    """The names of the servers that keep a stream."""
    cluster = info.get("cluster") or {}
    return {name for name in (cluster.get("leader"), *(each["name"] for each in cluster.get("replicas") or ())) if name}


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

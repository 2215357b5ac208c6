"""Logs on a real NATS server, each test with a stream of its own."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from tallystick.extensions.cluster.client import Servers
from tallystick.extensions.cluster.jetstream_log import JetStreamLog, Place
from tallystick.extensions.cluster.stream import Trust
from tests.nats_cluster import Cluster


def place_of(cluster: Cluster, base: Path, *, stream: str, replicas: int = 1, **changes: Any) -> Place:
    """A machine with this base, on this cluster."""
    monitors = tuple(f"http://{node.host}:{node.monitor_port}" for node in cluster.nodes)
    given: dict[str, Any] = {
        "base": base,
        "stream": stream,
        "servers": Servers(tuple(cluster.url.split(","))),
        "trust": Trust(replicas=replicas, monitors=monitors),
        "system_of": systems(base),
        "segment_bytes_max": 64 << 20,
    }
    return Place(**{**given, **changes})


def open_log(
    cluster: Cluster, base: Path, *, stream: str, tenant: str = "default", replicas: int = 1, **changes: Any
) -> JetStreamLog:
    return JetStreamLog(place_of(cluster, base, stream=stream, replicas=replicas, **changes), tenant)


def systems(base: Path) -> Callable[[str], Path]:
    """Where tenants lie, as in a base."""
    return lambda tenant: base / "_system" if tenant == "default" else base / "tenants" / tenant / "_system"


def stream_for(tmp_path: Path) -> str:
    """A name that no other test has."""
    return f"tally-{sha256(str(tmp_path).encode()).hexdigest()[:16]}"

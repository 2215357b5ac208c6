"""The socket that connections arrive at."""

from __future__ import annotations

import socket

_BACKLOG = 2048


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """`shared`: others may listen there too, and each gets a part of what arrives. Raises OSError."""
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family, backlog=_BACKLOG, reuse_port=shared)

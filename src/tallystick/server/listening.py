"""The socket that connections arrive at."""

from __future__ import annotations

import socket

_BACKLOG = 2048


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """`shared`: others may listen there too, and each gets a part of what arrives. Raises OSError."""
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family, backlog=_BACKLOG, reuse_port=shared)


def bind_shared(like: socket.socket) -> socket.socket:
    """Return a socket at the same address, which gets no connections until it listens. Raises OSError."""
    bound = socket.socket(like.family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if like.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(like.getsockname()[:2])
    except BaseException:
        bound.close()
        raise
    return bound

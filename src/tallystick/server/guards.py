"""Under which names the server answers, to which web pages, and at which addresses it may listen.

A web page that its author points at our address (DNS rebinding) carries its own name in Host and
Origin, so only our own names are answered. Pages of other programs on this machine are foreign too: of the
pages only our own may call, and those that the operator lists.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache

from tallystick.errors import InvalidArgument

Headers = list[tuple[bytes, bytes]]
"""As ASGI has them: names in lower case."""

HEADERS_KEY = "tallystick.headers"
"""Where the headers by their names stand in the ASGI scope; of one given twice, the first."""
BODY_KEY = "tallystick.body"
"""Where the body of a POST stands in the ASGI scope."""


def check_binding(host: str, issuer: str | None) -> None:
    """Refuse to open the memory to a network with nobody asked who they are (L31)."""
    if issuer is None and not is_loopback(host):
        raise InvalidArgument(
            f"will not listen on '{host}' without an issuer: anyone who can reach this address could read and write",
            code="UNSAFE_BINDING",
            hint="listen on 127.0.0.1, or configure the issuer whose tokens are to be trusted",
        )


def is_loopback(host: str) -> bool:
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


class Names:
    """Under which names we answer, and to which pages. Browsers send Origin, or Sec-Fetch-Site where they do not."""

    def __init__(self, *, hosts: Collection[str], origins: Collection[str]) -> None:
        self._hosts = {host.strip("[]").lower() for host in hosts}
        self._origins = {origin.rstrip("/").lower() for origin in origins}
        # Clients say the same with every request.
        self.is_ours = lru_cache(maxsize=1_000)(self._judge_host)

    def fault(self, headers: Headers) -> tuple[int, str, str] | None:
        """The status, the code and the words of a refusal; None for who may pass."""
        named = [header for header in headers if header[0] in _NAMES]
        hosts = [value for name, value in named if name == b"host"]
        if len(hosts) != 1 or not self.is_ours(hosts[0]):
            return 421, "HOST_NOT_ALLOWED", "this server does not answer under the name in Host"
        if not self._is_welcome(dict(named), [value for name, value in named if name == b"origin"], hosts[0]):
            words = "web pages of this Origin may not call this server; the setting http_origins lists those that may"
            return 403, "ORIGIN_NOT_ALLOWED", words
        return None

    def _is_welcome(self, named: dict[bytes, bytes], origins: list[bytes], host: bytes) -> bool:
        if origins:
            return all(self._judge_origin(origin, host) for origin in origins)
        # An image, a script or a frame of another page; a link that a person follows is a navigation.
        return named.get(b"sec-fetch-site") not in _ELSEWHERE or named.get(b"sec-fetch-mode") == b"navigate"

    def _judge_host(self, host: bytes) -> bool:
        name = _host_name(host.decode("latin-1"))
        return name is not None and (is_loopback(name) or name in self._hosts)

    def _judge_origin(self, value: bytes, host: bytes) -> bool:
        """Whether it is our own, under the name and the port that are called, or one that is listed."""
        origin = value.decode("latin-1").lower()
        if origin in self._origins:
            return True
        scheme, _, netloc = origin.partition("://")
        return scheme in ("http", "https") and netloc == host.decode("latin-1").lower()


_NAMES = frozenset({b"host", b"origin", b"sec-fetch-site", b"sec-fetch-mode"})
_ELSEWHERE = frozenset({b"cross-site", b"same-site"})


# `urlsplit` reads a host where there is none: of "[::1]evil" it takes what stands in the brackets.
_HOST = re.compile(r"(?:\[([^\[\]]*:[^\[\]]*)\]|([^\[\]:@/?#\\\s]+))(?::([0-9]{0,5}))?")


def _host_name(netloc: str) -> str | None:
    """The name without port and brackets, or None for what is no host."""
    found = _HOST.fullmatch(netloc)
    if found is None or int(found[3] or 0) > 65_535:
        return None
    return (found[1] or found[2]).lower()

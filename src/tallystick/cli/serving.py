"""The command that serves agents, over stdio or HTTP."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping
from typing import Annotated

import typer

from tallystick import __version__
from tallystick.cli.options import Base, Tenant, settled
from tallystick.cli.output import note
from tallystick.config import Settings, why_this_base
from tallystick.errors import InvalidArgument
from tallystick.telemetry.logs import announce

DEFAULT_PORT = 8765
_PORTS_TRIED = 50
ALONE = "this machine only, and nobody is asked who they are; a team needs --issuer"
_ADDRESS_ERRORS = {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES}


def serve(
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Serve HTTP there instead of stdio.")
    ] = None,
    toolsets: Annotated[
        str | None, typer.Option("--toolsets", metavar="NAMES", help="Vocabularies to offer, comma-separated, or all.")
    ] = None,
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="NAMES", help="Only these tools of them, comma-separated.")
    ] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only", help="Offer only tools that change nothing.", show_default=False)
    ] = None,
    tool_names: Annotated[
        str | None,
        typer.Option("--tool-names", metavar="auto|dotted|underscore", help="memory.write or memory_write."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Who writes when nobody says so.")
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option("--issuer", metavar="URLS", help="Over HTTP, ask for access tokens of these, comma-separated."),
    ] = None,
    audience: Annotated[
        str | None,
        typer.Option("--audience", metavar="NAMES", help="What tokens must be issued for. [default: the public URL]"),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option("--public-url", metavar="URL", help="Where clients find this server, without /mcp."),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="Serve HTTPS with this PEM certificate.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's PEM key.")] = None,
    workers: Annotated[
        int | None,
        typer.Option("--workers", metavar="N", help="Processes that serve the one address; one for each core or so."),
    ] = None,
    next_free_port: Annotated[
        bool, typer.Option("--next-free-port", help="If the port is taken, use the next one that is free.")
    ] = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Serve the memory to agents, over stdio or HTTP.

    \b
    Any number of these may run on one base at the same time.
    Without --http this is what an MCP client starts by itself:
      claude mcp add tallystick -- tallystick serve
    Over HTTP: MCP at /mcp and /sse, plain REST at /v1/tools/NAME, its description at /v1/openapi.json.

    \b
    Examples:
      tallystick serve
      tallystick serve --base ./memory --agent planner
      tallystick serve --http 127.0.0.1:8765
      tallystick serve --http 127.0.0.1:8765 --workers 4
      tallystick serve --read-only --tools memory.read,memory.search
      tallystick serve --http 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem \\
        --issuer https://login.example --public-url https://memory.example
    """
    settings = settled(
        base=base,
        tenant=tenant,
        agent_identity=agent,
        http=http,
        toolsets=toolsets,
        tools=tools,
        read_only=read_only,
        tool_names=tool_names,
        issuers=issuer,
        audience=audience,
        public_url=public_url,
        tls_cert=tls_cert,
        tls_key=tls_key,
        workers=workers,
    )
    if tools is not None and not settings.tools:
        raise InvalidArgument(
            "--tools names no tool",
            hint="name some, as in --tools memory.read,memory.search, or leave it out to offer all of the toolsets",
        )
    if not settings.http:
        _refuse_without_http({"--workers": workers, "--tls-cert": tls_cert, "--tls-key": tls_key})
        from tallystick import app

        app.serve_stdio(settings)
        return
    host, port = parse_address(settings.http)
    if next_free_port:
        port = find_free_port(host, port)
    _serve_http(settings, host, port)


def _refuse_without_http(given: Mapping[str, object]) -> None:
    """Options that would change nothing: whoever gives one means to serve HTTP."""
    for option, value in given.items():
        if value is not None:
            raise InvalidArgument(f"{option} is for a server over HTTP", hint=f"add --http 127.0.0.1:{DEFAULT_PORT}")


def _serve_http(settings: Settings, host: str, port: int) -> None:
    from tallystick import app
    from tallystick.server.guards import check_binding

    check_binding(host, issuer=next(iter(settings.issuers), None))

    def announce(host: str, port: int) -> None:
        _welcome(settings, host, port)

    try:
        if settings.workers > 1:
            from tallystick.server.workers import begin_workers

            worker = begin_workers(settings.workers, host=host, port=port, announce=announce)
            app.serve_http(settings, host=host, port=port, announce=lambda *_: worker.ready(), worker=worker)
        else:
            app.serve_http(settings, host=host, port=port, announce=announce)
    except OSError as error:
        if error.errno not in _ADDRESS_ERRORS:
            raise
        raise InvalidArgument(
            f"cannot listen on {host}:{port}: {error.strerror}",
            code="ADDRESS_REFUSED",
            hint="choose another port, or let --next-free-port choose one",
        ) from error


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `HOST`, `:PORT`, `PORT`, `[::1]:PORT`."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = ("", text) if text.isdigit() else (text, str(DEFAULT_PORT))
    if not port.isdigit() or int(port) > 65535:
        raise InvalidArgument(f"'{text}' is not HOST:PORT", hint="for example --http 127.0.0.1:8765")
    return host.strip("[]") or "127.0.0.1", int(port)


def find_free_port(host: str, port: int) -> int:
    """The first at or after `port` that can be had now; `port` itself when none can, so that its error is told."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, min(port + _PORTS_TRIED, 65536)):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
                return candidate
            except OSError:
                continue
    return port


def _welcome(settings: Settings, host: str, port: int) -> None:
    if settings.log_format == "json":
        address, version = f"{_url(settings, host, port)}/mcp", __version__
        serves = f"Tallystick {version} serves {settings.home} ({why_this_base(settings.base)})"
        announce("serving", serves, address=address, version=version)
    else:
        for line in welcome(settings, host, port).splitlines():
            note(line)


def _url(settings: Settings, host: str, port: int) -> str:
    scheme, name = "https" if settings.tls_cert else "http", f"[{host}]" if ":" in host else host
    return settings.public_url.rstrip("/") if settings.issuers and settings.public_url else f"{scheme}://{name}:{port}"


def welcome(settings: Settings, host: str, port: int) -> str:
    url = _url(settings, host, port)
    access = f"tokens of {', '.join(settings.issuers)}" if settings.issuers else ALONE
    return "\n".join(
        [
            f"Tallystick {__version__} serves {settings.home} ({why_this_base(settings.base)})",
            *([f"  page     {url}/"] if settings.web and (settings.web_client_id or not settings.issuers) else []),
            f"  address  {url}/mcp",
            f"  connect  claude mcp add --transport http tallystick {url}/mcp",
            f'  others   {{"mcpServers": {{"tallystick": {{"type": "http", "url": "{url}/mcp"}}}}}}',
            f"  REST     {url}/v1/openapi.json",
            f"  access   {access}",
            "  stop     Ctrl-C",
        ]
    )

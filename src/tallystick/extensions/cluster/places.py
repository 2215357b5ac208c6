"""From settings to a place: which stream holds a tenant, on which servers, and where its copy lies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tallystick.config import TENANT_PATTERN, Settings, read_streams
from tallystick.extensions.cluster.client import Servers
from tallystick.extensions.cluster.membership import Place
from tallystick.extensions.cluster.stream import Trust


def place_of(settings: Settings) -> Place:
    """Of the tenant that the settings name. Raises InvalidArgument."""
    streams = read_streams(settings.log_streams)
    return _place(settings, streams, streams.get(settings.tenant, settings.log_stream))


def places_of(settings: Settings) -> list[Place]:
    """All streams that the settings name. Raises InvalidArgument."""
    streams = read_streams(settings.log_streams)
    return [_place(settings, streams, stream) for stream in sorted({settings.log_stream, *streams.values()})]


def _place(settings: Settings, streams: Mapping[str, str], stream: str) -> Place:
    def system_of(tenant: str) -> Path | None:
        is_ours = re.fullmatch(TENANT_PATTERN, tenant) and streams.get(tenant, settings.log_stream) == stream
        return msgspec.structs.replace(settings, tenant=tenant).system if is_ours else None

    return Place(
        base=settings.base,
        stream=stream,
        servers=servers_of(settings),
        trust=Trust(settings.log_replicas, settings.log_sync, settings.log_monitor),
        system_of=system_of,
        segment_bytes_max=settings.segment_bytes_max,
    )


def servers_of(settings: Settings) -> Servers:
    return Servers(
        urls=tuple(part.strip() for part in settings.log_url.split(",") if part.strip()),
        credentials=_path(settings.log_credentials),
        nkey=_path(settings.log_nkey),
        tls_ca=_path(settings.log_tls_ca),
        tls_cert=_path(settings.log_tls_cert),
        tls_key=_path(settings.log_tls_key),
    )


def _path(text: str) -> Path | None:
    return Path(text).expanduser() if text else None

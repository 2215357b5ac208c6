"""Who may: policy, audit, tokens and quotas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tallystick.audit.files import AuditFiles
from tallystick.audit.writer import AuditWriter
from tallystick.config import Settings
from tallystick.policy.cache import Cache
from tallystick.policy.embedded import Embedded
from tallystick.policy.gate import Gate
from tallystick.server import Offer
from tallystick.server.limits import Buckets, Quota, Quotas, read_overrides
from tallystick.server.oauth import principal_of

if TYPE_CHECKING:
    from tallystick.policy.remote import Remote
    from tallystick.server.oauth.guard import Admission


def make_gate(settings: Settings, audit: AuditWriter, *, operator: bool) -> Gate:
    """Without a policy, whoever started the process may do everything, and nobody else anything."""
    engine: Embedded | Remote
    if operator:
        engine = Embedded("single-user", timeout_ms=settings.policy_timeout_ms)
    elif settings.policy_url:
        from tallystick.policy.remote import Remote

        engine = Remote(settings.policy_url, path=settings.policy_path, timeout_ms=settings.policy_timeout_ms)
    else:
        engine = Embedded(settings.policy or shipped_policy(settings), timeout_ms=settings.policy_timeout_ms)
    return Gate(
        engine,
        audit=audit,
        cache=Cache(seconds=settings.policy_cache_seconds),
        slo_ms=float("inf") if operator else settings.policy_slo_ms,
        strict_audit=settings.audit_strict,
    )


def shipped_policy(settings: Settings) -> str:
    return "closed" if settings.issuers else "single-user"


def audit_files(settings: Settings) -> AuditFiles:
    return AuditFiles(
        settings.system / "audit",
        retention_days=settings.audit_retention_days,
        archive=Path(settings.audit_archive) / settings.tenant if settings.audit_archive else None,
    )


def find_admission(settings: Settings, host: str, port: int) -> Admission | None:
    if not settings.issuers:
        return None
    from tallystick.server.oauth.guard import build_admission, public_address
    from tallystick.server.oauth.introspection import find_client

    return build_admission(
        settings.issuers,
        public_url=public_address(settings.public_url, host=host, port=port, tls=bool(settings.tls_cert)),
        audience=settings.audience,
        scopes=settings.scopes,
        tenant_claim=settings.tenant_claim,
        roles_claim=settings.roles_claim,
        clock_skew_seconds=settings.clock_skew_seconds,
        token_cache_seconds=settings.token_cache_seconds,
        jwks_seconds=settings.jwks_seconds,
        jwks_stale_seconds=settings.jwks_stale_seconds,
        introspect_as=find_client(settings.introspection_client, settings.introspection_secret_file),
        introspection_seconds=settings.introspection_seconds,
    )


def with_quotas(settings: Settings, offer: Offer, buckets: Buckets | None) -> Offer:
    """What is offered to callers who prove who they are, each tenant within its quota."""
    quota = Quota(settings.quota_writes, settings.quota_reads)
    return msgspec.structs.replace(
        offer,
        principal_of=principal_of,
        names_clients=False,
        quotas=Quotas(quota, read_overrides(settings.quota_overrides), buckets=buckets),
        # Anybody may ask /health: how much a tenant has written is not for them.
        position=None,
    )

"""The names that a backup may hold, for `capture`, `restore`, `follow` and `verify` alike.

A manifest may have been written by anybody who can write to the store. A name that `capture` does not write is refused
before anything is fetched: no settings, keys, sessions or databases, and no file that the settings of the base name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from tallystick.config import DEFAULT_TENANT
from tallystick.engine.tenants import is_tenant
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.extensions.backup.manifest import Manifest, TenantBackup
from tallystick.operations.copies import FILE_NAME as EXPORTS
from tallystick.projections.reserved_files import Reserved, folded, is_own
from tallystick.projections.sandboxed_files import parts_of

EXPORTS_PATH = f"_system/{EXPORTS}"
_BLOB = re.compile(r"_content/blobs/[0-9a-f]{64}")
_AUDIT = re.compile(r"_system/audit/[0-9]{20}\.jsonl")
_SNAPSHOT = re.compile(r"_system/snapshots/[0-9]{20}\.snapshot")
_DATABASE = re.compile(r".*\.db(-wal|-shm|-journal)?")


def is_writable_name(path: str) -> bool:
    """Whether a manifest can hold the path: relative, normal, valid text."""
    try:
        parts = parts_of(path)
    except InvalidArgument:
        return False
    return bool(parts) and "/".join(parts) == path


def is_plain(path: str) -> bool:
    """Whether it is a plain file or directory: hidden names, settings and databases are not, in any spelling."""
    if not is_writable_name(path):
        return False
    names = [folded(part) for part in path.split("/")]
    return not is_own(tuple(path.split("/"))) and not any(
        name[:1] in ("", ".", "_") or _DATABASE.fullmatch(name) for name in names
    )


def home_of(base: Path, tenant: str) -> Path:
    return base if tenant == DEFAULT_TENANT else base / "tenants" / tenant


def require_contained(manifest: Manifest) -> None:
    """Raises Corrupt for a manifest with names that `capture` does not write."""
    where = f"backup {manifest.number}"
    tenants = [tenant.tenant for tenant in manifest.tenants]
    if not tenants or len(set(tenants)) < len(tenants):
        raise _refused(where, "no tenant, or one tenant twice")
    for tenant in manifest.tenants:
        if not is_tenant(tenant.tenant):
            raise _refused(where, f"a tenant called '{tenant.tenant[:80]}'")
        for path in _misplaced(tenant):
            raise _refused(where, f"a file '{path[:200]}'")
        for path in _colliding(_paths(tenant)):
            raise _refused(where, f"two files at '{path[:200]}'")


def require_unnamed(manifest: Manifest, base: Path, named: Sequence[Path]) -> None:
    """Raises Corrupt for a file that the settings name, by its place in `base`."""
    for tenant in manifest.tenants:
        reserved = Reserved(home_of(base, tenant.tenant), named, base)
        for file in tenant.files:
            if reserved.hides(tuple(file.path.split("/")), None):
                raise _refused(f"backup {manifest.number}", f"a file '{file.path[:200]}', and the settings name it")


def _misplaced(tenant: TenantBackup) -> Iterator[str]:
    audit = tenant.audit.files if tenant.audit else []
    snapshots = [tenant.snapshot] if tenant.snapshot else []
    for pattern, files in ((_BLOB, tenant.blobs), (_AUDIT, audit), (_SNAPSHOT, snapshots)):
        yield from (file.path for file in files if not pattern.fullmatch(file.path))
    yield from (file.path for file in tenant.files if not (is_plain(file.path) or file.path == EXPORTS_PATH))


def _paths(tenant: TenantBackup) -> list[str]:
    audit = tenant.audit.files if tenant.audit else []
    return [file.path for file in (*tenant.blobs, *audit, *tenant.files)]


def _colliding(paths: Sequence[str]) -> Iterable[str]:
    """Paths that occur twice, or that a file would need as its directory."""
    known = set(paths)
    if len(known) < len(paths):
        yield next(path for path in paths if paths.count(path) > 1)
    yield from (path for path in paths if any(str(parent) in known for parent in PurePosixPath(path).parents))


def _refused(where: str, what: str) -> Corrupt:
    return Corrupt(
        f"{where} names {what}, which no backup of ours does",
        code="MANIFEST_REFUSED",
        hint="nothing was changed; anybody who can write to the store may have made it: give the keys by --vkey",
    )

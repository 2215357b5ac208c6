"""How backups are going, by the files of this base. No store is asked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import msgspec

from tallystick.clock import from_text
from tallystick.config import Settings
from tallystick.errors import TallystickError
from tallystick.extensions.backup.object_store import address_of
from tallystick.extensions.backup.targets import Target, read_targets
from tallystick.log.unopened import unopened
from tallystick.operations.copies import Backup, CopyHolder, LastBackup, StoreStatus
from tallystick.operations.tenants import tenants_of
from tallystick.telemetry.metrics import Gauge, Reading

LAST = Gauge(
    "tallystick_last_backup_timestamp_seconds",
    "When the last backup to `backup_to` that succeeded ended.",
    together=max,
)
WAITING = Gauge(
    "tallystick_backup_waiting_commits", "Commits of all tenants that are in no backup there.", together=max
)
FAILING = Gauge("tallystick_backup_failing", "1 while backups to `backup_to` fail.", together=max)


def readings(settings: Settings) -> dict[Gauge, Reading]:
    def configured() -> list[StoreStatus]:
        with suppress(TallystickError):
            return [each for each in backup_status(settings) if each.is_configured]
        return []

    return {
        LAST: lambda: [((), from_text(each.last) / 1000) for each in configured() if each.last],
        WAITING: lambda: [((), each.waiting) for each in configured()],
        FAILING: lambda: [((), float(each.failed is not None)) for each in configured()],
    }


def stored_backups(settings: Settings) -> list[Backup]:
    """Return the backups in stores that hold the tenant, as they were when a run last looked."""
    return [
        Backup(f"{url}#{kept.number}", kept.at, url, *kept.tenants[settings.tenant])
        for url, target in read_targets(settings.base).items()
        for kept in target.kept
        if settings.tenant in kept.tenants
    ]


def retention(settings: Settings) -> str | None:
    """Return how many backups servers keep and for how long; None where they make none."""
    if not settings.backup_to:
        return None
    count = f"the newest {settings.backup_keep}" if settings.backup_keep else "any number"
    return f"{count}, {f'for {settings.backup_keep_days:g} days' if settings.backup_keep_days else 'for ever'}"


def last_backup(settings: Settings) -> LastBackup | None:
    """To whatever store; None where there was none and none is wanted. Looks at one file."""
    known = read_targets(settings.base)
    if not (known or settings.backup_to):
        return None
    given_up = _given_up(known, settings)
    failing = (each.failing_since for url, each in known.items() if each.failing_since and url not in given_up)
    return LastBackup(
        at=max((each.finished for each in known.values() if each.finished), default=None),
        failing_since=min(failing, default=None),
    )


def _given_up(known: Mapping[str, Target], settings: Settings) -> set[str]:
    newest = max((each.finished for each in known.values()), default="")
    failing = {url for url, each in known.items() if each.failing_since and each.failing_since < newest}
    return failing - {_configured(settings)}


def _configured(settings: Settings) -> str | None:
    return address_of(settings.backup_to) if settings.backup_to else None


def backup_status(settings: Settings) -> list[StoreStatus]:
    """Return the status of every store that this base was backed up to or is configured for. Reads local files only."""
    known = read_targets(settings.base)
    configured, given_up = _configured(settings), _given_up(known, settings)
    found = {url: target for url, target in known.items() if target.kept or target.failed or url == configured}
    if configured is not None and configured not in found:
        found[configured] = Target()
    return [
        _status(settings, url, target, is_configured=url == configured, is_given_up=url in given_up)
        for url, target in found.items()
    ]


def _status(settings: Settings, url: str, target: Target, *, is_configured: bool, is_given_up: bool) -> StoreStatus:
    newest = target.kept[-1] if target.kept else None
    waiting = 0
    for name in tenants_of(settings):
        with unopened(msgspec.structs.replace(settings, tenant=name).system) as log:
            backed_up = newest.tenants.get(name, (0, 0))[1] if newest else 0
            waiting += max(0, log.head.count - backed_up)
    return StoreStatus(
        target=url,
        is_configured=is_configured,
        is_given_up=is_given_up,
        last=target.finished or None,
        number=newest.number if newest else None,
        kept=len(target.kept),
        waiting=waiting,
        failed=target.failed or None,
        failing_since=target.failing_since or None,
        problems=target.problems,
    )


HOLDER = CopyHolder(name="backups", backups=stored_backups, stores=backup_status, last=last_backup, kept=retention)

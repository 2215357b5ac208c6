"""A tenant on disk: its log, the keys that vouch for it, and the partition over it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from tallystick.app.proving import all_proofs, proofs
from tallystick.config import CHECKPOINT_KEY_VARIABLE, Settings
from tallystick.engine.partition import Limits, Partition
from tallystick.engine.snapshots import Snapshots
from tallystick.errors import InvalidArgument
from tallystick.log import Entry, Head, Log, checkpoint_path
from tallystick.log.files import FilesLog
from tallystick.log.health import try_storage
from tallystick.log.replica import read_replica, require_restored, require_writable
from tallystick.log.unopened import is_copy
from tallystick.operations.child_command import begin_command
from tallystick.state.secret_scan import screen_of
from tallystick.toolsets.derived_indexes import indexes_of

if TYPE_CHECKING:
    from tallystick.commits.signed_note import SignerKey


logger = logging.getLogger(__name__)

_COLLECTED_AFTER = 20_000, 20, 50
"""Calls leave next to no cycles behind, and Python's 700 would look for some at every few of them."""


def open_log(settings: Settings) -> Log:
    """The log of the tenant that the settings name: here, and nowhere else, it is said which kind it is."""
    require_restored(settings.base)
    if settings.log_url:
        from tallystick.operations.shared_logs import shared_log

        return shared_log(settings).open(settings)
    if is_copy(settings.system):
        from tallystick.operations.shared_logs import shared_log_of_copy

        replica = read_replica(settings.base)
        kind = None if replica is None else shared_log_of_copy(replica.source)
        if kind is not None:
            return kind.open_copy(settings)
        raise InvalidArgument(
            f"{settings.system} is this machine's copy of a stream, and log_url names no servers",
            code="LOG_IS_A_COPY",
            hint="set log_url as before; 'tallystick migrate --to file' makes it a log of its own",
        )
    return FilesLog(settings.system, segment_bytes_max=settings.segment_bytes_max)


async def load_partition(
    settings: Settings, appended: Callable[[str, Sequence[Entry]], None] | None, keys: Sequence[SignerKey]
) -> Partition:
    # After a crash, or damage, it reads the whole log: other tenants are served meanwhile.
    log = await asyncio.to_thread(open_log, settings)
    try:
        await asyncio.to_thread(_compare_with_checkpoint, settings, log, keys)
        if not settings.log_url and log.head() == Head():
            from tallystick.projections.registry import check_not_removed

            await asyncio.to_thread(check_not_removed, settings.home)
        partition = Partition(
            log,
            tenant=settings.tenant,
            snapshots=Snapshots(
                settings.system / "snapshots", every=settings.snapshot_every, take=lambda: _snapshot_elsewhere(settings)
            ),
            limits=Limits(settings.group_drafts_max, settings.group_bytes_max),
            appended=appended,
            screen=screen_of(settings.secrets),
            try_storage=partial(try_storage, settings.system),
            require_writable=partial(require_writable, settings.base),
        )
        await partition.open()
    except BaseException:
        # A damaged log is tried again at every call for its tenant.
        log.close()
        raise
    # What was loaded stays: a full collection over it would stop the world for seconds.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    return partition


def _compare_with_checkpoint(settings: Settings, log: Log, keys: Sequence[SignerKey]) -> None:
    """Raises Corrupt where the log does not continue what was signed here."""
    home = settings.home
    if checkpoint_path(home).exists():
        from tallystick.log.checkpoint import check_opened

        check_opened(
            home,
            log,
            [key.verifier for key in keys],
            lambda known: any(each.shows(home, log, known) for each in all_proofs()),
        )


def checkpoint_keys(settings: Settings) -> tuple[SignerKey, ...]:
    """Return those of the tenant that the settings name; none if none are configured."""
    return keys_by_tenant(settings)(settings.tenant)


def keys_by_tenant(settings: Settings) -> Callable[[str], tuple[SignerKey, ...]]:
    """Return the keys of each tenant, read once."""
    return proofs().signers(settings) if _names_keys(settings) else lambda tenant: ()


def check_signer(settings: Settings) -> None:
    """Raise NotFound if keys are configured and no extension signs with them."""
    if _names_keys(settings):
        proofs()


def _names_keys(settings: Settings) -> bool:
    return bool(settings.checkpoint_key or settings.checkpoint_key_command or os.environ.get(CHECKPOINT_KEY_VARIABLE))


async def build_ahead(partition: Partition, offered: Sequence[str]) -> None:
    """Build what the offered vocabularies make of the graph, so that no first caller has to wait for all of it."""
    try:
        for kind in indexes_of(offered):
            await partition.warm(kind)
        gc.freeze()
    except Exception:
        # What is not built now is built at its first use; if the log cannot be read, that says so to whoever asks.
        logger.info("not everything was built ahead for %s", partition.tenant, exc_info=True)


def _snapshot_elsewhere(settings: Settings) -> None:
    """By a process of its own: encoding a large state would hold up every caller of this one."""
    begin_command("snapshot", "--base", str(settings.base), "--tenant", settings.tenant)

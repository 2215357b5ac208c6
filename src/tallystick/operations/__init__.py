"""The operations: what people do with a whole memory. Forget, recall, import, export, verify, doctor, snapshot, emit.

Functions with typed results and progress callbacks. Nothing here prints, parses words or ends the process: the
command line draws the results, and any other interface may call the same. How the parts of a memory are opened is
known to `app`, which makes the OperationContext.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.config import Settings
from tallystick.policy import Principal

if TYPE_CHECKING:
    from tallystick.audit.files import AuditFiles
    from tallystick.commits.signed_note import SignerKey
    from tallystick.engine.store import Store
    from tallystick.log import Log
    from tallystick.toolsets import Answer

Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes done so far and the bytes there are."""


def no_progress(doing: str, done: int, total: int) -> None: ...


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def shown_bytes(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


class OperationContext(msgspec.Struct, frozen=True):
    """The memory of one tenant, and how its parts are opened. Nothing is open until it is asked for."""

    settings: Settings
    principal: Principal
    """The operator: whoever can start this process."""
    open_store: Callable[[], AbstractAsyncContextManager[Store]]
    """As the operator, who may do everything whatever the policy of the server says; audited all the same."""
    open_store_under_policy: Callable[[], AbstractAsyncContextManager[Store]]
    """For what is written as if an agent did."""
    open_log: Callable[[], Log]
    open_audit: Callable[[], AuditFiles]
    prepare: Callable[[str, Mapping[str, Any]], Callable[[Any], Awaitable[Answer]]]
    """A tool by its name and its arguments → a call that takes the store. Raises InvalidArgument at once."""
    erase: Callable[[], Awaitable[list[str]]]
    """Leaves no copy of what was redacted or deleted in the projections on this disk. Returns those that keep one."""
    database: Path | None
    """Where `graph.db` lies, if not in the home."""
    checkpoint_keys: Callable[[], tuple[SignerKey, ...]]
    """Those that sign checkpoints of this log; none where none are configured. Raises InvalidArgument."""
    with_settings: Callable[[Settings], OperationContext]

    def for_tenant(self, tenant: str) -> OperationContext:
        return self.with_settings(msgspec.structs.replace(self.settings, tenant=tenant))

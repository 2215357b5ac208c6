"""The checks of the doctor: are backups made, and can their keys be read?"""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.config import Settings
from tallystick.errors import InvalidArgument
from tallystick.extensions.backup.status import backup_status
from tallystick.operations import counted
from tallystick.operations.doctor import Finding, Status


def check_backups(settings: Settings) -> Iterator[Finding]:
    if not settings.has_log:
        return
    for each in backup_status(settings):
        found = f"{each.last or 'never'}, {counted(each.waiting, 'commit')} since, to {each.target}"
        if each.failed:
            advice = f"'tallystick backup {each.target}' tries again now; what is in the store is as it was"
            status: Status = "odd" if each.is_given_up else "bad"
            yield Finding("backup", f"{found}; fails since {each.failing_since}: {each.failed}", status, advice)
        elif each.problems or (each.is_configured and each.last is None):
            advice = "; ".join(each.problems) or "a server makes the first one, or 'tallystick backup'"
            yield Finding("backup", found, "odd", advice)
        else:
            yield Finding("backup", found)


def check_key(settings: Settings) -> Iterator[Finding]:
    """A command that prints keys is not run: it may ask somebody."""
    if not settings.has_log or not settings.backup_key or settings.backup_key_command:
        return
    from tallystick.extensions.backup.encryption import load_backup_keys

    try:
        keys = load_backup_keys(settings).keys
    except InvalidArgument as error:
        yield Finding("backup key", error.message, "bad", error.hint)
    else:
        yield Finding("backup key", f"{', '.join(key.id for key in keys)}, in {settings.backup_key}")

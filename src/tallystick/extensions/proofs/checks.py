"""The check of `doctor`: does the log continue its checkpoint, and is it still signed?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tallystick.commits import chain
from tallystick.commits.signed_note import SignerKey
from tallystick.config import Settings
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.log import Head, checkpoint_path, tree_directory
from tallystick.log.unopened import Unopened, unopened
from tallystick.operations import counted
from tallystick.operations.doctor import RESTORE, Finding


def check_checkpoint(settings: Settings) -> Iterator[Finding]:
    if not checkpoint_path(settings.home).exists():
        return
    from tallystick.extensions.proofs.checkpoints import is_in_tiles
    from tallystick.extensions.proofs.keys import load_keys
    from tallystick.extensions.proofs.tiles import read_place
    from tallystick.log.checkpoint import behind, beside, read_kept
    from tallystick.projections.worker import trouble_of

    keys: tuple[SignerKey, ...] = ()
    with suppress(InvalidArgument):
        keys = load_keys(settings)
    known = read_kept(settings.home, [key.verifier for key in keys])
    if known is None:
        return
    place = read_place(tree_directory(settings.home))
    with unopened(settings.system) as log:
        count = log.head.count
        if count < known.checkpoint.size:
            raise behind(known, count)
        if place is not None and not _is_last_line(log, place.head):
            raise beside(known)
    found = f"{known.checkpoint.size} of {counted(count, 'commit')} signed as '{known.checkpoint.origin}'"
    trouble = trouble_of(settings.system / "tiles.lock")
    if trouble is not None:
        yield Finding("checkpoint", f"{found}; nothing more is signed: {trouble.problem}", "bad", RESTORE)
    elif is_in_tiles(settings.home, known):
        yield Finding("checkpoint", found)
    else:
        advice = "the next opening reads all of the log to compare; 'tallystick verify' does it now"
        yield Finding("checkpoint", f"{found}; the tiles do not lead to it", "odd", advice)


def _is_last_line(log: Unopened, head: Head) -> bool:
    try:
        line = log.segments.line_before(head.end)
        return bool(line) and chain.decode(line).record_hash == head.record_hash
    except Corrupt:
        return False

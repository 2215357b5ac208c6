"""A key that all machines of a memory share: kept in its stream, made by whichever asks first."""

from __future__ import annotations

import secrets
import time

from tallystick.errors import StorageRefused
from tallystick.extensions.cluster.client import NoAnswer
from tallystick.extensions.cluster.membership import Place, join, leave
from tallystick.extensions.cluster.stream import ASK_SECONDS, Refused, Stream, WrongSequence, unreachable

KEY_BYTES = 32
_PAUSE_SECONDS = 0.02


def shared_key(place: Place, name: str) -> bytes:
    """Whoever may read the stream may read it. Raises StorageRefused where the stream does not answer."""
    membership = join(place)
    try:
        if not membership.wait():
            raise unreachable(place.stream, membership.client.problem)
        return get_or_make(membership.stream, name)
    except (NoAnswer, Refused) as error:
        raise unreachable(place.stream, error) from None
    finally:
        leave(place)


def get_or_make(stream: Stream, name: str) -> bytes:
    """Raises StorageRefused, NoAnswer, Refused."""
    subject = stream.layout.key(name)
    deadline = time.monotonic() + ASK_SECONDS * 2
    while (found := stream.last(subject)) is None:
        if time.monotonic() > deadline:
            raise unreachable(stream.name, f"another machine is said to make the key '{name}', and it does not come")
        try:
            stream.publish(subject, secrets.token_bytes(KEY_BYTES), {}, seconds=ASK_SECONDS, expected=0)
        except WrongSequence:
            # Another machine was first, and its key is everybody's; while it is on its way, it is not seen yet.
            time.sleep(_PAUSE_SECONDS)
    if len(found.data) != KEY_BYTES:
        raise StorageRefused(
            f"the key '{name}' in the stream is damaged", hint="delete its message; clients then begin new sessions"
        )
    return found.data

"""The nonces: who wrote which one, so that a repeated write is recognised. Kept for seven days."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.clock import from_text, to_text

KEPT_MILLISECONDS = 7 * 24 * 3600 * 1000
LAG = 1_024
"""Old ones are dropped every so many commits, measured by a commit that is as many back. So undoing fewer
commits than that never misses one that was dropped."""

Times = Callable[[int], str]
"""The timestamp of a commit by its sequence number."""


class Nonces:
    def __init__(self) -> None:
        self.seqs: dict[str, int] = {}
        """In the order of the log."""
        self.replaced: dict[int, int] = {}
        """A commit that used a nonce again, after its time → the one that had it before."""

    def add(self, actor: str, nonce: str, seq: int) -> None:
        key = _key(actor, nonce)
        old = self.seqs.get(key)
        if old is not None:
            self.replaced[seq] = old
        self.seqs[key] = seq

    def pop(self, actor: str, nonce: str, seq: int) -> None:
        key = _key(actor, nonce)
        old = self.replaced.pop(seq, None)
        if old is None:
            del self.seqs[key]
        else:
            self.seqs[key] = old

    def find(self, actor: str, nonce: str, head: str, times: Times) -> int | None:
        """None as well when it is too old at `head`, the time of the newest commit."""
        seq = self.seqs.get(_key(actor, nonce))
        return None if seq is None or _expires(times(seq)) < head else seq

    def are_due(self, count: int) -> bool:
        """Whether old ones are to be dropped, with so many commits applied; to be asked after each."""
        return count % LAG == 0 and count > LAG and bool(self.seqs)

    def expire(self, count: int, times: Times) -> None:
        then = times(count - LAG)
        expired = []
        for key, seq in self.seqs.items():
            if _expires(times(seq)) >= then:
                break
            expired.append(key)
        for key in expired:
            self.replaced.pop(self.seqs.pop(key), None)


def _key(actor: str, nonce: str) -> str:
    # The length keeps ("a", "bc") and ("ab", "c") apart.
    return f"{len(actor)}:{actor}{nonce}"


def _expires(timestamp: str) -> str:
    return to_text(from_text(timestamp) + KEPT_MILLISECONDS)

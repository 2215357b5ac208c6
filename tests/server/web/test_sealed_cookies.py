"""What is sealed in a cookie: opened by who sealed it, for a while, and by nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.extensions.web.sealed_cookies import (
    DAYS_MAX,
    PART_CHARACTERS_MAX,
    PARTS_MAX,
    Header,
    SealedCookie,
    TooLarge,
)

KEY = b"k" * 32
NOW = 1_760_000_000
DAY = 86_400


def cookie(
    name: str = "__Host-c", *, key: bytes = KEY, context: str = "here", now: float = NOW, **more: Any
) -> SealedCookie:
    return SealedCookie(name, lambda: key, context=context, now=lambda: now, **more)


def kept(headers: list[Header], before: dict[str, str] | None = None) -> dict[str, str]:
    """What a browser that had `before` has then."""
    cookies = dict(before or {})
    for _, value in headers:
        pair, _, attributes = value.decode().partition("; ")
        assert attributes.startswith("Path=/; Secure; HttpOnly; SameSite=Lax")
        name, _, content = pair.partition("=")
        if "Max-Age=0" in attributes:
            cookies.pop(name, None)
        else:
            cookies[name] = content
    return cookies


@pytest.mark.parametrize("size", [0, 1, 100, 2_800, 2_900, 8_000, 11_000])
def test_what_is_sealed_is_opened_whatever_its_size(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    cookies = kept(cookie().write(data[:size], {}))
    assert cookie().read(cookies) == data[:size]
    assert all(len(value) <= PART_CHARACTERS_MAX for value in cookies.values())


def test_what_is_too_large_is_not_half_kept() -> None:
    with pytest.raises(TooLarge):
        cookie().write(b"x" * PART_CHARACTERS_MAX * PARTS_MAX, {})


def test_what_was_longer_leaves_nothing_behind() -> None:
    long = kept(cookie().write(b"x" * 9_000, {}))
    assert len(long) > 1
    short = kept(cookie().write(b"y", long), long)
    assert list(short) == ["__Host-c"]
    assert cookie().read(short) == b"y"
    assert kept(cookie().remove(long), long) == {}


def test_it_says_nothing_and_never_the_same_twice() -> None:
    first, second = (kept(cookie().write(b"a secret", {}))["__Host-c"] for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    "other",
    [{"key": b"x" * 32}, {"context": "elsewhere"}, {"now": NOW + (DAYS_MAX + 1) * DAY}, {"now": NOW - DAY}],
)
def test_nobody_else_opens_it_and_not_for_ever(other: dict[str, Any]) -> None:
    cookies = kept(cookie().write(b"a secret", {}))
    assert cookie(**other).read(cookies) is None


def test_a_key_of_yesterday_still_opens() -> None:
    assert cookie(now=NOW + DAY).read(kept(cookie().write(b"a secret", {}))) == b"a secret"


def test_one_cookie_is_not_taken_for_another() -> None:
    value = kept(cookie().write(b"a secret", {}))["__Host-c"]
    assert cookie("__Host-d").read({"__Host-d": value}) is None


def test_every_changed_character_is_noticed() -> None:
    value = kept(cookie().write(b"a secret", {}))["__Host-c"]
    for at in range(len(value) - 1):
        changed = value[:at] + ("A" if value[at] != "A" else "B") + value[at + 1 :]
        assert cookie().read({"__Host-c": changed}) is None, at


@pytest.mark.parametrize("value", ["", "A", "AAAA", "é", "=", "A" * 100_000, "\x00", "****"])
def test_nonsense_is_nothing(value: str) -> None:
    assert cookie().read({"__Host-c": value}) is None

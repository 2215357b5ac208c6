from __future__ import annotations

from tallystick.extensions.web.last_used import LastUsed


def test_what_was_used_last_is_kept_and_the_rest_made_again() -> None:
    made: list[str] = []

    def make(key: str) -> list[str]:
        made.append(key)
        return [key]

    kept = LastUsed(make, most=2)
    first = kept.of("a")
    kept.of("b")
    assert kept.of("a") is first
    kept.of("c")
    assert kept.of("a") is first
    kept.of("b")
    assert made == ["a", "b", "c", "b"]

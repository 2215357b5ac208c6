from __future__ import annotations

import re

import pytest

from tallystick.errors import InvalidArgument, LimitExceeded
from tallystick.state.patterns import LENGTH_MAX, Pattern

PATTERNS = [
    "",
    "^a",
    "b$",
    "^$",
    "a.c",
    "(?i)ABC",
    "[^a]",
    "a|bc",
    "ä+",
    r"\d{2,3}\b",
    "(?s)a.b",
    "a{0,50}b",
    "(a|b)*a(a|b){9}$",
]
TEXTS = ["", "a", "abc", "ABC", "xabcx", "a\nb", "ää", "12", "1234", "b" * 100, "ab" * 60, "aaaaaaaaaaab"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_what_it_matches_elsewhere(pattern: str) -> None:
    ready = Pattern(pattern)
    assert [ready.matches(text) for text in TEXTS] == [bool(re.search(pattern, text)) for text in TEXTS]


REFUSED = {
    "(": "missing",
    "(?=a)": "(?=",
    r"(a)\1": r"\1",
    "a" * (LENGTH_MAX + 1): "1001 characters",
    "((a{100}){100}){100}": "repetition",
    r"(\pL|\pN){0,900}": "too large",
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_cannot_be_used_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(REFUSED[pattern])) as raised:
        Pattern(pattern)
    assert raised.value.code == "INVALID_PATTERN"


def test_an_intricate_pattern_is_not_tried_on_an_endless_text() -> None:
    pattern = Pattern("(a|b)*a(a|b){400}$")
    assert not pattern.matches_any(["ab"])
    with pytest.raises(LimitExceeded):
        pattern.matches_any(["ab" * 100_000])
    assert Pattern("needle$").matches_any(["hay" * 100_000 + "needle"])

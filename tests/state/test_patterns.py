from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import InvalidArgument, LimitExceeded
from tallystick.state.patterns import LENGTH_MAX, Pattern, required_literal

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


# -- what every match has


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"of team 7\.", "of team 7."),
        (r"^colou?r of (red|blue) bricks$", " bricks"),
        (r"ab+cde", "cde"),
        (r"a{2,3}bcd*", "bc"),
        (r"x[]a-z[:digit:]]yes", "yes"),
        (r"\bword\d", "word"),
        (r"one|two", ""),
        (r"(?i)word", ""),
        (r"\x41bc", ""),
        (r"\Qa.b\E", ""),
        (r"", ""),
    ],
)
def test_what_every_match_has_is_looked_for_first(pattern: str, literal: str) -> None:
    assert required_literal(pattern) == literal


_PIECES = [
    *"ab.*+?|()[]{}^$\\-,01:=i",
    *(r"\.", r"\d", r"\b", r"\pL", r"\x61", r"\Q", r"\E", r"\A", r"\z", r"\_", r"\n", r"\1", r"\C"),
    *("(?i)", "(?:", "(?i:", "(?P<n>", "[^", "[[:alpha:]]", "[]a]", "{1}", "{0,2}", "{2,}", "{,2}", "*?", "ab", "ba"),
    *("ä", "é", "\n"),
]


@settings(max_examples=500)
@given(
    st.lists(st.sampled_from(_PIECES), max_size=10).map("".join),
    st.lists(st.sampled_from([*"abAB01.*+?|()[]{}^$\\-_,:=iQECx61ä\n", "ab", "ba", "aa"]), max_size=12).map("".join),
)
def test_nothing_that_matches_is_passed_over(pattern: str, text: str) -> None:
    try:
        ready = Pattern(pattern)
    except InvalidArgument:
        return
    if ready.matches(text):
        assert ready.worth_trying([text, 7, None]) == [text]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(_PIECES), min_size=2, max_size=8).map("".join), st.data())
def test_texts_that_are_made_to_match_are_not_passed_over(pattern: str, data: st.DataObject) -> None:
    try:
        ready = Pattern(pattern)
        with warnings.catch_warnings(action="error"):
            made = st.from_regex(re.compile(pattern))
    except (InvalidArgument, re.error, Warning):
        return
    text = data.draw(made)
    assert not ready.matches(text) or ready.worth_trying([text]) == [text]

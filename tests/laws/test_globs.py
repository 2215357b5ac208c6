"""The index of globs finds exactly what a slow and simple matcher finds."""

from __future__ import annotations

from itertools import pairwise, product

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tallystick.errors import InvalidArgument
from tallystick.state.knowledge.globs import Route, parse, segments_of
from tallystick.state.knowledge.index import GlobIndex
from tests.promises import promise

# -- the slow and simple matcher: texts all the way, trying everything


def alternatives(pattern: str) -> list[str]:
    """Of the first braces; then of what came of it."""
    depth, start, commas, at = 0, -1, list[int](), 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            at = pattern.index("]", at + 2)
        elif pattern[at] == "{":
            start, commas = (at, []) if depth == 0 else (start, commas)
            depth += 1
        elif pattern[at] == "," and depth == 1:
            commas.append(at)
        elif pattern[at] == "}" and depth:
            depth -= 1
            if depth == 0:
                cuts = [start, *commas, at]
                choices = [pattern[left + 1 : right] for left, right in pairwise(cuts)]
                heads = pattern[:start], pattern[at + 1 :]
                return [whole for choice in choices for whole in alternatives(heads[0] + choice + heads[1])]
        at += 1
    return [pattern]


def parts(text: str) -> list[str]:
    return [part for part in text.split("/") if part not in ("", ".")]


def path_matches(patterns: list[str], names: list[str]) -> bool:
    if not patterns:
        return not names
    first, *rest = patterns
    if first == "**":
        if not rest:
            return bool(names)
        return any(path_matches(rest, names[skipped:]) for skipped in range(len(names) + 1))
    return bool(names) and name_matches(first, names[0]) and path_matches(rest, names[1:])


def name_matches(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(name_matches(pattern[1:], name[taken:]) for taken in range(len(name) + 1))
    if not name:
        return False
    if pattern[0] == "?":
        return name_matches(pattern[1:], name[1:])
    if pattern[0] == "\\":
        return name[0] == pattern[1] and name_matches(pattern[2:], name[1:])
    if pattern[0] == "[":
        end = pattern.index("]", 2)
        inside = pattern[1:end]
        negated, inside = (True, inside[1:]) if inside[0] in "!^" else (False, inside)
        hit = inside[0] <= name[0] <= inside[2] if len(inside) == 3 and inside[1] == "-" else name[0] in inside
        return hit is not negated and name_matches(pattern[end + 1 :], name[1:])
    return name[0] == pattern[0] and name_matches(pattern[1:], name[1:])


def matches(pattern: str, path: str) -> bool:
    return any(path_matches(parts(each), parts(path)) for each in alternatives(pattern))


# -- what they are given

PIECES = st.sampled_from(
    ["a", "b", "ab", "*", "?", "[ab]", "[!a]", "[a-b]", "[^b]", "{a,b}", "{a,b*}", "{,a}", "\\*", "."]
)
SEGMENTS = st.one_of(
    st.sampled_from(["**", "*", "a", "b", "{a,b/a}", "{**,b}", "{a/**,*}"]),
    st.lists(PIECES, min_size=1, max_size=4).map("".join),
)
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)
PATHS = st.lists(st.text("ab*.", min_size=1, max_size=3), min_size=1, max_size=5).map("/".join)


def routes(patterns: list[str]) -> list[tuple[Route, ...]]:
    try:
        return [parse(pattern) for pattern in patterns]
    except InvalidArgument:
        assume(False)
        raise


@promise("K5, law", "the index finds what trying everything finds")
@given(st.lists(PATTERNS, min_size=1, max_size=6), st.lists(PATHS, min_size=1, max_size=8))
def test_the_index_finds_what_trying_everything_finds(patterns: list[str], paths: list[str]) -> None:
    index: GlobIndex[int] = GlobIndex()
    for owner, each in enumerate(routes(patterns)):
        index.add(owner, each)
    for path in paths:
        segments = segments_of(path)
        found = index.match(segments) if segments else set()
        assert found == {owner for owner, pattern in enumerate(patterns) if segments and matches(pattern, path)}


SMALL = st.lists(st.sampled_from(["a", "b", "*", "**", "a*", "*b", "?"]), min_size=1, max_size=4).map("/".join)
NAMES = ["a", "b", "ab", "bb"]
BELOW = [list(each) for deep in range(1, 5) for each in product(NAMES, repeat=deep)]


@settings(max_examples=30)
@given(st.lists(SMALL, min_size=1, max_size=5), st.lists(st.sampled_from(NAMES), max_size=3))
def test_a_directory_is_matched_by_whatever_could_match_in_it_or_itself(
    patterns: list[str], directory: list[str]
) -> None:
    index: GlobIndex[int] = GlobIndex()
    for owner, each in enumerate(routes(patterns)):
        index.add(owner, each)
    assert index.match_below(directory) == {
        owner
        for owner, pattern in enumerate(patterns)
        if any(path_matches(parts(pattern), directory + names) for names in ([], *BELOW))
    }


@given(st.lists(PATTERNS, min_size=1, max_size=8), st.lists(PATHS, min_size=1, max_size=5), st.data())
def test_an_index_that_was_changed_equals_one_built_now(
    patterns: list[str], paths: list[str], data: st.DataObject
) -> None:
    parsed = routes(patterns)
    removed = data.draw(st.sets(st.integers(0, len(patterns) - 1)))
    changed: GlobIndex[int] = GlobIndex()
    built: GlobIndex[int] = GlobIndex()
    for owner, each in enumerate(parsed):
        changed.add(owner, each)
        if owner not in removed:
            built.add(owner, each)
    for owner in removed:
        changed.remove(owner, parsed[owner])
    assert bool(changed) == bool(built)
    for segments in filter(None, map(segments_of, paths)):
        assert changed.match(segments) == built.match(segments)

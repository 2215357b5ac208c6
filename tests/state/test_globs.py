"""Globs: what is accepted, what is refused, and what matches what."""

from __future__ import annotations

import pytest

from tallystick.errors import InvalidArgument
from tallystick.state.knowledge.globs import ALTERNATIVES_MAX, Wild, literal_head, normalised, parse, segments_of
from tallystick.state.knowledge.index import GlobIndex
from tests.promises import promise


def matches(pattern: str, path: str) -> bool:
    index: GlobIndex[int] = GlobIndex()
    index.add(1, parse(pattern))
    segments = segments_of(path)
    return segments is not None and bool(index.match(segments))


TABLE: list[tuple[str, list[str], list[str]]] = [
    # pattern, what it matches, what it does not
    ("src/shared/email-client.ts", ["src/shared/email-client.ts"], ["src/shared/email-client.tsx", "email-client.ts"]),
    ("src/pages/checkout/**", ["src/pages/checkout/a", "src/pages/checkout/a/b.ts"], ["src/pages/checkout", "src/a"]),
    (
        "src/payments/stripe-*.ts",
        ["src/payments/stripe-api.ts", "src/payments/stripe-.ts"],
        ["src/payments/x/stripe-a.ts"],
    ),
    ("*", ["a", ".env"], ["a/b"]),
    ("**", ["a", "a/b/c", ".git/config"], []),
    ("*.ts", ["a.ts", ".ts"], ["a/b.ts", "a.TS"]),
    ("**/*.ts", ["a.ts", "x/y/b.ts"], ["x/y/b.js"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/xb", "b", "a/b/c"]),
    ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c"], ["a/c", "a/b/c/d"]),
    ("a/**/**", ["a/b", "a/b/c"], ["a"]),
    ("a**b", ["ab", "axxb"], ["a/b"]),
    ("***", ["a"], ["a/b"]),
    ("a?c", ["abc", "a.c"], ["ac", "abbc", "a/c"]),
    ("?", ["a", "é", "🙂"], ["", "ab"]),
    ("[abc].md", ["a.md", "c.md"], ["d.md", ".md"]),
    ("[a-cx-z].md", ["b.md", "y.md"], ["d.md", "-.md"]),
    ("[!a-c].md", ["d.md"], ["a.md", ".md"]),
    ("[^a-c].md", ["d.md"], ["a.md"]),
    ("[]a].md", ["].md", "a.md"], ["b.md"]),
    ("[!]a].md", ["b.md"], ["].md"]),
    ("[a-].md", ["a.md", "-.md"], ["b.md"]),
    ("[\\]\\-].md", ["].md", "-.md"], ["\\.md"]),
    ("[?*].md", ["?.md", "*.md"], ["a.md"]),
    ("{a,b}.md", ["a.md", "b.md"], ["{a,b}.md", "c.md"]),
    ("{src,test/unit}/**", ["src/x", "test/unit/x"], ["test/x"]),
    ("{a,{b,c}d}e", ["ae", "bde", "cde"], ["be"]),
    ("a{,.min}.js", ["a.js", "a.min.js"], ["a.map.js"]),
    ("{*,x/**}.ts", ["a.ts", "x/.ts"], ["x/y/.ts"]),
    ("a/{,b/}c", ["a/c", "a/b/c"], ["c"]),
    ("{a}", ["a"], ["{a}"]),
    ("a}b,c", ["a}b,c"], ["a"]),
    ("a\\*b", ["a*b"], ["axb"]),
    ("\\{a,b\\}", ["{a,b}"], ["a"]),
    ("\\!important", ["!important"], ["important"]),
    ("app/\\[slug\\]/page.tsx", ["app/[slug]/page.tsx"], ["app/s/page.tsx"]),
    ("app/(shop)/**", ["app/(shop)/a"], ["app/shop/a"]),
    ("foo..bar/**", ["foo..bar/x"], []),
    (".../x", [".../x"], []),
    ("./src/*.ts", ["src/a.ts", "./src/a.ts"], []),
    ("a//b/./c", ["a/b/c"], []),
    ("*a*b*c*", ["xaxbxcx", "abc"], ["xaxcxb"]),
    ("a*?b", ["axb", "axxb"], ["ab"]),
    ("my docs/*.md", ["my docs/a.md"], []),
    ("üñ/*", ["üñ/é"], ["Üñ/é"]),
]


@promise("K5", "a pattern matches what it should and nothing else")
@pytest.mark.parametrize(("pattern", "hits", "misses"), TABLE, ids=[row[0] for row in TABLE])
def test_a_pattern_matches_what_it_should_and_nothing_else(pattern: str, hits: list[str], misses: list[str]) -> None:
    assert {path: matches(pattern, path) for path in (*hits, *misses)} == {
        **dict.fromkeys(hits, True),
        **dict.fromkeys(misses, False),
    }


REFUSED = {
    "": "must not be empty",
    "  ": "must not be empty",
    "/etc/passwd": "must be relative",
    "C:\\src": "must be relative",
    "c:/src": "must be relative",
    "{/etc,a}/x": "must be relative",
    "../x": "must not climb",
    "a/../b": "must not climb",
    "a/..": "must not climb",
    "a/{b,..}/c": "must not climb",
    "a/{.,b}./c": "must not climb",
    "!src/**": "no negation",
    "src/[abc": "'[' is not closed",
    "src/[]": "'[' is not closed",
    "src/[!]": "'[' is not closed",
    "src/[a-": "'[' is not closed",
    "src/{a,b": "'{' is not closed",
    "src/{a,{b}": "'{' is not closed",
    "src/[z-a]": "runs backwards",
    "src/[a/b]": "cannot stand between brackets",
    "[[:alpha:]]": "not supported",
    "src\\pages\\x": "separated by '/'",
    "src/a\\": "separated by '/'",
    "a\0b": "NUL",
    "src/": "write /** for everything below",
    "a/{b,}": "write /** for everything below",
    ".": "names nothing",
    "./": "/** for everything",
    "x" * 513: "513 characters",
    "{a,b}" * 7: f"more than {ALTERNATIVES_MAX} patterns",
    "{a,b}" * 102: f"more than {ALTERNATIVES_MAX} patterns",
    "{" * 9 + "}" * 9: "nested",
}


@promise("K4", "a pattern that makes no sense is refused with the reason")
@pytest.mark.parametrize("pattern", REFUSED, ids=lambda pattern: repr(pattern[:20]))
def test_a_pattern_that_makes_no_sense_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse(pattern)
    assert REFUSED[pattern] in refusal.value.message
    assert len(refusal.value.message) < 300


def test_the_longest_pattern_and_the_most_alternatives_are_accepted() -> None:
    assert len(parse("x" * 512)) == 1
    assert len(parse("{a,b}" * 6)) == ALTERNATIVES_MAX


@promise("globs, immune", "no pattern takes long whatever the path")
@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 250 + "b", "a" * 4_000),
        ("*" + "[a-z]" * 100 + "?b*z", "a" * 4_000),
        ("**/a/" * 100 + "b", "a/" * 2_000),
        ("**/*a*/" * 70 + "x", "aa/" * 1_300),
        ("?*" * 250 + "b", "a" * 4_000),
    ],
)
def test_no_pattern_takes_long_whatever_the_path(pattern: str, path: str) -> None:
    """A matcher that tries every way through these does not come to an end."""
    assert not matches(pattern, path)


@promise("K6", "a dot and a slash in front are taken off")
def test_a_dot_and_a_slash_in_front_are_taken_off() -> None:
    assert [normalised(pattern) for pattern in ("./src/**", "././a", ".//a", "a", ".a", "..a")] == [
        "src/**",
        "a",
        "a",
        "a",
        ".a",
        "..a",
    ]


def test_an_absolute_path_is_in_no_repository() -> None:
    assert segments_of("/src/a.ts") is None
    assert segments_of("./") is None
    assert segments_of("./src//a.ts") == ("src", "a.ts")


def test_the_head_says_where_a_pattern_must_be_looked_for() -> None:
    heads = {pattern: literal_head(parse(pattern)[0]) for pattern in ("src/a/**", "src/a.ts", "**/a", "src/a-*/b")}
    assert heads == {"src/a/**": "src/a", "src/a.ts": "src/a.ts", "**/a": "", "src/a-*/b": "src"}


@promise("globs, indexed", "what cannot match is not looked at")
def test_what_cannot_match_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    index: GlobIndex[int] = GlobIndex()
    for number in range(2_000):
        index.add(number, parse(f"src/area{number}/**"))
        index.add(number, parse(f"src/page-{number}-*.tsx"))
        index.add(number, parse(f"**/*.kind{number}.ts"))
    tried: list[str] = []
    fits = Wild.fits

    def counted(segment: Wild, name: str) -> bool:
        tried.append(name)
        return fits(segment, name)

    monkeypatch.setattr(Wild, "fits", counted)
    assert index.match(("src", "page-7-x.tsx")) == {7}
    assert index.match(("src", "area9", "deep", "x.kind5.ts")) == {9, 5}
    assert 0 < len(tried) < 10


def test_an_index_is_empty_again_when_everything_was_taken_out() -> None:
    patterns = ["a/**", "a/*", "a/b*", "a/*b", "a/[x]", "**/c/**", "{a,b}/c", "a"]
    index: GlobIndex[str] = GlobIndex()
    for pattern in patterns:
        index.add(pattern, parse(pattern))
    for pattern in patterns:
        assert index
        index.remove(pattern, parse(pattern))
    assert not index

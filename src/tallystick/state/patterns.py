"""The regular expressions of callers: always linear time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import re2  # type: ignore[import-untyped]  # its author publishes no types

from tallystick.errors import InvalidArgument, LimitExceeded

LENGTH_MAX = 1_000
_SIZE_MAX = 10_000
_COMPILE_BYTES = 1 << 20
_MATCH_BYTES = 64 << 20
_COST_MAX = 30_000_000


class Pattern:
    """Matches anywhere in a text unless it is anchored. Raises InvalidArgument when it is no RE2 expression."""

    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise _refusal(f"it has {len(text)} characters, the limit is {LENGTH_MAX}")
        try:
            # With little memory at first: "too large" is found out before it takes long.
            self._size: int = re2.compile(text, _options(_COMPILE_BYTES)).programsize
        except re2.error as error:
            raise _refusal(_reason(error)) from None
        if self._size > _SIZE_MAX:
            raise _refusal("it is too large once its repetitions are written out")
        # A set of one takes a fifth of the time of a search, which would also work out where the match is.
        # Sets give up silently when they are out of memory; this is room for thousands of their states.
        self._set = re2.Set.SearchSet(_options(_MATCH_BYTES))
        self._set.Add(text)
        self._set.Compile()
        self._literal = required_literal(text)
        self.literal = b"" if _ESCAPED.search(self._literal) else self._literal.encode()
        """What every match has, as it stands in JSON; empty where that is not plain to see."""

    def worth_trying(self, values: Iterable[object]) -> list[str]:
        """The texts among them that could match: those that have what every match has. Much quicker than a match."""
        literal = self._literal
        return [value for value in values if type(value) is str and literal in value]

    def cost(self, text: str) -> int:
        """Steps that a match takes at the very worst; some 100,000 of them are a millisecond."""
        return self._size * (len(text) + 1)

    def matches(self, text: str) -> bool:
        return bool(self._set.Match(text))

    def matches_any(self, values: Iterable[object]) -> bool:
        """Raises LimitExceeded rather than hold everybody up."""
        texts = self.worth_trying(values)
        if sum(map(self.cost, texts)) > _COST_MAX:
            raise LimitExceeded(
                f"the regular expression is too intricate for texts of {sum(map(len, texts))} characters",
                code="PATTERN_TOO_COSTLY",
                hint="use fewer or smaller repetitions, or narrow the search by type or by another attribute",
            )
        return any(map(self.matches, texts))


# -- what every match has

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
"""What JSON writes in another way."""

_TOKEN = re.compile(
    r"""
    (?P<quoted> \\[!-/:-@\[-`{-~] )
    | (?P<other> \\[dDsSwWbBAzafnrtv] | \\[pP](?:[A-Za-z]|\{\^?\w+\}) | [.^$] )
    | (?P<members> \[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\] )
    | (?P<repeat> (?:[*?] | \{\d+(?:,\d*)?\}) \?? )
    | (?P<some> \+\??(?![*+?{]) )
    | (?P<begin> \((?!\?) )
    | (?P<end> \) )
    | (?P<either> \| )
    | (?P<plain> [^\\\[\](){}|*+?.^$] )
    """,
    re.VERBOSE | re.DOTALL,
)


def required_literal(pattern: str) -> str:
    """The longest text that is in whatever the pattern matches; empty where that is not plain to see.

    Only what stands at the top level counts: a group may be left out, and an alternative be another. What is written
    in any other way (flags, code points in digits, quotations) is not looked into at all.
    """
    return max(_runs(pattern), key=len, default="")


def _runs(pattern: str) -> Iterator[str]:
    found: list[str] = []
    run, depth, at = "", 0, 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None or (token.lastgroup == "either" and not depth):
            return
        kind, text, at = token.lastgroup, token[0], token.end()
        depth += (kind == "begin") - (kind == "end")
        if kind in ("plain", "quoted") and not depth:
            run += text[-1]
        else:
            # What may come any number of times, or not at all, is in no match for sure.
            found.append(run[:-1] if kind == "repeat" else run)
            run = ""
    yield from [*found, run]


class PatternSet:
    """Several of our own at once: whether any matches takes one pass, however many there are."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._each = [re2.compile(text, _options(_COMPILE_BYTES)) for text in texts]
        self._set = re2.Set.SearchSet(_options(_MATCH_BYTES))
        for each in self._each:
            self._set.Add(each.pattern)
        self._set.Compile()

    def may_match(self, text: str | bytes) -> bool:
        return bool(self._set.Match(text))

    def spans(self, text: str) -> Iterator[tuple[int, int, int]]:
        """The number of the pattern, and where it begins and ends."""
        for number in sorted(self._set.Match(text) or ()):
            for found in self._each[number].finditer(text):
                yield number, *found.span()


def _options(memory_bytes: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = memory_bytes
    return options


def _reason(error: Exception) -> str:
    found = error.args[0] if error.args else str(error)
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)


def _refusal(reason: str) -> InvalidArgument:
    return InvalidArgument(
        f"the regular expression cannot be used: {reason}",
        code="INVALID_PATTERN",
        hint="patterns are RE2: no look-around, no back-references",
    )

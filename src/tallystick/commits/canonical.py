"""Canonical JSON (RFC 8785): equal values give equal bytes, whoever computes them.

Two roads lead to the same bytes. orjson writes almost all JSON as the RFC wants it, many
times faster than the exact serialiser; `_is_plain` and `_keys_sort_alike` decide whether a
value is among that almost all. They may be too careful, never too bold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

import msgspec
import orjson
import rfc8785

from tallystick.errors import InvalidArgument

DEPTH_MAX = 64
"""Objects and arrays inside each other, the outermost counted."""
INTEGER_MAX = 2**53 - 1
"""Past it, readers whose numbers are all doubles would see another integer."""


def canonical_bytes(value: Any) -> bytes:
    """The one spelling of `value`. Raises InvalidArgument, naming the place, for what JSON cannot say.

    Only None, bool, int, float, str, list, tuple and dict themselves are JSON; subclasses
    (enumerations among them) are refused, since libraries disagree on how to spell them.
    """
    try:
        if _is_plain(value.values(), DEPTH_MAX - 1) if type(value) is dict else _is_plain((value,), DEPTH_MAX):
            found = orjson.dumps(value, option=_OPTIONS)
            if found.isascii() or _keys_sort_alike(value, found):
                return found
    except orjson.JSONEncodeError:
        pass  # The exact road knows which value it was.
    return _exact_bytes(value)


def parse(data: bytes) -> Any:
    """The value that has these canonical bytes: `canonical_bytes(parse(data)) == data`."""
    value = msgspec.json.decode(data)
    if isinstance(value, dict | list):
        restore_doubles(value)
    return value if type(value) is not int or abs(value) <= INTEGER_MAX else float(value)


def restore_doubles(container: dict[str, Any] | list[Any]) -> None:
    """In place, in what another reader made of canonical bytes.

    Doubles from 2^53 to 10^21 are spelt like integers (1.5e20 as 150000000000000000000). Who takes them for
    such has a value that no encoder writes as it was, and many do not write at all.
    """
    places: Iterable[tuple[Any, Any]] = container.items() if isinstance(container, dict) else enumerate(container)
    for place, value in places:
        kind = type(value)
        if kind is int:
            if not -INTEGER_MAX <= value <= INTEGER_MAX:
                container[place] = float(value)
        elif kind is dict or kind is list:
            restore_doubles(value)


_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_EASY = frozenset({str, int, bool, type(None)})
_KNOWN = _EASY | {float, list, tuple, dict}


def _is_plain(values: Iterable[Any], depth: int) -> bool:
    """Whether orjson is right about all of them, keys aside. Integers and surrogates it refuses by itself."""
    if depth < 0:
        return False
    types = set(map(type, values))
    if types <= _EASY:
        return True
    if not types <= _KNOWN:
        return False
    for value in values:
        kind = type(value)
        if kind in _EASY:
            continue
        if kind is float:
            if not _is_plain_float(value):
                return False
        elif not _is_plain(value.values() if kind is dict else value, depth - 1):
            return False
    return True


def _is_plain_float(number: float) -> bool:
    # Outside this range orjson's exponents differ, inside only whole numbers do ("1.0"). NaN fails both comparisons.
    return 1e-5 <= abs(number) < 1e16 and not number.is_integer()


def _keys_sort_alike(value: Any, found: bytes) -> bool:
    """Whether sorting by code points, as orjson does, equals sorting by UTF-16 units, as the RFC does.

    They part where a character of U+10000 and above meets one of U+E000 to U+FFFF.
    """
    return not any(map(found.__contains__, _ASTRAL)) or _keys_are_ascii(value)


_ASTRAL = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
"""First bytes of the characters of U+10000 and above in UTF-8."""


def _keys_are_ascii(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        return "".join(value).isascii() and all(map(_keys_are_ascii, value.values()))
    return (kind is not list and kind is not tuple) or all(map(_keys_are_ascii, value))


def _exact_bytes(value: Any) -> bytes:
    _check(value, "", DEPTH_MAX)
    return rfc8785.dumps(value)


def _check(value: Any, path: str, depth: int) -> None:
    kind = type(value)
    if kind is str:
        _check_text(value, path)
    elif kind is int:
        if not -INTEGER_MAX <= value <= INTEGER_MAX:
            raise _refusal(path, "is an integer beyond ±(2^53−1), which JSON cannot carry exactly; send it as text")
    elif kind is float:
        if not isfinite(value):
            raise _refusal(path, "is not a finite number")
    elif kind is dict or kind is list or kind is tuple:
        if depth == 0:
            raise _refusal(path, f"is nested deeper than {DEPTH_MAX} levels")
        for step, child in _children(value, path):
            _check(child, step, depth - 1)
    elif value is not None and kind is not bool:
        raise _refusal(path, f"is of type {kind.__name__}, which JSON does not have")


def _children(container: Any, path: str) -> Iterator[tuple[str, Any]]:
    if type(container) is not dict:
        for index, child in enumerate(container):
            yield f"{path}[{index}]", child
        return
    for key, child in container.items():
        if type(key) is not str:
            raise _refusal(path, f"has a key of type {type(key).__name__}; keys are text")
        _check_text(key, path, "has a key that holds half of a surrogate pair")
        yield (f"{path}.{key}" if path else key), child


def _check_text(text: str, path: str, problem: str = "holds half of a surrogate pair, which is not text") -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _refusal(path, problem) from None


def _refusal(path: str, problem: str) -> InvalidArgument:
    shown = path if len(path) <= 100 else path[:100] + "…"
    return InvalidArgument(f"{shown or 'the value'} {problem}", details={"path": shown})

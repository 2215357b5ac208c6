"""Links of the form [[target]], [[target|shown]] and [[target#part]] in Markdown, outside of code."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINK = re.compile(r"\[\[([^\[\]\n]{1,500})\]\]")
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|`[^`\n]*`", re.DOTALL)


def without_code(text: str) -> str:
    """The same number of lines."""
    return _CODE.sub(lambda found: "\n" * found[0].count("\n"), text)


def targets(text: str) -> Iterator[str]:
    """Of each link, as often as it stands there; what is shown and the part of the page are left out."""
    for found in _LINK.finditer(text):
        target = target_of(found[1])
        if target:
            yield target


def target_of(inner: str) -> str:
    return inner.partition("|")[0].partition("#")[0].strip()

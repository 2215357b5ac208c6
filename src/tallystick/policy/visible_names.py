"""Whether a text shows anything to a reader: a name that does not cannot be told from no name."""

from __future__ import annotations

import unicodedata

_SHOWS_NOTHING = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters, marks and symbols that are drawn as nothing: fillers, joiners, the empty Braille cell."""
_VARIATION_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))


def is_visible(text: str) -> bool:
    """False for blanks, control and format characters, and characters without a glyph, however many."""
    return any(map(_is_seen, text))


def _is_seen(character: str) -> bool:
    if character in _SHOWS_NOTHING or any(ord(character) in each for each in _VARIATION_SELECTORS):
        return False
    # Separators and "other": control, format, surrogates, private use, unassigned.
    return unicodedata.category(character)[0] not in "ZC"

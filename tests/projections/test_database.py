"""What a database says of itself when its bytes were changed."""

from __future__ import annotations

import sqlite3

import pytest

from tallystick.projections.database import Damaged, translated

CHANGED = (
    sqlite3.OperationalError("Could not decode to UTF-8 column 'text' with text '\ufffd'"),
    sqlite3.OperationalError("no such table: texts"),
    UnicodeDecodeError("utf-8", b"malformed database schema \x86", 26, 27, "invalid start byte"),
)


@pytest.mark.parametrize("error", CHANGED, ids=lambda error: type(error).__name__)
def test_bytes_that_are_no_text_are_damage(error: Exception) -> None:
    with pytest.raises(Damaged), translated():
        raise error

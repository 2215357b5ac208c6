"""Output to terminals that cannot show everything: what their encoding lacks is written as JSON escapes.

`\\u017e` is readable in a table and correct in JSON, unlike Python's own `\\xe9` and `\\U0001f469`.
"""

from __future__ import annotations

import codecs
import io
from codecs import CodecInfo
from typing import TextIO

ESCAPES = "tallystick-escapes"
ASCII = "tallystick-ascii"
"""ASCII under another name: Click takes a stream with the usual one for misconfigured and writes UTF-8 to it."""


def escape_what_is_missing(stream: TextIO) -> None:
    """For the rest of the process. A stream in UTF-8 escapes only lone surrogates, which file names may have."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    is_ascii = codecs.lookup(stream.encoding).name == "ascii"
    stream.reconfigure(encoding=ASCII if is_ascii else None, errors=ESCAPES)


def is_utf8(stream: TextIO) -> bool:
    return codecs.lookup(stream.encoding or "utf-8").name == "utf-8"


def escape(text: str) -> str:
    """The text in ASCII."""
    return text.encode("ascii", ESCAPES).decode("ascii")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(f"\\u{pair.hex()}" for pair in pairs), error.end


def _find(name: str) -> CodecInfo | None:
    """`name` has its hyphens and blanks replaced by underscores since Python 3.9."""
    if name.replace("_", "-") != ASCII:
        return None
    known = codecs.lookup("ascii")
    return CodecInfo(
        name=ASCII,
        encode=known.encode,
        decode=known.decode,
        incrementalencoder=known.incrementalencoder,
        incrementaldecoder=known.incrementaldecoder,
        streamwriter=known.streamwriter,
        streamreader=known.streamreader,
    )


codecs.register_error(ESCAPES, _escaped)
codecs.register(_find)

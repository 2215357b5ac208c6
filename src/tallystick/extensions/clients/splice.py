"""What all splicers share: a cut or an insertion at one place of a text, and the error that names a place."""

from __future__ import annotations

from typing import NamedTuple

Path = tuple[str, ...]
"""Of keys, from the outermost."""


class Splice(NamedTuple):
    """Of `text` before it: `at` is where `inserted` begins. The same text taken out there undoes it."""

    at: int
    inserted: str
    made: int = 1
    """How many containers and keys came with it: what must go again when nothing else is in it."""

    def into(self, text: str) -> str:
        return text[: self.at] + self.inserted + text[self.at :]

    def undone(self, text: str) -> str | None:
        """None where it does not stand at its place."""
        end = self.at + len(self.inserted)
        return text[: self.at] + text[end:] if text[self.at : end] == self.inserted else None


class Unreadable(Exception):
    """A file that cannot be read as what it should be, or in which the place is taken. It is left alone, and its owner
    is told why: no error of the call."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def unreadable(text: str, at: int, problem: str) -> Unreadable:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return Unreadable(f"line {line}, column {column}: {problem}")


def newline_of(text: str) -> str:
    end = text.find("\n")
    return "\r\n" if end > 0 and text[end - 1] == "\r" else "\n"

"""The arguments of the six tools."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tallystick.toolsets.memory.arguments import Arguments

Path = Annotated[str, Field(description="relative to the base directory", max_length=4096)]


class View(Arguments):
    path: Path = ""
    view_range: Annotated[list[int], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="first and last line, counted from 1; -1 is the end"
    )


class Create(Arguments):
    path: Path
    file_text: str
    overwrite: bool = False


class StrReplace(Arguments):
    path: Path
    old_str: str = Field(min_length=1)
    new_str: str = ""


class Insert(Arguments):
    path: Path
    insert_line: int = Field(ge=0, description="the text comes after this line; 0 is the beginning")
    insert_text: str


class Delete(Arguments):
    path: Path


class Rename(Arguments):
    old_path: Path
    new_path: Path

"""Which files hold something: looked for byte by byte, while whoever writes them may remove them."""

from __future__ import annotations

from pathlib import Path


def files_with(needle: bytes, *directories: Path) -> list[Path]:
    return [path for each in directories for path in each.rglob("*") if _holds(path, needle)]


def _holds(path: Path, needle: bytes) -> bool:
    try:
        return path.is_file() and needle in path.read_bytes()
    except FileNotFoundError:
        return False

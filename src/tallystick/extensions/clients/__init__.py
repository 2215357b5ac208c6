"""The clients: which programs there are that agents run in, where they keep their configuration, and how one entry is
put into such a file and taken out again.

Knows the clients' formats and nothing of ours but the names of our commands. Files are read and written by
`init.py`; what is here are tables and pure functions of text.
"""

from __future__ import annotations

from tallystick.extension import Command, Extension

_HERE = "tallystick.extensions.clients"
EXTENSION = Extension(
    name="clients",
    commands={"init": Command(f"{_HERE}.cli:init", is_first=True)},
    checks=(f"{_HERE}.checks:check_clients",),
)

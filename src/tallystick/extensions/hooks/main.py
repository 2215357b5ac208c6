"""Hooks: what a coding agent is told of the memory while it works, by `tallystick-hook EVENT`.

Started by the client at every prompt and tool call, so it is quick, bounded and silent: it reads the SQL mirror, the
text index and the end of the log, loads no state and imports no protocol. Whatever goes wrong, the client goes on as
if there were no memory.

`clients` knows what each client says and wants to hear; `digest` what is worth saying; `graph` and `recall` where it is
found; `quoting` how one agent's words are shown to another; `session_file` what was said already.
"""

from __future__ import annotations


def main() -> None:
    from tallystick.extensions.hooks.command import run

    run()

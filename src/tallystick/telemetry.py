"""What this process tells about itself: lines on standard error, since standard output belongs to the protocol."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Stderr(logging.Handler):
    """Asks for standard error at each line: it may have been replaced or closed since."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            print(self.format(record), file=sys.stderr, flush=True)


def log_to_stderr(level: str) -> None:
    """Replaces what was set up before; libraries speak only from warnings up unless all is asked for."""
    logging.basicConfig(handlers=[_Stderr()], format=_FORMAT, level=logging.WARNING, force=True)
    chosen = logging.getLevelName(level.upper())
    logging.getLogger("tallystick").setLevel(chosen)
    if chosen <= logging.DEBUG:
        logging.getLogger().setLevel(chosen)

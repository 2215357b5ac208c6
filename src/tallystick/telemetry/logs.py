"""The lines: on standard error, since standard output belongs to the protocol; as text, or as JSON for collectors."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tallystick.clock import to_text
from tallystick.telemetry import tracing

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def log_to_stderr(level: str, form: str = "text") -> None:
    """Replaces what was set up before; libraries speak only from warnings up unless all is asked for."""
    handler = _Stderr()
    handler.setFormatter(_Json() if form == "json" else _Text(_FORMAT))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    chosen = logging.getLevelName(level.upper())
    logging.getLogger("tallystick").setLevel(chosen)
    if chosen <= logging.DEBUG:
        logging.getLogger().setLevel(chosen)


def tell(logger: logging.Logger, level: int, event: str, message: str, /, **fields: Any) -> None:
    """A line with an event's name and fields, for whoever reads them by machine. Ask `isEnabledFor` first."""
    logger.log(level, "%s", message, extra={"event": event, "fields": fields})


def announce(event: str, message: str, /, **fields: Any) -> None:
    """As `tell`, of the process itself and whatever the level."""
    logger = logging.getLogger("tallystick")
    extra = {"event": event, "fields": fields}
    logger.handle(logger.makeRecord("tallystick", logging.INFO, "", 0, message, (), None, extra=extra))


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """The fields given to `tell`; nothing for any other line."""
    fields = getattr(record, "fields", None)
    return {name: value for name, value in fields.items() if value is not None} if isinstance(fields, Mapping) else {}


class _Stderr(logging.Handler):
    """Asks for standard error at each line: it may have been replaced or closed since."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):
            print(self.format(record), file=sys.stderr, flush=True)


class _Text(logging.Formatter):
    """A message is one line, whatever names it quotes: none can write lines of its own or steer a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = printable(record.message)
        return super().formatMessage(record)


def printable(text: str) -> str:
    """With escapes for control characters, line ends, marks that turn the direction of writing, and the like."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


class _Json(logging.Formatter):
    """One object in one line. What an event says may not displace what every line says."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": to_text(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        event = getattr(record, "event", None)
        if event is not None:
            line["event"] = event
        ids = None if tracing.tracer is None else tracing.tracer.ids()
        if ids is not None:
            line["trace_id"], line["span_id"] = ids
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = {"type": record.exc_info[0].__name__, "trace": self.formatException(record.exc_info)}
        return json.dumps({**fields_of(record), **line}, default=str)

"""The command line: parses what a person types, calls an operation or a tool, draws the result.

Imports that take time are made inside the commands, so that `serve` starts quickly.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Iterable
from functools import cache, wraps
from typing import NoReturn

import typer
from typer.core import TyperCommand

from tallystick import __version__, errors
from tallystick.cli.options import HELP
from tallystick.cli.output import Styled, say
from tallystick.cli.terminal_encoding import escape_what_is_missing
from tallystick.errors import TallystickError
from tallystick.extension import installed, load

EXIT_CODES: dict[type[TallystickError], int] = {
    errors.InvalidArgument: 2,
    errors.NotFound: 3,
    errors.Conflict: 4,
    errors.Denied: 5,
    errors.LimitExceeded: 6,
    errors.StorageRefused: 7,
    errors.LogClosed: 7,
    errors.Unsettled: 7,
    errors.Unmasked: 7,
    errors.Unreadable: 7,
    errors.Corrupt: 1,
    TallystickError: 1,
}
EXIT_BUG = 70
EXIT_INTERRUPTED = 130

COMMANDS: dict[str, str] = {
    "serve": "serving:serve",
    "status": "people:status",
    "remember": "people:remember",
    "ask": "people:ask",
    "log": "reading:log",
    "show": "reading:show",
    "search": "reading:search",
    "lineage": "reading:lineage",
    "verify": "maintenance:verify",
    "doctor": "maintenance:doctor",
    "where": "maintenance:where",
    "trust-settings": "trust_settings:trust_settings",
    "snapshot": "maintenance:snapshot",
    "catch-up": "maintenance:catch_up",
    "export": "transfer:export",
    "import": "transfer:import_",
    "forget": "forget:forget",
    "redactions": "forget:redactions",
    "recall": "recall:recall",
    "stale": "stale:stale",
    "restore-entity": "restore_entity:restore_entity",
}
"""Refer to functions of modules beside this one: a process imports what its command needs."""

CLASSES: dict[str, str] = {"export": "transfer:ExportCommand", "import": "transfer:ImportCommand"}
"""Commands that read their words in a way of their own."""

GROUPS: dict[str, str] = {
    "work": "work:commands",
    "knowledge": "knowledge:commands",
    "policy": "policy:commands",
    "subject": "forget:subject_commands",
    "tenants": "tenants:commands",
}
"""Words with words of their own: `tallystick work next`."""


def words() -> list[str]:
    """Return every word of the command line, in the order of `--help`."""
    others = {name: each for name, each in installed().commands().items() if name not in _OURS}
    first = [name for name, each in others.items() if each.is_first]
    return [*first, *COMMANDS, *(name for name in others if name not in first), *GROUPS]


_OURS = {*COMMANDS, *GROUPS}


def _find(word: str) -> Callable[..., None] | typer.Typer:
    """Return the command or the group of commands. The core's go before those of extensions."""
    reference = COMMANDS.get(word) or GROUPS.get(word)
    command: Callable[..., None] | typer.Typer = load(
        f"{__name__}.{reference}" if reference else installed().commands()[word].run
    )
    return command


def _class_of(word: str) -> type[TyperCommand] | None:
    return load(f"{__name__}.{CLASSES[word]}") if word in CLASSES else None


def _pipeable(command: Callable[..., None]) -> Callable[..., None]:
    """Whoever reads our output may have seen enough: that is no error."""

    @wraps(command)
    def run(*args: object, **kwargs: object) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            # What Python would flush at exit has nowhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return run


def _make_pipeable(group: typer.Typer) -> None:
    for each in group.registered_commands:
        each.callback = _pipeable(each.callback) if each.callback else None
    if group.registered_callback and group.registered_callback.callback:
        group.registered_callback.callback = _pipeable(group.registered_callback.callback)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"tallystick {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and leave."
    ),
) -> None:
    if context.invoked_subcommand is None:
        from tallystick.cli.people import status

        _pipeable(status)()


def _command_line(names: Iterable[str]) -> typer.Typer:
    made = typer.Typer(
        help="The memory that AI agents can be trusted with: a versioned, verifiable graph served over MCP.",
        epilog="Alone it says what is here and what is next. Every command explains itself: tallystick COMMAND --help",
        invoke_without_command=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=HELP,
    )
    made.callback()(_root)
    for name in names:
        command = _find(name)
        if isinstance(command, typer.Typer):
            _make_pipeable(command)
            made.add_typer(command, name=name)
        else:
            made.command(name, cls=_class_of(name))(_pipeable(command))
    return made


@cache
def command_line() -> typer.Typer:
    """Return the command line with every command."""
    return _command_line(words())


def _asked_for(arguments: list[str]) -> typer.Typer:
    """Return a command line with the one command that is called, if it is one: to prepare all of them, or to look for
    extensions, takes longer than `serve` may."""
    word = next(iter(arguments), "")
    return _command_line([word]) if word in _OURS or word in words() else command_line()


def main() -> None:
    _prepare()
    try:
        _asked_for(sys.argv[1:])()
    except TallystickError as error:
        _leave(exit_code(type(error)), *_sentences(error))
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _REFUSED_BY_DISK:
            refused = errors.StorageRefused(
                str(error), hint="look at the disk: make it writable, or free some space; nothing is lost"
            )
            _leave(exit_code(type(refused)), *_sentences(refused))
        if (exhausted := errors.exhaustion(error)) is not None:
            _leave(exit_code(type(exhausted)), *_sentences(exhausted))
        import logging

        logging.getLogger("tallystick").debug("a bug", exc_info=True)
        _leave(
            EXIT_BUG,
            f"this is a bug in tallystick {__version__}: {type(error).__name__}: {error}",
            "nothing is lost; run it again with TALLYSTICK_LOG_LEVEL=debug for the details, and please report them",
        )


_REFUSED_BY_DISK = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO}


def _prepare() -> None:
    """Have what a command imports loaded quickly: it stays, so garbage is seldom looked for among it, and nobody looks
    for plugins of Pydantic in all that is installed."""
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        escape_what_is_missing(stream)
    gc.freeze()
    gc.set_threshold(20_000)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _open_streams() -> None:
    """Those that were closed for us lead nowhere. Left closed, their numbers would go to the next files that are
    opened, and what a library prints into a segment of the log."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode))


def exit_code(kind: type[TallystickError]) -> int:
    return next(EXIT_CODES[base] for base in kind.__mro__ if base in EXIT_CODES)


def _sentences(error: TallystickError) -> list[str]:
    problems = [problem for problem in getattr(error, "problems", []) if problem != error.message]
    return [f"{error.message} [{error.code}]", *problems, *([error.hint] if error.hint else [])]


def _leave(code: int, first: str, *others: str) -> NoReturn:
    say(Styled("error:", fg="red", bold=True), f" {first}", err=True)
    for sentence in others:
        say(f"  {sentence}", err=True)
    sys.exit(code)

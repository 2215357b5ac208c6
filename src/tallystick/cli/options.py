"""The options that many commands share, and the settings that come of them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.config import CONFIRM_HINT, Settings, load
from tallystick.errors import InvalidArgument, NotFound
from tallystick.operations.trust_settings import ignored_settings
from tallystick.telemetry.logs import log_to_stderr

if TYPE_CHECKING:
    from tallystick.log.checkpoint import Known

logger = logging.getLogger(__name__)

HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

Base = Annotated[
    Path | None,
    typer.Option(
        "--base",
        metavar="DIR",
        help="Where the memory lies. [env: BASE_PATH; default: the repository's, else yours: 'tallystick where']",
        show_default=False,
    ),
]
Tenant = Annotated[
    str | None, typer.Option("--tenant", metavar="NAME", help="Whose memory. [default: default]", show_default=False)
]
EveryTenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="NAME", help="Only in this one's memory. [default: in all]", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Option("--checkpoint", metavar="FILE", help="The log must lead to this signed checkpoint; may be repeated."),
]
VerifierKeys = Annotated[
    list[Path] | None,
    typer.Option("--vkey", metavar="FILE", help="Verifier keys, one a line, one of which must have signed it."),
]
Quorum = Annotated[
    int,
    typer.Option("--quorum", min=0, metavar="N", help="At least so many witnesses among --vkey must have cosigned."),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many.")]


def settled(**flags: Any) -> Settings:
    """The settings for this call; what the process says from now on goes to standard error."""
    settings = load(flags)
    log_to_stderr(settings.log_level, settings.log_format)
    for line in ignored_settings(settings.base):
        logger.warning("%s. %s", line, CONFIRM_HINT)
    return settings


def existing(**flags: Any) -> Settings:
    """For commands that look: they never make a base where there was none."""
    settings = settled(**flags)
    if not settings.has_log:
        from tallystick.projections.registry import check_not_removed

        check_not_removed(settings.home)
        raise NotFound(
            f"there is no memory in {settings.home}",
            code="NO_MEMORY",
            hint="name another place with --base, or begin one: an agent's first write does, or 'tallystick import'",
        )
    return settings


def read_checkpoints(files: list[Path] | None, vkeys: list[Path] | None, quorum: int = 0) -> list[Known]:
    if not files and not vkeys:
        return []
    if not files or not vkeys:
        raise InvalidArgument(
            "--checkpoint and --vkey belong together: a checkpoint, and the keys of who signed it",
            hint="'tallystick keys verifier' prints the verifier keys of a log",
        )
    from tallystick.log.checkpoint import read_known, read_verifier_keys

    keys = [key for path in vkeys for key in read_verifier_keys(path)]
    return [read_known(path, keys, quorum=quorum) for path in files]


def command_group(about: str, *, is_whole: bool = False) -> typer.Typer:
    """For commands with a word in front of them: `tallystick work next`. One that is whole says something alone."""
    return typer.Typer(
        help=about,
        no_args_is_help=not is_whole,
        invoke_without_command=is_whole,
        rich_markup_mode=None,
        add_completion=False,
        context_settings=HELP,
    )

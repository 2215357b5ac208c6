"""Who calls: the local user, sessions, and the claims that they hold."""

from __future__ import annotations

import os
from functools import cache
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.config import Settings
from tallystick.engine.sessions import Sessions
from tallystick.errors import InvalidArgument
from tallystick.policy import Principal
from tallystick.policy.visible_names import is_visible
from tallystick.toolsets.claims import Claims
from tallystick.work_settings import DEFAULT_AGENT, WorkSettings, read_settings

if TYPE_CHECKING:
    pass


def system_user() -> str:
    """By name; some containers have users without one."""
    try:
        return getuser()
    except (KeyError, OSError, ImportError):
        return "operator"


def local_user(settings: Settings) -> Principal:
    """Whoever can start this process. The name is that of the settings, else that of `graph.config.yaml`."""
    named = settings.agent_identity != DEFAULT_AGENT
    actor = settings.agent_identity if named else work_settings(settings).agent_identity
    if not is_visible(actor):
        raise InvalidArgument("the setting 'agent_identity' is blank", hint="name who writes, as in --agent ada")
    return Principal(actor=actor, tenant=settings.tenant, answer_bytes_max=settings.answer_bytes_max)


def open_sessions(settings: Settings) -> Sessions:
    """In the base, and not with a tenant: processes that serve one tenant and processes that serve all meet there."""
    kept = max(
        work_settings(settings).claim_ttl_milliseconds / 1000, settings.session_seconds, settings.web_session_seconds
    )
    directory = settings.base / "_system" / "sessions"
    if not settings.log_url:
        return Sessions(directory, kept_seconds=kept)
    from tallystick.operations.shared_logs import shared_log

    kind = shared_log(settings)
    return Sessions(
        directory,
        kept_seconds=kept,
        machine=kind.machine(settings),
        shared_key=cache(lambda: kind.shared_key(settings, "sessions")),
    )


def claims_of(settings: Settings, sessions: Sessions | None = None) -> Claims:
    ttl = work_settings(settings).claim_ttl_milliseconds
    return Claims(ttl=ttl, sessions=sessions or open_sessions(settings))


def check_user(settings: Settings) -> None:
    if settings.refuse_root and hasattr(os, "geteuid") and os.geteuid() == 0:
        raise InvalidArgument(
            "will not serve as root: whoever found a way into this process would own the machine",
            code="RUN_AS_ROOT",
            hint="start it as another user, such as 'docker run --user 10001:10001', or set refuse_root = false",
        )


def work_settings(settings: Settings) -> WorkSettings:
    return read_settings(base=settings.base, working=Path.cwd(), environ=os.environ)

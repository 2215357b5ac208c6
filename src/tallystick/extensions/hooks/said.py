"""From what a client said to what it is answered: settings, memory and session put together."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from tallystick import config
from tallystick.config import Settings
from tallystick.engine.sessions import Sessions
from tallystick.extensions.hooks import session_file
from tallystick.extensions.hooks.cited_files import WorkTree
from tallystick.extensions.hooks.clients import CLIENTS, KINDS, Client, Event, agents_of, hears, read_event, render
from tallystick.extensions.hooks.digest import Asked, Line, Window, gather, put_together
from tallystick.extensions.hooks.graph import Allows, Graph, opened
from tallystick.extensions.hooks.session_file import Said, SessionFile
from tallystick.system.processes import tag_of, tags_above
from tallystick.system.repository import find_repository
from tallystick.work_settings import DEFAULT_AGENT, WorkSettings, read_settings

URL_VARIABLE = "TALLYSTICK_URL"
"""A server to ask instead of the files."""
_ONCE = frozenset({"prompt", "before-tool", "stop"})


class Gathered(msgspec.Struct, frozen=True):
    """What could be said, and where it is to be noted."""

    lines: list[Line]
    position: int
    session: SessionFile


def answer(arguments: Sequence[str], stdin: bytes) -> str:
    """What to print. Raises whatever went wrong."""
    event = _event(arguments, stdin)
    if not hears(event):
        return ""
    settings = config.load(working=event.cwd)
    if os.environ.get(URL_VARIABLE) or is_guarded(settings):
        from tallystick.extensions.hooks.remote import ask

        found = work_tree(settings, event)
        return render(event, ask(settings, event, relative_paths(event, found)))
    return render(event, say(settings, event))


def is_guarded(settings: Settings) -> bool:
    """Whether somebody decides who may read what: then it is not for us to open the files."""
    return bool(settings.issuers or settings.policy_url or settings.policy not in ("", "single-user"))


def _event(arguments: Sequence[str], stdin: bytes) -> Event:
    kind = next((each for each in KINDS if each == arguments[0]), None)
    if kind is None:
        raise ValueError(f"there is no event '{arguments[0]}', but {', '.join(KINDS)}")
    said: Any = json.loads(stdin) if stdin.strip() else {}
    if not isinstance(said, dict):
        raise ValueError("what the client says is no JSON object")
    return read_event(kind, _client(arguments), said)


def _client(arguments: Sequence[str]) -> Client:
    named = [each.removeprefix("--client=") for each in arguments if each.startswith("--client=")]
    if "--client" in arguments[:-1]:
        named.append(arguments[arguments.index("--client") + 1])
    name = named[-1] if named else "claude"
    found = next((each for each in CLIENTS if each == name), None)
    if found is None:
        raise ValueError(f"there is no client '{name}', but {', '.join(CLIENTS)}")
    return found


# -- what is said


def say(settings: Settings, event: Event) -> str:
    """The text, noted as said."""
    work = read_settings(base=settings.base, working=event.cwd, environ=os.environ)
    named = next((each for each in (settings.agent_identity, work.agent_identity) if each != DEFAULT_AGENT), None)
    tree = work_tree(settings, event)
    agents, window = agents_of(event.client, named), window_of(settings)
    gathered = gather_from(settings, work, event, agents, window, tree, relative_paths(event, tree))
    return "" if gathered is None else finish(event, gathered)


def window_of(settings: Settings, session: str | None = None, tags: frozenset[str] | None = None) -> Window:
    """Return the window that an MCP session belongs to, or the processes with these tags; by default those above this
    process."""

    @cache
    def known_tags() -> frozenset[str]:
        return tags_above() if tags is None else tags

    sessions = Sessions(settings.base / "_system" / "sessions")
    return Window(lambda other: other == session or tag_of(other) in known_tags() - {""}, sessions.is_alive)


def gather_from(
    settings: Settings,
    work: WorkSettings,
    event: Event,
    agents: tuple[str, ...],
    window: Window,
    tree: WorkTree | None,
    paths: tuple[str, ...],
    allows: Allows | None = None,
) -> Gathered | None:
    """None where a session was told so much that no more can be noted."""
    home = settings.home
    session = SessionFile(home, event.client, event.session)
    if session.is_full():
        return None
    if event.kind == "session-start":
        session_file.sweep(home)
    before = session.read()
    with opened(home, work.db_path or home / "graph.db", allows) as graph:
        asked = Asked(
            event=event,
            graph=graph,
            agents=agents,
            window=window,
            search=partial(_search, home, graph),
            work_tree=tree,
            paths=paths,
            said={item.id: said.position for said in before if said.event in _ONCE for item in said.items},
            since=_since(settings, event, graph, agents, before),
            begun=before[0].position if before else graph.position,
            claim_ttl_seconds=work.claim_ttl_milliseconds / 1000,
        )
        return Gathered(gather(asked), graph.position, session)


def finish(event: Event, gathered: Gathered) -> str:
    """What fits, noted as said."""
    text, items = put_together(event.kind, gathered.lines)
    if text or event.kind == "session-start":
        # What cannot be noted would be said again and again.
        gathered.session.add(event.kind, gathered.position, items)
    return text


def _since(settings: Settings, event: Event, graph: Graph, agents: Sequence[str], before: Sequence[Said]) -> int:
    if event.kind != "session-start":
        return 0
    told = max((said.position for said in before if said.event == "session-start"), default=0)
    told = told or session_file.last_position(settings.home, event.client)
    return max(told, graph.last_position_of(agents))


def _search(home: Path, graph: Graph, prompt: str) -> list[tuple[str, float]]:
    # Of all events only a prompt searches.
    from tallystick.extensions.hooks.recall import search

    return search(home, graph, prompt)


def work_tree(settings: Settings, event: Event) -> WorkTree | None:
    if settings.repo:
        return WorkTree(event.cwd / Path(settings.repo).expanduser())
    found = find_repository(event.cwd)
    return WorkTree(found.root) if found is not None else None


def relative_paths(event: Event, tree: WorkTree | None) -> tuple[str, ...]:
    found = (tree.relative(path, event.cwd) for path in event.paths) if tree is not None else ()
    return tuple(path for path in found if path is not None)

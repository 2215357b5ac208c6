"""From what a client said to what it is answered: settings, memory and session put together."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tallystick import config
from tallystick.config import Settings
from tallystick.hook import recall, session_file
from tallystick.hook.cited_files import WorkTree
from tallystick.hook.clients import CLIENTS, KINDS, Client, Event, agents_of, hears, read_event, render
from tallystick.hook.digest import Asked, gather, put_together
from tallystick.hook.graph import Graph, opened
from tallystick.hook.session_file import Said, SessionFile
from tallystick.repository import find_repository
from tallystick.work_settings import DEFAULT_AGENT, WorkSettings, read_settings


def answer(arguments: Sequence[str], stdin: bytes) -> str:
    """What to print. Raises whatever went wrong."""
    event = _event(arguments, stdin)
    if event is None or not hears(event):
        return ""
    settings = config.load(working=event.cwd)
    if is_guarded(settings):
        return ""
    return render(event, say(settings, event))


def is_guarded(settings: Settings) -> bool:
    """Whether somebody decides who may read what: then it is not for us to open the files."""
    return bool(settings.issuers or settings.policy_url or settings.policy not in ("", "single-user"))


def _event(arguments: Sequence[str], stdin: bytes) -> Event | None:
    kind, client = next((each for each in KINDS if each == arguments[0]), None), _client(arguments)
    if kind is None or client is None:
        return None
    said: Any = json.loads(stdin) if stdin.strip() else {}
    return read_event(kind, client, said) if isinstance(said, dict) else None


def _client(arguments: Sequence[str]) -> Client | None:
    named = [each.removeprefix("--client=") for each in arguments if each.startswith("--client=")]
    if "--client" in arguments[:-1]:
        named.append(arguments[arguments.index("--client") + 1])
    name = named[-1] if named else "claude"
    return next((each for each in CLIENTS if each == name), None)


def say(settings: Settings, event: Event) -> str:
    """The text, noted as said."""
    home = settings.home
    work = read_settings(base=settings.base, working=event.cwd, environ=os.environ)
    session = SessionFile(home, event.client, event.session)
    if session.is_full():
        return ""
    if event.kind == "session-start":
        session_file.sweep(home)
    before = session.read()
    with opened(home, work.db_path or home / "graph.db") as graph:
        asked = make_asked(settings, work, event, graph, before)
        text, items = put_together(event.kind, gather(asked))
    if text or event.kind == "session-start":
        # What cannot be noted would be said again and again.
        session.add(event.kind, graph.position, items)
    return text


def make_asked(settings: Settings, work: WorkSettings, event: Event, graph: Graph, before: Sequence[Said]) -> Asked:
    agents = agents_of(event.client, _named(settings, work))
    return Asked(
        event=event,
        graph=graph,
        agents=agents,
        search=partial(recall.search, settings.home),
        work_tree=_work_tree(settings, event),
        said=frozenset(item.id for said in before if said.event in _ONCE for item in said.items),
        since=_since(settings, event, graph, agents, before),
        begun=before[0].position if before else graph.position,
        claim_ttl_seconds=work.claim_ttl_milliseconds / 1000,
    )


_ONCE = frozenset({"prompt", "before-tool", "stop"})


def _since(settings: Settings, event: Event, graph: Graph, agents: Sequence[str], before: Sequence[Said]) -> int:
    if event.kind != "session-start":
        return 0
    told = max((said.position for said in before if said.event == "session-start"), default=0)
    told = told or session_file.last_position(settings.home, event.client)
    return max(told, graph.last_position_of(agents))


def _named(settings: Settings, work: WorkSettings) -> str | None:
    return next((each for each in (settings.agent_identity, work.agent_identity) if each != DEFAULT_AGENT), None)


def _work_tree(settings: Settings, event: Event) -> WorkTree | None:
    if settings.repo:
        return WorkTree(event.cwd / Path(settings.repo).expanduser())
    found = find_repository(event.cwd)
    return WorkTree(found.root) if found is not None else None

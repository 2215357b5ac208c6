"""What was said in a session, when and why. Only ids are kept, so what they say is read anew."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tallystick import config
from tallystick.errors import TallystickError
from tallystick.extensions.hooks import session_file
from tallystick.extensions.hooks.clients import CLIENTS
from tallystick.extensions.hooks.digest import headline
from tallystick.extensions.hooks.graph import opened
from tallystick.extensions.hooks.log_tail import Away
from tallystick.extensions.hooks.quoting import plain
from tallystick.extensions.hooks.session_file import Said, SessionFile
from tallystick.work_settings import read_settings


def explain(arguments: Sequence[str]) -> str:
    """For people: what is wrong is said on standard error."""
    named = [each for each in arguments if not each.startswith("-")]
    try:
        settings = config.load()
        work = read_settings(base=settings.base, working=Path.cwd(), environ=os.environ)
    except TallystickError as error:
        print(error.message, file=sys.stderr)
        return ""
    path = _session(settings.home, named[0] if named else None)
    if path is None:
        print(f"nothing was said in such a session of the memory in {settings.home}", file=sys.stderr)
        return ""
    said = session_file.read(path)
    texts = _texts(settings.home, work.db_path or settings.home / "graph.db", said)
    if "--json" in arguments:
        return json.dumps({"session": path.stem, "said": _as_json(said, texts)}, indent=2) + "\n"
    return "\n".join([f"session {path.stem}", *_lines(said, texts)]) + "\n"


def _session(home: Path, named: str | None) -> Path | None:
    """By the id that the client gives it, or how its name here begins; the newest where none is named."""
    kept = session_file.sessions(home)
    if named is None:
        return next(iter(kept), None)
    hashed = {SessionFile(home, client, named).path for client in CLIENTS}
    return next((path for path in kept if path in hashed or path.name.startswith(named)), None)


def _texts(home: Path, database: Path, said: Sequence[Said]) -> dict[str, str]:
    """Of what may still be shown."""
    try:
        with opened(home, database) as graph:
            notes = {item.id: graph.note(item.id) for each in said for item in each.items}
    except (Away, sqlite3.Error):
        return {}
    return {node_id: headline(note, 80) for node_id, note in notes.items() if note is not None}


def _as_json(said: Sequence[Said], texts: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "at": each.at,
            "event": each.event,
            "position": each.position,
            "items": [
                {"id": item.id, "why": item.why}
                | ({} if item.score is None else {"score": item.score})
                | ({"text": texts[item.id]} if item.id in texts else {})
                for item in each.items
            ],
        }
        for each in said
    ]


def _lines(said: Sequence[Said], texts: Mapping[str, str]) -> Iterator[str]:
    for each in said:
        yield f"{each.at}  {each.event} at position {each.position}" + ("" if each.items else ": nothing")
        for item in each.items:
            score = "" if item.score is None else f", score {item.score:g}"
            text = texts.get(item.id, f"{plain(item.id, 60)} (no longer to be shown)")
            yield f"    {text}  ({plain(item.why, 160)}{score})"

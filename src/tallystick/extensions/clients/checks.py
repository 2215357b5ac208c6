"""What the doctor says of the clients: are they connected, to this memory, by commands that can be started, and is
what `tallystick init` put into their files still there?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallystick.config import Settings, data_directory, default_base
from tallystick.errors import InvalidArgument
from tallystick.extensions.clients import client_files, entries, json_splice, toml_splice
from tallystick.extensions.clients.entries import HOOK, Format
from tallystick.extensions.clients.init import Machine, hook_file, server_files, this_machine, trace
from tallystick.extensions.clients.splice import Unreadable
from tallystick.extensions.clients.table import CLIENTS, SERVER, Client
from tallystick.operations.doctor import Finding
from tallystick.system.repository import find_repository

_INSTALL = "install it where clients find it: 'pipx install tallystick' or 'uv tool install tallystick'"
_PUT_BACK = "'tallystick init' puts it there, 'tallystick init --remove' takes off the rest"


def check_clients(settings: Settings) -> list[Finding]:
    try:
        return examine_clients(settings.base)
    except InvalidArgument as error:
        return [Finding("clients", f"not looked for: {error.message}", "odd", error.hint)]


def examine_clients(base: Path, machine: Machine | None = None) -> list[Finding]:
    """Never raises for what is in a file: that is what it tells of."""
    machine = machine or this_machine()
    repository = find_repository(machine.working)
    root = repository.root if repository is not None else machine.working
    found = [
        each for client in CLIENTS for place in (root, None) for each in _client(client, machine, place, root, base)
    ]
    memories = [data_directory(), *([repository.memory] if repository is not None else [])]
    found += [each for memory in memories for each in _recorded(memory / "_system", root)]
    if found:
        return found
    advice = "in a repository, 'tallystick init' connects those that are found"
    return [Finding("clients", "none is connected here", "good", advice)]


def _client(client: Client, machine: Machine, place: Path | None, root: Path, base: Path) -> Iterator[Finding]:
    """In its files for a project (`place`), or in those of the user. Some read another's: they must be used at all."""
    if trace(client, machine, root) is None:
        return
    for file in server_files(client, machine, place):
        try:
            entry = _server(file, client)
        except Unreadable as problem:
            advice = "put it right; until then neither the client nor 'tallystick init' can use it"
            yield Finding(client.title, f"{file}: {problem.message}", "odd", advice)
            continue
        if entry is not None:
            yield from _connected(client, machine, file, entry, root, base)
            yield from _hooks(client, machine, place)


def _text(file: Path) -> str:
    return client_files.decode(client_files.read_file(file) or b"")


def _server(file: Path, client: Client) -> Any:
    try:
        if client.outer == "mcp_servers":
            return toml_splice.value_at(_text(file), (client.outer, SERVER))
        return json_splice.value_at(_text(file), (client.outer, SERVER), comments=client.form.comments)
    except KeyError:
        return None


def _connected(client: Client, machine: Machine, file: Path, entry: Any, root: Path, base: Path) -> Iterator[Finding]:
    url = next((each for key in ("url", "serverUrl") if isinstance(each := _of(entry, key), str)), None)
    if url is not None:
        yield Finding(client.title, f"connected over HTTP to {url}, in {file}")
        return
    words = _words(entry)
    if not words:
        yield Finding(client.title, f"the entry in {file} starts nothing", "odd", _PUT_BACK)
        return
    if machine.finds(os.path.expanduser(words[0])) is None:
        yield Finding(client.title, f"connected in {file}, but '{words[0]}' is not found", "odd", _INSTALL)
        return
    served = _memory(entry, words, root)
    if os.path.realpath(served) != os.path.realpath(base):
        found = f"connected in {file}, to the memory in {served}"
        yield Finding(client.title, found, "odd", f"this is the one in {base}: is that the one you meant?")
        return
    yield Finding(client.title, f"connected to this memory, in {file}")


def _of(entry: Any, key: str) -> Any:
    return entry.get(key) if isinstance(entry, dict) else None


def _words(entry: Any) -> list[str]:
    command, arguments = _of(entry, "command"), _of(entry, "args")
    words = command if isinstance(command, list) else [command]
    return [each for each in (*words, *(arguments if isinstance(arguments, list) else ())) if isinstance(each, str)]


def _memory(entry: Any, words: list[str], root: Path) -> Path:
    """The one that a server started by this entry, in the project, would serve."""
    for place, word in enumerate(words):
        if word == "--base" and place + 1 < len(words):
            return root / Path(words[place + 1]).expanduser()
        if word.startswith("--base="):
            return root / Path(word.removeprefix("--base=")).expanduser()
    environ = next((each for key in ("env", "environment") if isinstance(each := _of(entry, key), dict)), {})
    said = environ.get("BASE_PATH")
    return root / Path(said).expanduser() if isinstance(said, str) and said else default_base(root)


def _hooks(client: Client, machine: Machine, place: Path | None) -> Iterator[Finding]:
    file = hook_file(client, machine, place)
    if file is None or client.hooks is None:
        return
    wanted = [each for each in client.hook_entries() if not each.any_value]
    try:
        text = _text(file)
        there = [entries.standing(text, each, client.hooks.form) for each in wanted]
    except Unreadable as problem:
        yield Finding(f"{client.title}, hooks", f"{file}: {problem.message}", "odd", "put it right")
        return
    if all(each == "missing" for each in there):
        return
    what = f"{client.title}, hooks"
    if "missing" in there:
        found = f"{there.count('missing')} of {len(there)} are missing in {file}"
        yield Finding(what, found, "odd", "'tallystick init' puts them there")
    elif machine.finds(HOOK) is None:
        yield Finding(what, f"in {file}, but '{HOOK}' is not found", "odd", _INSTALL)
    else:
        yield Finding(what, f"in place in {file}")


def _recorded(system: Path, root: Path) -> Iterator[Finding]:
    """What was put into a file here, and is no longer as it was put there."""
    home = Path.home()
    for name, known in client_files.read_record(system).files.items():
        file, form = Path(name), Format(known.comments)
        if not file.is_relative_to(os.path.realpath(root)) and not file.is_relative_to(os.path.realpath(home)):
            continue
        try:
            text = _text(file)
            there = {entries.standing(text, splice.entry, form) for splice in known.splices}
        except Unreadable:
            # Told of already, or by the client itself.
            continue
        if "missing" in there:
            yield Finding("init", f"what it put into {file} is not all there any more", "odd", _PUT_BACK)
        elif "different" in there:
            advice = "'tallystick init --remove' would show the difference and ask"
            yield Finding("init", f"somebody has changed what it put into {file}", "odd", advice)

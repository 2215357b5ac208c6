"""The keys that checkpoints are signed with: read from a file, the environment or a command, never from the base.

Whoever can change the log must not find the key beside it: then a checkpoint would prove nothing. A key file has a key
a line; all of them sign, so that a new key is known to readers before the old one goes. They have one name, the origin
of the log; other tenants than the default one have theirs below it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tallystick.commits.signed_note import (
    LOG_KEY,
    QUANTUM_KEY,
    WITNESS_KEY,
    NoteRefused,
    SignerKey,
    signer_key,
)
from tallystick.config import CHECKPOINT_KEY_VARIABLE, DEFAULT_TENANT, Settings
from tallystick.errors import Conflict, InvalidArgument
from tallystick.log.checkpoint import read_kept
from tallystick.operations.tenants import tenants_of
from tallystick.system.private_files import check_outside, check_private, make_directory, replacing

COMMAND_SECONDS = 30.0
_BYTES_MAX = 64 << 10


def load_keys(settings: Settings, *, environ: Mapping[str, str] | None = None) -> tuple[SignerKey, ...]:
    """Of the tenant that the settings name; none where none are configured. Raises InvalidArgument."""
    environ = os.environ if environ is None else environ
    sources = {
        CHECKPOINT_KEY_VARIABLE: environ.get(CHECKPOINT_KEY_VARIABLE, ""),
        "checkpoint_key": settings.checkpoint_key,
        "checkpoint_key_command": settings.checkpoint_key_command,
    }
    given = [name for name, value in sources.items() if value]
    if not given:
        return ()
    if len(given) > 1:
        raise _refused(f"{' and '.join(given)} each name keys for checkpoints", "leave one of them")
    (name,) = given
    if name == "checkpoint_key":
        path = key_path(settings)
        found = read_key_file(path, base=settings.base)
    else:
        text = sources[name] if name == CHECKPOINT_KEY_VARIABLE else _printed(sources[name])
        found = parse_keys(text, name)
    return keys_of_tenant(_one_log(found, name), settings.tenant)


def key_path(settings: Settings) -> Path:
    return Path(settings.checkpoint_key).expanduser().absolute()


def keys_of_tenant(keys: Sequence[SignerKey], tenant: str) -> tuple[SignerKey, ...]:
    """Each log has an origin of its own, and what is signed says it: no signature of one holds for another."""
    if tenant == DEFAULT_TENANT:
        return tuple(keys)
    return tuple(msgspec.structs.replace(key, name=f"{key.name}/{tenant}") for key in keys)


def read_key_file(path: Path, *, base: Path) -> list[SignerKey]:
    """Raises InvalidArgument for one that others may read, that lies in the base, or that holds no keys."""
    check_key_outside(path, base)
    try:
        with path.open("rb") as file:
            seen = os.fstat(file.fileno())
            check_private(path, seen, "CHECKPOINT_KEY_INVALID")
            if seen.st_uid not in (os.geteuid(), 0):
                raise _refused(f"{path} belongs to somebody else", "keys are read from a file of our own only")
            data = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise _refused(
            f"the key file {path} cannot be read: {error.strerror}", "'tallystick keys new' makes one"
        ) from None
    if len(data) > _BYTES_MAX:
        raise _refused(f"{path} is no key file: it is too large", "'tallystick keys new' makes one")
    return parse_keys(data.decode("utf-8", "replace"), str(path))


def write_key_file(path: Path, keys: Sequence[SignerKey], *, base: Path) -> None:
    """For its owner alone; a crash leaves the keys that were there, or all of these."""
    check_key_outside(path, base)
    try:
        make_directory(path.parent)
        with replacing(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write("".join(f"{key.written()}\n" for key in keys).encode())
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from None


def check_key_outside(path: Path, base: Path) -> None:
    check_outside(path, base, "whoever could change the log could sign it, too", code="CHECKPOINT_KEY_INVALID")


def parse_keys(text: str, source: str) -> list[SignerKey]:
    """A key a line; empty lines and those that begin with # are passed over. Raises InvalidArgument."""
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    if not lines:
        raise _refused(f"there is no key in {source}", "'tallystick keys new' makes one")
    try:
        return [signer_key(line) for line in lines]
    except NoteRefused as error:
        raise _refused(f"{source}: {error.message}", "a key a line, as 'tallystick keys new' writes it") from None


def _one_log(keys: list[SignerKey], source: str) -> list[SignerKey]:
    if any(key.algorithm == WITNESS_KEY for key in keys):
        raise _refused(f"{source} holds a key of a witness, which signs no log", "'tallystick keys new' makes one")
    if all(key.algorithm != LOG_KEY for key in keys):
        raise _refused(f"{source} holds no Ed25519 key, which most readers need", "'tallystick keys new' makes one")
    names = sorted({key.name for key in keys})
    if len(names) > 1:
        raise _refused(f"{source} has keys of several names: {', '.join(names)}", "the name is the log's; it has one")
    return keys


def _printed(command: str) -> str:
    """What it prints is never told, whatever goes wrong."""
    try:
        ran = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise _refused(f"checkpoint_key_command took more than {COMMAND_SECONDS:g} s", "run it by hand") from None
    except (OSError, ValueError) as error:
        raise _refused(f"checkpoint_key_command could not be run: {error}", "run it by hand") from None
    if ran.returncode:
        raise _refused(f"checkpoint_key_command left with {ran.returncode}", "run it by hand to see why")
    return ran.stdout.decode("utf-8", "replace")


def _refused(problem: str, hint: str) -> InvalidArgument:
    return InvalidArgument(problem, code="CHECKPOINT_KEY_INVALID", hint=hint)


# -- commands


_KINDS = {LOG_KEY: "log", WITNESS_KEY: "witness", QUANTUM_KEY: "log, ML-DSA-44"}


class Key(msgspec.Struct, frozen=True):
    """What may be told of one."""

    name: str
    id: str
    kind: str
    verifier: str


class KeyFile(msgspec.Struct, frozen=True):
    file: str | None
    """None: they come from the environment or a command."""
    keys: list[Key]


def new_key(settings: Settings, name: str, file: Path | None, *, witness: bool = False) -> KeyFile:
    """A file with one key, which was not there before."""
    path = _named(settings, file)
    check_key_outside(path, settings.base)
    key = SignerKey.generate(name, WITNESS_KEY if witness else LOG_KEY)
    if path.exists():
        raise Conflict(
            f"{path} is there already: a key that is overwritten is lost for good",
            code="KEY_EXISTS",
            hint="'tallystick keys rotate' adds a key to it; or name another file",
        )
    write_key_file(path, [key], base=settings.base)
    return _told([key], path)


def list_keys(settings: Settings, file: Path | None) -> KeyFile:
    """Of the tenant that the settings name."""
    if file is None and not settings.checkpoint_key:
        return _told(load_keys(settings), None)
    path = _named(settings, file)
    return _told(keys_of_tenant(read_key_file(path, base=settings.base), settings.tenant), path)


def add_quantum_key(settings: Settings, file: Path | None) -> KeyFile:
    """An ML-DSA-44 key beside the others: checkpoints get a second signature line."""
    path = _named(settings, file)
    keys = read_key_file(path, base=settings.base)
    if any(key.algorithm == QUANTUM_KEY for key in keys):
        raise Conflict(f"{path} has an ML-DSA-44 key already", code="KEY_EXISTS", hint="'tallystick keys rotate'")
    keys.append(SignerKey.generate(keys[-1].name, QUANTUM_KEY))
    write_key_file(path, keys, base=settings.base)
    return _told(keys, path)


def rotate_keys(settings: Settings, file: Path | None, *, finish: bool = False) -> KeyFile:
    """A new key of each kind beside those that are there: all of them sign. With `finish` only the newest stay."""
    path = _named(settings, file)
    keys = read_key_file(path, base=settings.base)
    newest = {key.algorithm: key for key in keys}
    if not finish:
        keys += [SignerKey.generate(key.name, key.algorithm) for key in newest.values()]
    elif len(keys) == len(newest):
        raise Conflict(
            f"{path} has one key only: nothing was begun that could be finished",
            code="KEY_ALONE",
            hint="'tallystick keys rotate' adds the new key first",
        )
    else:
        keys = list(newest.values())
        _require_used(settings, keys)
    write_key_file(path, keys, base=settings.base)
    return _told(keys, path)


def _require_used(settings: Settings, newest: list[SignerKey]) -> None:
    """What is signed next is held against what was signed last, which one of the keys must have signed."""
    for tenant in tenants_of(settings):
        keys = [key.verifier for key in keys_of_tenant(newest, tenant)]
        kept = read_kept(msgspec.structs.replace(settings, tenant=tenant).home)
        if kept is not None and kept.checkpoint.origin == keys[0].name and len(kept.note.signers(keys)) < len(keys):
            named = "" if tenant == DEFAULT_TENANT else f" --tenant {tenant}"
            raise Conflict(
                f"the new key has not signed yet what the old one signed last as '{keys[0].name}'",
                code="KEY_UNUSED",
                hint=f"'tallystick checkpoint{named}' signs with both; then finish",
            )


def _named(settings: Settings, file: Path | None) -> Path:
    if file is None and not settings.checkpoint_key:
        raise InvalidArgument(
            "no key file is named", hint="name it with --file, or in the setting checkpoint_key", code="NO_KEY_FILE"
        )
    return key_path(settings) if file is None else file.expanduser().absolute()


def _told(keys: list[SignerKey] | tuple[SignerKey, ...], path: Path | None) -> KeyFile:
    told = [Key(key.name, key.verifier.id.hex(), _KINDS[key.algorithm], str(key.verifier)) for key in keys]
    return KeyFile(None if path is None else str(path), told)

"""The keys of checkpoints: make the first, list them, take up a new one beside the old, let the old one go."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tallystick.commits.signed_note import LOG_KEY, QUANTUM_KEY, WITNESS_KEY, SignerKey
from tallystick.config import DEFAULT_TENANT, Settings
from tallystick.errors import Conflict, InvalidArgument
from tallystick.extensions.proofs.checkpoint_keys import (
    check_key_outside,
    key_path,
    keys_of_tenant,
    load_keys,
    read_key_file,
    write_key_file,
)
from tallystick.log.checkpoint import read_kept
from tallystick.operations.tenants import tenants_of

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

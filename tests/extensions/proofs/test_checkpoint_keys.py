"""Keys of checkpoints: where they may come from, and what is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits.signed_note import WITNESS_KEY, NoteRefused, SignerKey, signer_key
from tallystick.config import CHECKPOINT_KEY_VARIABLE, Settings, load
from tallystick.errors import InvalidArgument
from tallystick.extensions.proofs.keys import load_keys, parse_keys, read_key_file, write_key_file
from tallystick.log.checkpoint import read_verifier_keys
from tests.promises import promise

NAME = "memory.example/team"
# As Go's sumdb/note documents its own keys: name, id and seed of its example.
GO_PRIVATE = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
GO_VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"


@pytest.fixture(scope="module")
def key() -> SignerKey:
    return SignerKey.generate(NAME)


def settings(tmp_path: Path, **flags: Any) -> Settings:
    return load({"base": tmp_path / "base", **flags}, environ={})


def key_file(tmp_path: Path, *keys: SignerKey) -> Path:
    path = tmp_path / "checkpoint.key"
    write_key_file(path, keys, base=tmp_path / "base")
    return path


def test_a_key_is_written_as_go_writes_it() -> None:
    key = signer_key(GO_PRIVATE)
    assert str(key.verifier) == GO_VERIFIER
    assert key.written() == GO_PRIVATE


def test_a_key_tells_its_secret_in_no_message(key: SignerKey) -> None:
    secret = key.written().split("+", 4)[4]
    assert secret not in f"{key!r} {key} {[key]}"
    for harm in (key.written()[:-4], key.written().replace(key.verifier.id.hex(), "00000000"), f"x{key.written()}"):
        with pytest.raises(NoteRefused) as refused:
            signer_key(harm)
        assert secret[:20] not in str(refused.value)


@promise("checkpoint, keys", "a file, the environment and a command give the same keys")
def test_a_file_the_environment_and_a_command_give_the_same_keys(tmp_path: Path, key: SignerKey) -> None:
    path = key_file(tmp_path, key)
    command = f"{sys.executable} -c \"print(open('{path}').read())\""
    assert load_keys(settings(tmp_path), environ={}) == ()
    assert load_keys(settings(tmp_path, checkpoint_key=str(path)), environ={}) == (key,)
    assert load_keys(settings(tmp_path, checkpoint_key_command=command), environ={}) == (key,)
    assert load_keys(settings(tmp_path), environ={CHECKPOINT_KEY_VARIABLE: key.written()}) == (key,)


def test_other_tenants_have_origins_of_their_own(tmp_path: Path, key: SignerKey) -> None:
    (found,) = load_keys(settings(tmp_path, tenant="acme"), environ={CHECKPOINT_KEY_VARIABLE: key.written()})
    assert found.name == f"{NAME}/acme"
    assert found.verifier.id != key.verifier.id
    assert not found.verifier.holds("text\n", b"\x00" * 64)


def test_two_sources_are_one_too_many(tmp_path: Path, key: SignerKey) -> None:
    path = key_file(tmp_path, key)
    with pytest.raises(InvalidArgument, match="each name keys"):
        load_keys(settings(tmp_path, checkpoint_key=str(path)), environ={CHECKPOINT_KEY_VARIABLE: key.written()})


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o777])
def test_a_key_file_that_others_may_touch_is_refused(tmp_path: Path, key: SignerKey, mode: int) -> None:
    path = key_file(tmp_path, key)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(mode)
    with pytest.raises(InvalidArgument, match="by others") as refused:
        read_key_file(path, base=tmp_path / "base")
    assert refused.value.hint == f"chmod 600 {path}"


@promise("checkpoint, key outside", "a key in the base is refused, also behind a link")
def test_a_key_in_the_base_is_refused_also_behind_a_link(tmp_path: Path, key: SignerKey) -> None:
    base = tmp_path / "base"
    base.mkdir()
    inside, outside = base / "checkpoint.key", key_file(tmp_path, key)
    with pytest.raises(InvalidArgument, match="lies in the base"):
        write_key_file(inside, [key], base=base)
    os.rename(outside, inside)
    outside.symlink_to(inside)
    for path in (inside, outside):
        with pytest.raises(InvalidArgument, match="lies in the base"):
            read_key_file(path, base=base)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no key"),
        ("# only a remark\n\n", "there is no key"),
        ("not a key", "PRIVATE"),
        (GO_VERIFIER, "PRIVATE"),
        ("PRIVATE+KEY+a+b+!!!", "not base64"),
        ("PRIVATE+KEY+a b+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr", "no spaces"),
        ("PRIVATE+KEY+a+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr", "not an Ed25519 key"),
        (GO_PRIVATE.replace("c74f20a3", "c74f20a4"), "does not have the id"),
    ],
)
def test_what_is_no_key_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        parse_keys(text, "there")


def test_keys_of_several_names_and_keys_of_witnesses_sign_no_log(tmp_path: Path, key: SignerKey) -> None:
    for other, problem in (
        (SignerKey.generate("other.example"), "several names"),
        (SignerKey.generate(NAME, WITNESS_KEY), "key of a witness"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            load_keys(settings(tmp_path), environ={CHECKPOINT_KEY_VARIABLE: f"{key.written()}\n{other.written()}"})


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("/no/such/program", "could not be run"),
        (f"{sys.executable} -c \"import sys; print('{GO_PRIVATE}'); sys.exit(3)\"", "left with 3"),
        ("'unclosed", "could not be run"),
        (f"{sys.executable} -c pass", "there is no key"),
    ],
)
def test_a_command_that_fails_is_said_to_and_not_quoted(tmp_path: Path, command: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem) as refused:
        load_keys(settings(tmp_path, checkpoint_key_command=command), environ={})
    assert "AYEKFALV" not in f"{refused.value.message} {refused.value.hint}"


def test_verifier_keys_are_read_a_line_each(tmp_path: Path, key: SignerKey) -> None:
    path = tmp_path / "vkeys"
    path.write_text(f"# ours\n{key.verifier}\n\n{GO_VERIFIER}\n")
    assert list(map(str, read_verifier_keys(path))) == [str(key.verifier), GO_VERIFIER]
    path.write_text("\n")
    with pytest.raises(InvalidArgument, match="no verifier key"):
        read_verifier_keys(path)
    with pytest.raises(InvalidArgument, match="cannot read"):
        read_verifier_keys(tmp_path / "nothing")

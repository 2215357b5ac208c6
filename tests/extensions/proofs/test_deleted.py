"""With the folder of proofs deleted, the core still compares a log with the checkpoint that was signed last."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.extensions.test_extensions import SOURCE, tallystick
from tests.mcp_client import call, connect

HERE = SOURCE.parent
NODE = '{{"op": "UPSERT_NODE", "node": {{"id": "{}", "type": "Note", "attrs": {{}}}}}}\n'


@pytest.fixture
def without(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    shutil.copytree(SOURCE, path / "tallystick", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(path / "tallystick" / "extensions" / "proofs")
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A memory of three commits that was signed, by a key that its settings no longer name."""
    base, lines, key = tmp_path / "base", tmp_path / "lines.jsonl", tmp_path / "key"
    lines.write_text("".join(NODE.format(name) for name in ("a", "b", "c")))
    for words in (
        ("import", lines, "--base", base),
        ("keys", "new", "memory.example/shop", "--file", key, "--base", base),
        ("verify", "--base", base),
    ):
        ran = tallystick(*words, path=HERE)
        assert ran.returncode == 0, ran.stderr
    (base / "tallystick.toml").write_text(f'checkpoint_key = "{key}"\n')
    ran = tallystick("checkpoint", "--base", base, path=HERE)
    assert ran.returncode == 0, ran.stderr
    vkey = tallystick("keys", "verifier", "--base", base, path=HERE)
    (tmp_path / "vkey").write_text(vkey.stdout)
    (base / "tallystick.toml").unlink()
    return base


def rewritten(base: Path, tmp_path: Path) -> None:
    """Put another history in the place of the log, with the checkpoint of the first."""
    lines, other = tmp_path / "others.jsonl", tmp_path / "other"
    lines.write_text("".join(NODE.format(name) for name in ("x", "y", "z")))
    assert tallystick("import", lines, "--base", other, path=HERE).returncode == 0
    shutil.move(base / "_system" / "tiles", tmp_path / "tiles")
    shutil.rmtree(base)
    shutil.copytree(other, base)
    shutil.copytree(tmp_path / "tiles", base / "_system" / "tiles", dirs_exist_ok=True)


async def test_a_log_that_continues_its_checkpoint_is_served(without: Path, base: Path) -> None:
    async with connect(base, environ={**os.environ, "PYTHONPATH": str(without)}) as client:
        found = await call(client, "memory.search", type="Note")
        assert sorted(each["id"] for each in found["entities"]) == ["a", "b", "c"]
    verified = tallystick("verify", "--base", base, path=without)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "checkpoint: continued, 3 commits of 'memory.example/shop'" in verified.stdout


def test_a_log_that_does_not_is_refused(without: Path, base: Path, tmp_path: Path) -> None:
    rewritten(base, tmp_path)
    verified = tallystick("verify", "--base", base, path=without)
    assert verified.returncode == 1
    assert "it was rewritten, or is another log" in verified.stderr
    served = tallystick("serve", "--base", base, path=without)
    assert served.returncode != 0
    assert "it was rewritten, or is another log" in served.stderr


def test_a_kept_checkpoint_is_compared_by_the_core(without: Path, base: Path, tmp_path: Path) -> None:
    kept = base / "_system" / "tiles" / "checkpoint"
    words = ("verify", "--base", base, "--checkpoint", kept, "--vkey", tmp_path / "vkey")
    assert tallystick(*words, path=without).returncode == 0


def test_a_proof_cannot_be_checked(without: Path, base: Path, tmp_path: Path) -> None:
    ran = tallystick("verify", "--proof", tmp_path / "vkey", "--vkey", tmp_path / "vkey", path=without)
    assert ran.returncode != 0
    assert "no extension that is installed carries out 'verify --proof'" in ran.stderr


def test_a_log_that_should_be_signed_is_not_served(without: Path, base: Path) -> None:
    (base / "tallystick.toml").write_text('checkpoint_key = "somewhere"\n')
    ran = tallystick("serve", "--base", base, path=without)
    assert ran.returncode != 0
    assert "no extension that is installed proves commits" in ran.stderr

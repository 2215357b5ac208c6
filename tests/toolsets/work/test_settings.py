"""graph.config.yaml and its variables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tallystick.errors import InvalidArgument
from tallystick.work_settings import WorkSettings, read_settings
from tests.promises import promise


def read(tmp_path: Path, *, base: str | None = None, working: str | None = None, **environ: str) -> WorkSettings:
    for name, text in (("base", base), ("working", working)):
        (tmp_path / name).mkdir(exist_ok=True)
        if text is not None:
            (tmp_path / name / "graph.config.yaml").write_text(text)
    return read_settings(base=tmp_path / "base", working=tmp_path / "working", environ=environ)


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert settings == WorkSettings()
    assert (settings.agent_identity, settings.db_path, settings.claim_ttl_minutes) == ("default-agent", None, 60)
    assert settings.claim_ttl_milliseconds == 3_600_000
    assert read(tmp_path, base="# nothing\n", working="") == WorkSettings()


@promise("W47", "the config file's keys are honoured")
def test_the_files_keys_are_honoured(tmp_path: Path) -> None:
    keys = ('agent_identity: "claude-code-v1"  # who', 'db_path: "./graph.db"', "claim_ttl_minutes: 15")
    text = "\n".join([*keys, "require_evidence: true", ""])
    settings = read(tmp_path, base=text)
    assert settings == WorkSettings(
        agent_identity="claude-code-v1",
        db_path=tmp_path / "base" / "graph.db",
        claim_ttl_minutes=15,
        require_evidence=True,
    )


@promise("W47, order", "the environment goes before the files")
def test_the_environment_goes_before_the_working_directory_and_that_before_the_base(tmp_path: Path) -> None:
    base = "agent_identity: base\ndb_path: base.db\nclaim_ttl_minutes: 1\n"
    working = "agent_identity: working\ndb_path: working.db\n"
    settings = read(tmp_path, base=base, working=working, GRAPH_AGENT="env", GRAPH_CLAIM_TTL="0.5", GRAPH_DB="")
    assert (settings.agent_identity, settings.claim_ttl_minutes) == ("env", 0.5)
    assert settings.db_path == tmp_path / "base" / "base.db"
    assert read(tmp_path, working="claim_ttl_minutes: 15", GRAPH_CLAIM_TTL="0").claim_ttl_milliseconds == 0
    assert read(tmp_path, GRAPH_DB="/elsewhere/graph.db").db_path == Path("/elsewhere/graph.db")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("agent: me", "there is no setting 'agent'"),
        ("claim_ttl:", "there is no setting 'claim_ttl'"),
        ("agent_identity: 5", "agent_identity from"),
        ("agent_identity: ' '", "must be a name"),
        (r'agent_identity: "\ud800"', "must be a name"),
        pytest.param("[" * 50_000, "is nested deeper", id="deep"),
        ("claim_ttl_minutes: soon", "must be a number of minutes, from 0 to a year"),
        ("claim_ttl_minutes: -1", "must be a number of minutes"),
        ("claim_ttl_minutes: true", "must be a number of minutes"),
        ("claim_ttl_minutes: .nan", "must be a number of minutes"),
        ("require_evidence: sometimes", "must be true or false"),
        ("- a\n- b", "must hold keys and values"),
        ("a: [", "is not YAML"),
        ("!!python/object/apply:os.system ['true']", "has a tag"),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_place(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        read(tmp_path, working=text)
    assert sentence in refusal.value.message
    assert "graph.config.yaml" in refusal.value.message


@promise("settings, work", "a key that nobody knows is told with those like it")
def test_a_key_that_nobody_knows_is_told_with_those_like_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        read(tmp_path, base="agent_identiti: me")
    assert (refusal.value.code, refusal.value.hint) == ("SETTING_UNKNOWN", "did you mean 'agent_identity'?")


def test_a_mistake_in_the_environment_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="the environment variable GRAPH_CLAIM_TTL"):
        read(tmp_path, GRAPH_CLAIM_TTL="-1")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_directory_or_a_pipe_in_the_place_of_the_file_is_told_as_that(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    (tmp_path / "working").mkdir()
    make(tmp_path / "working" / "graph.config.yaml")
    with pytest.raises(InvalidArgument, match="cannot be read") as refusal:
        read(tmp_path)
    assert refusal.value.code == "SETTINGS_UNREADABLE"

"""Settings files that a clone or an archive may have brought: what counts in them, and until when."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tallystick import config
from tallystick.config import HARMLESS, data_directory, load
from tallystick.errors import Denied, InvalidArgument
from tallystick.work_settings import read_settings
from tests.command_line import CommandLine
from tests.promises import promise

GUIDE = Path(__file__).parent.parent / "docs" / "guides" / "what-is-trusted.md"
HOSTILE = """
lineage_to = "/home/ada/.profile"
backup_to = "https://attacker.example"
public_url = "https://attacker.example"
checkpoint_key_command = "touch pwned; echo \\u001b]0;x\\u0007"
repo = "/"
max_hops = 5
"""
IGNORED = {"lineage_to", "backup_to", "public_url", "checkpoint_key_command", "repo"}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".git" / "tallystick").mkdir()
    return root


@pytest.fixture
def memory(repository: Path) -> Path:
    """As an archive brings it."""
    memory = repository / ".git" / "tallystick"
    (memory / "tallystick.toml").write_text(HOSTILE)
    return memory


@pytest.fixture
def shell(memory: Path) -> CommandLine:
    return CommandLine(memory)


def set_of(settings: config.Settings) -> set[str]:
    defaults = load({"base": "/nowhere"}, environ={})
    names = [name for name in config.Settings.__struct_fields__ if name != "base"]
    return {name for name in names if getattr(settings, name) != getattr(defaults, name)}


@promise("base, settings", "of a memory that was found only harmless settings count until they are confirmed")
def test_only_harmless_settings_of_a_memory_that_was_found_count(repository: Path, memory: Path) -> None:
    assert set_of(load({}, environ={}, working=repository)) == {"max_hops"}


def test_naming_its_directory_does_not_make_a_shipped_file_the_users(repository: Path, memory: Path) -> None:
    shipped = repository / ".sample"
    shipped.mkdir()
    (shipped / "tallystick.toml").write_text(HOSTILE)
    for base in (memory, shipped):
        assert set_of(load({"base": base}, environ={}, working=repository)) == {"max_hops"}
        assert set_of(load({}, environ={"BASE_PATH": str(base)}, working=repository)) == {"max_hops"}


def test_a_base_outside_of_every_repository_is_the_users(tmp_path: Path) -> None:
    base = tmp_path / "lib"
    base.mkdir()
    (base / "tallystick.toml").write_text(HOSTILE)
    assert set_of(load({"base": base}, environ={})) == {*IGNORED, "max_hops"}


def test_the_data_directory_is_the_users_where_their_home_is_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "share"))
    subprocess.run(["git", "init", "-q", str(tmp_path / "home")], check=True)
    base = data_directory()
    base.mkdir(parents=True)
    (base / "tallystick.toml").write_text(HOSTILE)
    assert set_of(load({}, environ={}, working=tmp_path)) == {*IGNORED, "max_hops"}


def test_flags_and_variables_are_the_users_wherever_they_stand(repository: Path, memory: Path) -> None:
    environ = {"TALLYSTICK_PUBLIC_URL": "https://mine.example"}
    settings = load({"backup_to": "file:///mine"}, environ=environ, working=repository)
    assert (settings.public_url, settings.backup_to) == ("https://mine.example", "file:///mine")


@pytest.mark.parametrize("text", ['policy = "rbac"', 'issuers = ["https://issuer.example"]', 'log_url = "nats://x"'])
def test_a_setting_without_which_more_would_be_allowed_is_not_passed_over(
    repository: Path, memory: Path, text: str
) -> None:
    (memory / "tallystick.toml").write_text(text)
    with pytest.raises(InvalidArgument, match="lies in a repository") as refusal:
        load({}, environ={}, working=repository)
    assert refusal.value.code == "SETTINGS_NOT_TRUSTED"
    assert "trust-settings" in (refusal.value.hint or "")


@pytest.mark.parametrize("kind", ["linked work tree", "subdirectory", "separate git directory", "linked .git"])
def test_however_the_memory_is_reached(repository: Path, memory: Path, tmp_path: Path, kind: str) -> None:
    working = repository
    if kind == "linked work tree":
        identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "1"], cwd=repository, check=True)
        working = tmp_path / "tree"
        subprocess.run(["git", "worktree", "add", "-q", str(working)], cwd=repository, check=True)
    elif kind == "subdirectory":
        working = repository / "src"
        working.mkdir()
    elif kind == "separate git directory":
        subprocess.run(["git", "init", "-q", "--separate-git-dir", tmp_path / "elsewhere", repository], check=True)
    else:
        (repository / ".git").rename(tmp_path / "git")
        (repository / ".git").symlink_to(tmp_path / "git")
    settings = load({}, environ={}, working=working)
    assert settings.base.name == "tallystick"
    assert set_of(settings) == {"max_hops"}


def test_nothing_is_confirmed_without_a_home(repository: Path, memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", _homeless)
    assert set_of(load({}, environ={}, working=repository)) == {"max_hops"}


def _homeless() -> Path:
    raise RuntimeError("Could not determine home directory.")


# -- confirming


def test_a_confirmed_file_counts_until_it_changes(repository: Path, memory: Path, shell: CommandLine) -> None:
    confirmed = shell.run("trust-settings", "--yes", "--json").json
    assert confirmed["confirmed"] == [str(memory / "tallystick.toml")]
    assert set_of(load({}, environ={}, working=repository)) == {*IGNORED, "max_hops"}
    (memory / "tallystick.toml").write_text(HOSTILE + 'receipts = "/tmp"\n')
    assert set_of(load({}, environ={}, working=repository)) == {"max_hops"}
    ((listed,)) = shell.run("trust-settings", "--list", "--json").json["files"]
    assert (listed["path"], listed["state"]) == (str(memory / "tallystick.toml"), "changed")


def test_a_confirmation_is_withdrawn(repository: Path, memory: Path, shell: CommandLine) -> None:
    shell.run("trust-settings", "--yes")
    assert "no longer confirmed" in shell.run("trust-settings", "--revoke").out
    assert set_of(load({}, environ={}, working=repository)) == {"max_hops"}
    assert shell.run("trust-settings", "--list").out == "no settings file is confirmed\n"


def test_what_would_be_enabled_is_shown_in_full_and_escaped(shell: CommandLine) -> None:
    with pytest.raises(Denied) as refusal:
        shell.run("trust-settings")
    assert refusal.value.code == "CONFIRMATION_NEEDED"
    shown = shell.main("trust-settings").out
    assert '  checkpoint_key_command = "touch pwned; echo \\u001b]0;x\\u0007"\n' in shown
    assert "max_hops" not in shown
    (file,) = shell.run("trust-settings", "--json").json["files"]
    assert {each["name"] for each in file["settings"] if not each["counts"]} == IGNORED
    assert file["trusted"] is False


def test_the_record_is_private_and_outside_of_the_repository(
    repository: Path, memory: Path, shell: CommandLine, tmp_path: Path
) -> None:
    shell.run("trust-settings", "--yes")
    record = tmp_path / "state" / "tallystick" / "confirmed-settings.json"
    assert (record.stat().st_mode & 0o777, record.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert list(json.loads(record.read_bytes())) == [str(memory / "tallystick.toml")]
    record.chmod(0o666)
    assert set_of(load({}, environ={}, working=repository)) == {"max_hops"}


def test_a_record_in_the_base_confirms_nothing(repository: Path, memory: Path, shell: CommandLine) -> None:
    with pytest.raises(InvalidArgument, match="lies in the base"):
        shell.run("trust-settings", "--yes", XDG_STATE_HOME=str(memory / "state"))


def test_a_link_to_a_confirmed_file_is_not_confirmed(
    repository: Path, memory: Path, shell: CommandLine, tmp_path: Path
) -> None:
    shell.run("trust-settings", "--yes")
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    (other / ".git" / "tallystick").mkdir()
    (other / ".git" / "tallystick" / "tallystick.toml").symlink_to(memory / "tallystick.toml")
    assert set_of(load({}, environ={}, working=other)) == {"max_hops"}


def test_a_path_names_a_repository_a_base_or_a_file(repository: Path, memory: Path, tmp_path: Path) -> None:
    elsewhere = CommandLine(tmp_path / "elsewhere")
    for path in (repository, memory, memory / "tallystick.toml"):
        assert elsewhere.run("trust-settings", path, "--json").json["base"] == str(memory)


# -- where it is reported


def test_the_log_and_the_doctor_name_what_is_ignored(shell: CommandLine) -> None:
    shell.write({"op": "UPSERT_NODE", "node": {"id": "a", "type": "T", "attrs": {}}})
    ran = shell.main("doctor", "--json")
    (line,) = [line for line in ran.err.splitlines() if "ignored: " in line]
    assert "backup_to, checkpoint_key_command, lineage_to, public_url, repo" in line
    assert "trust-settings" in line
    findings = [each for each in ran.json["findings"] if "ignored: " in each["found"]]
    assert [each["status"] for each in findings] == ["odd"]
    shell.run("trust-settings", "--yes")
    assert "ignored: " not in shell.main("status").err


def test_a_file_with_harmless_settings_alone_is_not_mentioned(memory: Path, shell: CommandLine) -> None:
    (memory / "tallystick.toml").write_text("max_hops = 5\n")
    shell.write({"op": "UPSERT_NODE", "node": {"id": "a", "type": "T", "attrs": {}}})
    assert shell.main("status").err == ""


def test_the_guide_lists_the_harmless_settings() -> None:
    text = GUIDE.read_text("utf-8")
    listed = text.partition("<!-- harmless -->")[2].partition("<!-- end -->")[0]
    assert set(listed.replace(",", " ").replace("`", " ").split()) == HARMLESS


# -- links


LINKED = (
    "graph.db", "graph.db-wal", "_system", "_system/views.db", "_system/text", "_system/text/text.db", "_system/head",
    "_system/head.new", "_system/lock", "_system/log", "_system/log/00000000000000000002.jsonl", "_system/audit/lock",
    "tenants", "tenants/acme", "tenants/acme/_system/views.db",
)  # fmt: skip


@pytest.mark.parametrize("path", LINKED)
def test_a_memory_that_was_found_writes_through_no_link(
    memory: Path, repository: Path, shell: CommandLine, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that SQLite makes at the end of one holds texts of an agent: as keys of SSH they would count."""
    (memory / "tallystick.toml").unlink()
    link, chosen = memory / path, tmp_path / "home" / "chosen"
    (memory / path).parent.mkdir(parents=True, exist_ok=True)
    chosen.parent.mkdir()
    link.symlink_to(chosen)
    monkeypatch.chdir(repository)
    for words in (("status",), ("remember", "this"), ("init", "--client", "claude"), ("init", "--remove")):
        ran = shell.main(*words, *(["--yes"] if words[0] == "init" else []))
        assert (ran.code, "BASE_NOT_TRUSTED" in ran.err) == (2, True), ran.err
    with pytest.raises(InvalidArgument, match="is a symbolic link"):
        load({}, environ={}, working=repository)
    assert list(chosen.parent.iterdir()) == []


def test_links_outside_of_repositories_and_of_plain_files_are_the_users(memory: Path, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "disk").mkdir()
    (tmp_path / "lib" / "_system").symlink_to(tmp_path / "disk")
    assert load({"base": tmp_path / "lib"}, environ={}).base == tmp_path / "lib"
    (memory / "notes.md").symlink_to(tmp_path / "disk")
    assert load({"base": memory}, environ={}).base == memory


# -- the work toolset's file


def test_the_place_of_the_mirror_comes_from_no_file_that_a_clone_brings(repository: Path, memory: Path) -> None:
    text = "db_path: /home/ada/notes.db\nagent_identity: mallory\nclaim_ttl_minutes: 5\nrequire_evidence: true\n"
    for directory in (repository, memory):
        (directory / "graph.config.yaml").write_text(text)
    for base in (memory, repository.parent / "nowhere"):
        settings = read_settings(base=base, working=repository, environ={})
        assert (settings.db_path, settings.agent_identity, settings.claim_ttl_minutes) == (None, "mallory", 5)
    assert read_settings(base=memory, working=repository, environ={"GRAPH_DB": "/mine.db"}).db_path == Path("/mine.db")


def test_a_confirmed_file_of_the_base_places_the_mirror(memory: Path, repository: Path, shell: CommandLine) -> None:
    (memory / "graph.config.yaml").write_text("db_path: mirror.db\n")
    assert "db_path" in shell.main("trust-settings", "--yes").out
    assert read_settings(base=memory, working=repository, environ={}).db_path == memory / "mirror.db"


BOMB = "a: &a [x, x]\n" + "".join(
    f"{after}: &{after} [*{before}, *{before}]\n" for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(BOMB, "has an anchor or an alias", id="bomb"),
        pytest.param("agent_identity: &a me", "has an anchor or an alias", id="anchor"),
        pytest.param("agent_identity: !!str me", "has a tag", id="tag"),
        pytest.param("a: " + "[" * 50 + "]" * 50, "is nested deeper", id="deep"),
        pytest.param("claim_ttl_minutes: " + "9" * 5_000, "is not YAML: Exceeds the limit", id="number"),
        pytest.param("agent_identity: 2026-99-99", "is not YAML: month must be", id="date"),
        pytest.param("#" + "x" * config.FILE_BYTES_MAX, "is larger than", id="large"),
    ],
)
def test_the_file_is_plain_and_small(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "graph.config.yaml").write_text(text)
    with pytest.raises(InvalidArgument, match=problem):
        read_settings(base=tmp_path, working=tmp_path, environ={})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("#" + "x" * config.FILE_BYTES_MAX, "is larger than", id="large"),
        pytest.param("max_hops." + "a." * 20_000 + "a = 1", "has a line with more than 100 dots", id="deep"),
        pytest.param("toolsets = [[1]]", "takes a value", id="nested"),
        pytest.param("max_hops = " + "9" * 5_000, "is not TOML: Exceeds the limit", id="number"),
    ],
)
def test_so_are_the_settings(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "tallystick.toml").write_text(text)
    with pytest.raises(InvalidArgument, match=problem):
        load({"base": tmp_path}, environ={})

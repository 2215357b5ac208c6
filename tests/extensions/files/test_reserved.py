"""What settings name is out of reach for the files tools, wherever it lies, whatever it is called, and however it is
come by."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tallystick import config
from tallystick.errors import InvalidArgument
from tallystick.extensions.tasks.settings import find_file
from tallystick.projections.reserved_files import Reserved
from tallystick.projections.sandboxed_files import SandboxedFiles
from tallystick.work_settings import named_paths as named_by_work
from tallystick.work_settings import read_settings
from tests.extensions.files.agents import FilesAgent, working

SECRET = "the secret\n"


@contextmanager
def guarding(home: Path, *named: Path) -> Iterator[FilesAgent]:
    with working(home, reserved=named) as agent:
        yield agent


def put(path: Path, text: str = SECRET) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def reading(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [("view", {"path": path})]


def changing(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("create", {"path": path, "file_text": "x", "overwrite": True}),
        ("create", {"path": path, "file_text": "x"}),
        ("str_replace", {"path": path, "old_str": "secret", "new_str": "x"}),
        ("insert", {"path": path, "insert_line": 0, "insert_text": "x"}),
        *moving(path),
    ]


def moving(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("delete", {"path": path}),
        ("rename", {"old_path": path, "new_path": "stolen"}),
        ("rename", {"old_path": "mine", "new_path": path}),
    ]


def check_refused(agent: FilesAgent, calls: list[tuple[str, dict[str, Any]]]) -> None:
    put(agent.home / "mine" / "policy.rego", "mine")
    for tool, arguments in calls:
        told = agent.refusal(tool, **arguments)
        assert told["code"] in ("PATH_RESERVED", "PATH_NOT_ALLOWED"), (tool, arguments, told)
        assert "secret" not in str(told)


# -- by name

SPELLINGS = [
    "conf/policy.rego",
    "CONF/Policy.REGO",
    "./conf//policy.rego",
    "co\u200dnf/policy.rego",
    "conf/policy.rego.bak",
    "conf/policy.rego-wal",
    "conf/policy.rego~",
]


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_named_file_can_be_neither_read_nor_changed(tmp_path: Path, spelling: str, exists: bool) -> None:
    named = tmp_path / "conf" / "policy.rego"
    if exists:
        put(named)
    with guarding(tmp_path, named) as agent:
        check_refused(agent, reading(spelling) + changing(spelling))


def test_what_holds_it_can_be_viewed_without_it_and_neither_moved_nor_replaced(tmp_path: Path) -> None:
    named = put(tmp_path / "conf" / "keys" / "tls.key")
    with guarding(tmp_path, named) as agent:
        for holder in ("conf", "conf/keys", "Conf"):
            check_refused(agent, moving(holder))
        agent.call("create", path="conf/keys/notes.md", file_text="x")
        agent.call("create", path="conf/keys.md", file_text="x")
        shown = [entry["path"] for entry in agent.call("view", path="conf")["entries"]]
        assert shown == ["conf/keys", "conf/keys/notes.md", "conf/keys.md"]
        agent.call("rename", old_path="conf/keys/notes.md", new_path="notes.md")


def test_it_cannot_be_put_where_settings_will_look_for_it(tmp_path: Path) -> None:
    """Not even by moving a directory there."""
    with guarding(tmp_path, tmp_path / "conf" / "deep" / "policy.rego") as agent:
        agent.call("create", path="mine/policy.rego", file_text="allow")
        agent.call("create", path="mine/deep/policy.rego", file_text="allow")
        for source, target in (("mine", "conf/deep"), ("mine", "conf"), ("mine/deep", "conf/deep")):
            assert agent.refusal("rename", old_path=source, new_path=target)["code"] == "PATH_RESERVED"
        assert agent.refusal("create", path="conf", file_text="in the way")["code"] == "PATH_RESERVED"
        agent.call("create", path="conf/other.md", file_text="x")


def test_a_named_directory_is_out_of_reach_with_everything_in_it(tmp_path: Path) -> None:
    put(tmp_path / "rules" / "a.rego")
    with guarding(tmp_path, tmp_path / "rules") as agent:
        for path in ("rules", "rules/a.rego", "rules/sub/b.rego", "RULES/data.json"):
            check_refused(agent, reading(path) + changing(path))
        assert [entry["path"] for entry in agent.call("view", path=".")["entries"] if "rules" in entry["path"]] == []
        agent.call("create", path="rules.md", file_text="beside a directory there is nothing of it")


def test_a_named_directory_that_holds_the_home_takes_all_of_it(tmp_path: Path) -> None:
    """Whoever writes into the home would write into it."""
    home = tmp_path / "base"
    home.mkdir()
    with guarding(home, tmp_path) as agent:
        check_refused(agent, [*reading("."), *reading("mine"), ("create", {"path": "a.rego", "file_text": "x"})])


# -- by what it is


def hard_link(home: Path, named: Path) -> str:
    os.link(named, home / "alias")
    return "alias"


def hard_link_into_a_directory(home: Path, named: Path) -> str:
    os.link(named, put(home / "notes" / "x", "x").with_name("alias"))
    return "notes/alias"


@pytest.mark.parametrize("place", ["inside/policy.rego", "../outside/policy.rego"])
@pytest.mark.parametrize("link", [hard_link, hard_link_into_a_directory])
@pytest.mark.parametrize("is_directory", [False, True])
def test_another_name_of_it_is_no_way_to_it(
    tmp_path: Path, place: str, link: Callable[[Path, Path], str], is_directory: bool
) -> None:
    home = tmp_path / "base"
    home.mkdir()
    file = put(Path(os.path.normpath(home / place)))
    alias = link(home, file)
    with guarding(home, file.parent if is_directory else file) as agent:
        edits = [call for call in changing(alias) if call[0] in ("str_replace", "insert")]
        check_refused(agent, reading(alias) + edits)
        listed = agent.call("view", path=".")["entries"]
        assert alias not in [entry["path"] for entry in listed]


def test_another_name_of_what_the_store_keeps_is_no_way_to_it(tmp_path: Path) -> None:
    with guarding(tmp_path) as agent:
        segment = put(tmp_path / "_system" / "log" / "x.jsonl")
        os.link(segment, tmp_path / "alias")
        check_refused(agent, reading("alias"))


def test_a_file_with_two_plain_names_is_a_plain_file(tmp_path: Path) -> None:
    named = put(tmp_path / "policy.rego")
    os.link(put(tmp_path / "one", "plain\n"), tmp_path / "two")
    with guarding(tmp_path, named) as agent:
        assert agent.call("view", path="two")["content"] == "plain\n"
        agent.call("str_replace", path="two", old_str="plain", new_str="changed")


@pytest.mark.parametrize("named", ["p.rego", "q.rego", "dir/policy.rego"])
def test_what_is_named_by_way_of_a_link_is_out_of_reach_where_it_is(tmp_path: Path, named: str) -> None:
    put(tmp_path / "real" / "policy.rego")
    (tmp_path / "p.rego").symlink_to("real/policy.rego")
    (tmp_path / "q.rego").symlink_to("p.rego")
    (tmp_path / "dir").symlink_to(tmp_path / "real")
    links = {"p.rego": ["p.rego"], "q.rego": ["q.rego", "p.rego"], "dir/policy.rego": ["dir"]}[named]
    with guarding(tmp_path, tmp_path / named) as agent:
        check_refused(agent, reading("real/policy.rego") + changing("real/policy.rego") + moving("real"))
        for link in links:
            check_refused(agent, moving(link))


def test_what_a_named_directory_links_to_is_named_with_it(tmp_path: Path) -> None:
    home, rules = tmp_path / "base", tmp_path / "rules"
    put(home / "real" / "policy.rego")
    rules.mkdir()
    (rules / "p.rego").symlink_to(home / "real" / "policy.rego")
    with guarding(home, rules) as agent:
        check_refused(agent, reading("real/policy.rego") + changing("real/policy.rego"))


def test_a_home_that_is_named_by_way_of_a_link_guards_the_same(tmp_path: Path) -> None:
    real = tmp_path / "real"
    named = put(real / "conf" / "policy.rego")
    (tmp_path / "base").symlink_to(real)
    with guarding(tmp_path / "base", named) as agent:
        check_refused(agent, reading("conf/policy.rego") + moving("conf"))


def test_what_is_swapped_in_while_we_walk_is_known_by_what_it_is(tmp_path: Path) -> None:
    """Its names say nothing any more."""
    guard = Reserved(tmp_path, [put(tmp_path / "conf" / "policy.rego")])
    guard.check_changed(os.stat(put(tmp_path / "other")), ("other",))
    os.rename(tmp_path / "conf", tmp_path / "moved")
    assert not guard.hides(("moved", "policy.rego"), None)
    files = SandboxedFiles(tmp_path, guard)
    for refused in (
        lambda: files.read(("moved", "policy.rego")),
        lambda: files.digest(("moved", "policy.rego")),
        lambda: files.remove(("moved", "policy.rego")),
        lambda: files.write(("moved", "policy.rego"), b""),
        lambda: files.remove(("moved",)),
        lambda: files.rename(("moved",), ("else",)),
    ):
        with pytest.raises(InvalidArgument):
            refused()
    assert files.list(("moved",)) == []


# -- which paths settings name


def test_whatever_a_setting_names_is_among_the_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    flags = {
        "base": "base",
        "policy": "~/rules",
        "policy_url": "unix:opa.sock",
        "tls_cert": "cert.pem",
        "tls_key": "/keys/../key.pem",
        "introspection_secret_file": "secret",
        "web_client_secret_file": "web-secret",
        "audit_archive": "archive",
        "lineage_to": "feed.jsonl",
    }
    environ = {"OTEL_EXPORTER_OTLP_CLIENT_KEY": "otel.key", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}
    found = config.named_paths(config.load(flags, environ={}), environ=environ)
    here = tmp_path
    expected = {
        here / "base" / "tallystick.toml", here / "me" / "rules", here / "opa.sock", here / "cert.pem",
        Path("/keys/../key.pem"), here / "secret", here / "web-secret", here / "archive", here / "feed.jsonl",
        here / "otel.key",
    }  # fmt: skip
    assert expected <= set(found)
    assert set(found) - expected == {here / "~" / "rules"}


def test_words_and_addresses_are_no_paths(tmp_path: Path) -> None:
    for policy in ("single-user", "rbac", "closed", ""):
        flags = {"base": tmp_path, "policy": policy, "lineage_to": "https://x/y", "policy_url": "http://opa"}
        assert config.named_paths(config.load(flags, environ={}), environ={}) == [tmp_path / "tallystick.toml"]


NO_PATHS = {
    "tenant", "agent_identity", "toolsets", "tools", "http", "http_hosts", "http_origins", "issuers", "public_url",
    "audience", "scopes", "tenant_claim", "roles_claim", "introspection_client", "quota_overrides", "policy_path",
    "metrics_tenants", "repo", "checkpoint_key_command", "witnesses", "web_client_id",
    "web_actor", "log_url", "log_stream", "log_streams", "log_monitor", "backup_key_command",
    "cypher_url", "cypher_user", "cypher_reader", "cypher_graph",
}  # fmt: skip
"""`policy_path` is a rule's, and `repo` is what tools are for."""


def test_every_setting_that_is_a_text_names_a_path_or_is_known_not_to(tmp_path: Path) -> None:
    """A new one that names a path is declared as such, and out of reach from then on."""
    texts = {row.name: row for row in config.table() if isinstance(row.default, str | tuple)}
    literals = {name for name, row in texts.items() if "Literal" in str(row.type)}
    for name in texts.keys() - literals - NO_PATHS:
        value = tmp_path / name
        settings = config.load({"base": tmp_path, name: str(value)}, environ={})
        assert value in config.named_paths(settings, environ={}), name


def test_the_files_of_other_settings_are_among_the_named(tmp_path: Path) -> None:
    base, working_at = tmp_path / "base", tmp_path / "work"
    base.mkdir()
    (base / "graph.config.yaml").write_text("db_path: mirror.sqlite\n")
    work = read_settings(base=base, working=working_at, environ={})
    assert set(named_by_work(work, base=base, working=working_at)) == {
        base / "graph.config.yaml", working_at / "graph.config.yaml", base / "mirror.sqlite"
    }  # fmt: skip
    assert find_file({"TASK_ORCHESTRATOR_HOME": str(tmp_path)}) == tmp_path / "config.yaml"

"""Settings: who is heard first, and what is refused."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tallystick.config import Settings, data_directory, home_directory, load, misspelt_variables, table, why_this_base
from tallystick.errors import InvalidArgument
from tallystick.operations.doctor import examine


def test_a_flag_is_heard_before_the_environment_the_file_and_the_default(tmp_path: Path) -> None:
    (tmp_path / "tallystick.toml").write_text('max_hops = 5\ntenant = "from-file"\nagent_identity = "from-file"\n')
    environ = {"BASE_PATH": str(tmp_path), "TALLYSTICK_TENANT": "from-environment", "GRAPH_AGENT": "from-environment"}
    settings = load({"agent_identity": "from-flag", "tenant": None}, environ=environ)
    assert (settings.agent_identity, settings.tenant, settings.max_hops) == ("from-flag", "from-environment", 5)
    assert settings.tool_names == "auto"


def test_a_relative_base_counts_from_the_working_directory(tmp_path: Path) -> None:
    assert load({"base": "memory"}, environ={}, working=tmp_path).base == tmp_path / "memory"
    assert load({}, environ={"BASE_PATH": "../memory"}, working=tmp_path / "a").base == tmp_path / "memory"


def test_the_default_base_is_the_users_data_directory_and_no_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    base = load({}, environ={}).base
    assert base.is_relative_to(tmp_path)
    assert base.name == "tallystick"
    assert "cache" not in str(base.relative_to(tmp_path)).lower()


def test_each_tenant_has_a_home_of_its_own(tmp_path: Path) -> None:
    assert load({"base": tmp_path}, environ={}).system == tmp_path / "_system"
    assert load({"base": tmp_path, "tenant": "acme"}, environ={}).system == tmp_path / "tenants" / "acme" / "_system"


def test_lists_and_numbers_and_booleans_are_read_from_text() -> None:
    environ = {
        "TALLYSTICK_TOOLS": "memory.read, memory.search",
        "TALLYSTICK_READ_ONLY": "true",
        "TALLYSTICK_MAX_HOPS": "2",
    }
    settings = load({}, environ=environ)
    assert (settings.tools, settings.read_only, settings.max_hops) == (("memory.read", "memory.search"), True, 2)


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"TALLYSTICK_MAX_HOPS": "many"}, ["max_hops", "TALLYSTICK_MAX_HOPS", "many"]),
        ({"TALLYSTICK_MAX_HOPS": "0"}, ["max_hops", "1"]),
        ({"TALLYSTICK_TENANT": "../other"}, ["tenant", "../other"]),
        ({"TALLYSTICK_TOOL_NAMES": "camel"}, ["tool_names", "auto, dotted, underscore"]),
        ({"TALLYSTICK_READ_ONLY": "perhaps"}, ["read_only", "perhaps"]),
        ({"TALLYSTICK_AGENT": "caf\udce9"}, ["agent_identity", "UTF-8"]),
        ({"TALLYSTICK_CHECKPOINT_KEY": "~no-such-user/key"}, ["checkpoint_key", "~no-such-user/key"]),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_source(environ: dict[str, str], told: list[str]) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        load({}, environ=environ)
    assert refusal.value.code == "SETTING_INVALID"
    assert [word for word in told if word not in refusal.value.message] == []


def test_a_user_whom_the_machine_does_not_know_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(user: int) -> None:
        raise KeyError(user)

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    for ask in (data_directory, home_directory):
        with pytest.raises(InvalidArgument) as refusal:
            ask()
        assert (refusal.value.code, "set HOME" in (refusal.value.hint or "")) == ("NO_HOME", True)
    assert why_this_base(Path("/srv/memory"), Path("/")) == "as --base or BASE_PATH says"
    found = [each for each in examine(Settings(base=Path("/srv/memory"))) if each.what == "clients"]
    assert [each.status for each in found] == ["odd"]


@pytest.mark.parametrize("base", ["/tmp/\udcff/memory", "~no-such-user/memory", "/dev/null", "/tmp/" + "x" * 300])
def test_a_base_that_has_no_place_or_no_name_in_unicode_is_refused(base: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        load({}, environ={"BASE_PATH": base})
    assert (refusal.value.code, "cannot be the base" in refusal.value.message) == ("BASE_UNUSABLE", True)


@pytest.mark.parametrize(
    ("content", "code", "told"),
    [
        ("max_hop = 2", "SETTING_UNKNOWN", "max_hops"),
        ('base = "elsewhere"', "SETTING_INVALID", "base"),
        ("max_hops = ", "SETTING_INVALID", "TOML"),
        pytest.param("max_hops = " + "[" * 60_000, "SETTING_INVALID", "TOML", id="deep"),
        ('max_hops = "many"', "SETTING_INVALID", "tallystick.toml"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, content: str, code: str, told: str) -> None:
    (tmp_path / "tallystick.toml").write_text(content)
    with pytest.raises(InvalidArgument) as refusal:
        load({"base": tmp_path}, environ={})
    assert refusal.value.code == code
    assert told in f"{refusal.value.message} {refusal.value.hint}"


def test_a_file_of_settings_that_cannot_be_read_is_not_blamed_on_the_base(tmp_path: Path) -> None:
    (tmp_path / "tallystick.toml").mkdir()
    with pytest.raises(InvalidArgument) as refusal:
        load({"base": tmp_path}, environ={})
    assert refusal.value.code == "SETTINGS_UNREADABLE"
    assert refusal.value.message == f"{tmp_path / 'tallystick.toml'} cannot be read: it is not a regular file"


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tallystick.toml")
    with pytest.raises(InvalidArgument, match="not a regular file"):
        load({"base": tmp_path}, environ={})


def test_a_byte_order_mark_before_the_settings_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "tallystick.toml").write_text("max_hops = 5\n", "utf-8-sig")
    assert load({"base": tmp_path}, environ={}).max_hops == 5


def test_every_setting_is_in_the_table_with_a_variable_and_a_meaning() -> None:
    rows = table()
    assert [row.name for row in rows] == list(Settings.__struct_fields__)
    assert [row.name for row in rows if not row.variables or not row.meaning.endswith(".")] == []
    variables = [variable for row in rows for variable in row.variables]
    assert len(variables) == len(set(variables))


def test_a_variable_that_is_almost_a_setting_is_told_and_one_of_somebody_else_is_not() -> None:
    environ = dict.fromkeys(
        (
            "TALLYSTICK_SECRET",
            "TALLYSTICK_AUDIT_RETENSION_DAYS",
            "TALLYSTICK_SECRETS",
            "TALLYSTICK_CHECKPOINT_PRIVATE_KEY",
            "TALLYSTICK_HOOK_SECONDS",
            "TALLYSTICK_URL",
            "TALLYSTICK_TOKEN",
            "TALLYSTICK_PORT",
            "TALLYSTICK_SERVICE_HOST",
            "TALLYSTICK_PORT_80_TCP_ADDR",
            "SECRET",
        ),
        "x",
    )
    assert misspelt_variables(environ) == {
        "TALLYSTICK_SECRET": "TALLYSTICK_SECRETS",
        "TALLYSTICK_AUDIT_RETENSION_DAYS": "TALLYSTICK_AUDIT_RETENTION_DAYS",
    }

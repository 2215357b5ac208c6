"""An earlier version of one entity, put back by an ordinary commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.errors import Conflict, InvalidArgument, NotFound
from tests.command_line import CommandLine, edge, node


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    shell = CommandLine(tmp_path / "memory")
    shell.write(node("a", n=1), node("b"), edge("a", "knows", "b", since=2020))
    shell.write(node("a", n=2, text="ask ada@example.org about it"), {"op": "DELETE_NODE", "node_id": "a"})
    return shell


def attrs(shell: CommandLine, entity: str) -> dict[str, object]:
    found: dict[str, object] = shell.run("show", entity, "--json").json["entity"]["attrs"]
    return found


def test_a_deleted_node_and_its_edge_come_back_as_they_were(shell: CommandLine) -> None:
    done = shell.run("restore-entity", "a", "--as-of", 3, "--json").json
    assert (done["kind"], done["from_position"], done["document"]["attrs"]) == ("node", 1, {"n": 1})
    assert attrs(shell, "a") == {"n": 1}
    assert "restored from position 1" in shell.run("log", "--limit", 1).out
    back = shell.run("restore-entity", "a|knows|b", "--as-of", 4, "--reason", "by mistake", "--json").json
    assert (back["kind"], back["document"]["attrs"]) == ("edge", {"since": 2020})
    assert attrs(shell, "a|knows|b") == {"since": 2020}
    assert shell.run("verify").code == 0


def test_what_is_that_version_already_is_not_written_again(shell: CommandLine) -> None:
    shell.run("restore-entity", "a", "--as-of", 4)
    again = shell.run("restore-entity", "a", "--as-of", 4, "--json").json
    assert again["commit_id"] is None
    assert "nothing was changed" in shell.run("restore-entity", "a", "--as-of", 4).err


def test_a_version_that_was_redacted_is_refused_and_another_is_not(shell: CommandLine) -> None:
    shell.run("forget", "--subject", "ada@example.org", "--yes")
    with pytest.raises(Conflict) as refused:
        shell.run("restore-entity", "a", "--as-of", 4)
    assert refused.value.code == "REDACTED"
    shell.run("restore-entity", "a", "--as-of", 1)
    assert attrs(shell, "a") == {"n": 1}


def test_what_was_not_there_then_cannot_come_back(shell: CommandLine) -> None:
    for entity, moment in (("b", "1"), ("nobody", "3"), ("a", "2000-01-01")):
        with pytest.raises(NotFound, match=f"no '{entity}' as of"):
            shell.run("restore-entity", entity, "--as-of", moment)
    with pytest.raises(InvalidArgument):
        shell.run("restore-entity", "a", "--as-of", "999")

"""The command that hands lineage on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import InvalidArgument, TallystickError
from tests.command_line import CommandLine, node
from tests.extensions.openlineage.test_openlineage import endpoint
from tests.promises import promise

ROOT = Path(__file__).parents[3]


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    made = CommandLine(tmp_path / "memory")
    made.write(node("a", n=1), node("a", n=2), {"op": "DELETE_NODE", "node_id": "a"})
    return made


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_file_grows_by_what_is_new(shell: CommandLine, tmp_path: Path) -> None:
    feed = tmp_path / "lineage.jsonl"
    assert shell.run("emit", "--to", feed, "--json").json == {"events": 6, "position": 3, "target": str(feed)}
    assert [event["outputs"][0]["name"] for event in lines(feed) if event["outputs"]] == ["note", "note", "note"]
    assert shell.run("emit", "--to", feed, "--json").json["events"] == 0
    shell.write(node("b"))
    assert shell.run("emit", "--to", feed, "--json").json["events"] == 2
    assert shell.run("emit", "--to", feed, "--again", "--json").json["events"] == 8
    assert lines(feed)[:8] == lines(feed)[8:]


def test_an_endpoint_gets_the_token_from_the_environment(shell: CommandLine) -> None:
    with endpoint() as there:
        shell.run("emit", "--to", there.address, "--batch", 4, OPENLINEAGE_API_KEY="t0ken")
        assert [len(body) for body in there.bodies] == [4, 2]
        assert there.headers[0]["authorization"] == "Bearer t0ken"


def test_an_endpoint_that_refuses_ends_it_and_the_position_stays(shell: CommandLine) -> None:
    with endpoint((401, {})) as there:
        with pytest.raises(TallystickError) as refusal:
            shell.run("emit", "--to", there.address)
        assert refusal.value.code == "LINEAGE_REFUSED"
        assert shell.run("emit", "--to", there.address, "--json").json["events"] == 6


def test_a_place_that_is_none_is_refused(shell: CommandLine) -> None:
    with pytest.raises(InvalidArgument):
        shell.run("emit", "--to", "ftp://lineage.example/")


@promise("L47, following", "events are handed on as commits arrive")
def test_following_hands_on_what_is_written_later_and_ends_when_interrupted(shell: CommandLine) -> None:
    with endpoint() as there:
        process = start("emit", "--to", there.address, "--follow", "--base", str(shell.base))
        try:
            there.wait_for(6)
            shell.write(node("b"))
            there.wait_for(8)
            process.send_signal(signal.SIGINT)
            process.communicate()
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 130
        # The last answer may have come too late for it to be kept in mind.
        shell.run("emit", "--to", there.address)
        assert there.bodies[8:] in ([], there.bodies[6:8])


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tallystick", *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)

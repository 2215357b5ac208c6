"""The image, built by its own stages in a root of Debian's packages: who it runs as, and what it can write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.deploy.image_root import BASE, MEMORY, Image, instruction
from tests.mcp_client import ServerProcess, stopping

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not (BASE / ".ready").exists(), reason="a root of its own needs root, and debootstrap"
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    made = Image(tmp_path_factory.mktemp("image"))
    made.build()
    return made


@pytest.fixture
def server(image: Image) -> Iterator[ServerProcess]:
    # In the container's network it is 0.0.0.0; here the network is the machine's.
    how = image.command(*json.loads(instruction("CMD")), environ={"TALLYSTICK_HTTP": "127.0.0.1:0"})
    with stopping(ServerProcess(how.command, environ=how.environ)) as running:
        yield running


def test_it_serves_as_a_user_who_is_not_root_and_is_ready_by_its_own_health_check(
    image: Image, server: ServerProcess
) -> None:
    status = Path(f"/proc/{server.process.pid}/status")
    port = server.url.rpartition(":")[2]
    fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
    assert fields["Uid"].split() == ["10001"] * 4
    check = json.loads(instruction("HEALTHCHECK").partition("CMD ")[2])
    ran = image.run(*check, environ={"TALLYSTICK_HTTP": f"127.0.0.1:{port}"}).finish()
    assert (ran.returncode, ran.stdout) == (0, "ready\n"), ran.stderr


def test_what_is_written_lies_in_the_volume_and_is_found_by_the_next_container(
    image: Image, server: ServerProcess
) -> None:
    body = {"op": "UPSERT_NODE", "node": {"id": "image", "type": "Check", "attrs": {"passed": True}}}
    asked = Request(
        f"{server.url}/v1/tools/memory.write", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(asked) as answer:
        assert answer.status == 200
    assert [*(image.memory / "_system" / "log").glob("*.jsonl")]
    assert "passed" in image.command("show", "image").finish().stdout
    assert image.command("verify").finish().returncode == 0


def test_nothing_but_the_volume_and_tmp_can_be_written(image: Image) -> None:
    program = "import sys; open(sys.argv[1] + '/probe', 'w')"
    for place, can in ((MEMORY, True), ("/tmp", True), ("/opt/tallystick", False), ("/etc", False), ("/", False)):
        ran = image.run("/opt/tallystick/bin/python", "-c", program, place).finish()
        assert (ran.returncode == 0) is can, (place, ran.stderr)
        if not can:
            assert "Read-only file system" in ran.stderr or "Permission denied" in ran.stderr


def test_started_as_root_it_says_so_and_serves_nothing(image: Image) -> None:
    ran = image.command("serve", user="0:0", environ={"TALLYSTICK_HTTP": "127.0.0.1:0"}).finish()
    assert ran.returncode != 0
    assert "RUN_AS_ROOT" in ran.stderr
    assert "--user 10001:10001" in ran.stderr


def test_on_an_address_that_others_reach_it_wants_an_issuer(image: Image) -> None:
    ran = image.command(*json.loads(instruction("CMD"))).finish()
    assert ran.returncode != 0
    assert "UNSAFE_BINDING" in ran.stderr

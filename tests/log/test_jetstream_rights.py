"""Rights that end while a machine is connected: it reads on, says why it does not write, and goes on by itself."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import HeadMoved, StorageRefused, TallystickError, Unsettled
from tallystick.extensions.cluster import jetstream_log as jetstream
from tallystick.extensions.cluster import membership
from tallystick.extensions.cluster.client import Servers
from tallystick.extensions.cluster.jetstream_log import JetStreamLog
from tallystick.log import Head, Log
from tests.commits_by_hand import append, draft, filled, node
from tests.log.jetstream_logs import place_of
from tests.log.nats_identities import Identities
from tests.nats_cluster import Cluster, running
from tests.timeouts import wait_until

ANN = '{ user: "ann", password: "one" }'
BOB = '{ user: "bob", password: "two" }'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jetstream, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(membership, "START_SECONDS", 5.0)


def opened(cluster: Cluster, base: Path, user: str = "", **shown: Any) -> JetStreamLog:
    url = cluster.url.replace("nats://", f"nats://{user}@") if user else cluster.url
    return JetStreamLog(place_of(cluster, base, stream="tally-0", servers=Servers((url,), **shown)), "default")


def refusal_of(log: Log, *names: str) -> TallystickError:
    """Once there is one that names a reason."""
    found: list[TallystickError] = []

    def is_refused() -> bool:
        try:
            append(log, draft(node("a while longer")))
        except StorageRefused as error:
            if any(name in error.message.lower() for name in names):
                found.append(error)
        except (Unsettled, HeadMoved):
            # It was cut off in between.
            return False
        return bool(found)

    wait_until(is_refused)
    return found[0]


def goes_on(log: Log) -> None:
    def is_written() -> bool:
        try:
            append(log, draft(node("again")))
        except (StorageRefused, Unsettled, HeadMoved):
            return False
        return True

    wait_until(is_written)
    wait_until(lambda: log.behind_seconds() == 0)


def test_a_user_who_is_removed_reads_on_and_writes_when_he_is_back(tmp_path: Path) -> None:
    with running(tmp_path / "nats", extra=f"authorization {{ users: [ {BOB}, {ANN} ] }}") as servers:
        log = opened(servers, tmp_path / "base", "ann:one")
        other = opened(servers, tmp_path / "other", "bob:two")
        filled(log, 3)
        servers.nodes[0].reload(f"{BOB}, {ANN}", BOB)
        error = refusal_of(log, "authorization violation")
        assert (error.code, bool(error.hint)) == ("LOG_UNREACHABLE", True)
        assert len(list(log.read(Head()))) >= 3
        wait_until(lambda: log.behind_seconds() > 0)
        servers.nodes[0].reload(BOB, f"{BOB}, {ANN}")
        goes_on(log)
        append(other, draft(node("of the other")))
        wait_until(lambda: log.head() == other.head())
        log.close()
        other.close()


def test_a_machine_that_begins_without_rights_begins_to_write_when_it_has_them(tmp_path: Path) -> None:
    with running(tmp_path / "nats", extra=f"authorization {{ users: [ {BOB}, {ANN} ] }}") as servers:
        log = opened(servers, tmp_path / "base", "ann:one")
        filled(log, 3)
        log.close()
        servers.nodes[0].reload(f"{BOB}, {ANN}", BOB)
        log = opened(servers, tmp_path / "base", "ann:one")
        assert log.head().lamport == 3
        refusal_of(log, "authorization violation")
        servers.nodes[0].reload(BOB, f"{BOB}, {ANN}")
        goes_on(log)
        log.close()


def test_a_subject_that_is_forbidden_is_named_and_nothing_is_half_written(tmp_path: Path) -> None:
    limited = '{ user: "ann", password: "one", permissions: { publish: { deny: "tally-0.log.>" } } }'
    with running(tmp_path / "nats", extra=f"authorization {{ users: [ {BOB}, {ANN} ] }}") as servers:
        log = opened(servers, tmp_path / "base", "ann:one")
        filled(log, 3)
        servers.nodes[0].reload(ANN, limited)
        error = refusal_of(log, "tally-0.log.default")
        assert (error.code, bool(error.hint)) == ("LOG_FORBIDDEN", True)
        position = log.head().lamport
        other = opened(servers, tmp_path / "other", "bob:two")
        assert other.head().lamport == position, "nothing was stored of what was refused"
        append(other, draft(node("of the other")))
        wait_until(lambda: log.head() == other.head())
        servers.nodes[0].reload(limited, ANN)
        goes_on(log)
        log.close()
        other.close()


def test_credentials_that_expire_are_renewed_in_their_file(tmp_path: Path) -> None:
    identities = Identities()
    creds = tmp_path / "user.creds"
    with running(tmp_path / "nats", extra=identities.configured()) as servers:
        creds.write_text(identities.credentials())
        log = opened(servers, tmp_path / "base", credentials=creds)
        filled(log, 3)
        # They may have expired before the client is connected again: it is refused then, or cut off later.
        creds.write_text(identities.credentials(expires=int(time.time()) + 4))
        servers.nodes[0].kill()
        servers.start()
        assert refusal_of(log, "expired", "authorization violation").code == "LOG_UNREACHABLE"
        creds.write_text(identities.credentials())
        goes_on(log)
        log.close()


def test_credentials_whose_file_is_away_for_a_while_are_read_when_it_is_back(tmp_path: Path) -> None:
    identities = Identities()
    creds, away = tmp_path / "user.creds", tmp_path / "away"
    with running(tmp_path / "nats", extra=identities.configured()) as servers:
        creds.write_text(identities.credentials())
        log = opened(servers, tmp_path / "base", credentials=creds)
        filled(log, 3)
        shutil.move(creds, away)
        servers.nodes[0].kill()
        servers.start()
        refusal_of(log, "user.creds")
        shutil.move(away, creds)
        goes_on(log)
        log.close()

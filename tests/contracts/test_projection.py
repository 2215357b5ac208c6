"""What every projection promises, shown on each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tallystick.commits import Operation, Verb
from tallystick.extensions.openlineage.lineage_emitter import Destination
from tallystick.extensions.vectors import model
from tallystick.extensions.vectors.index import VectorIndex
from tallystick.extensions.vectors.projection import VectorProjection
from tallystick.log import Head, Log, head_after
from tallystick.log.files import FilesLog
from tallystick.projections import Projection, Settling
from tallystick.projections.database import Reader
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place, all_copies, registered
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft, node
from tests.extensions.openlineage.test_openlineage import Received
from tests.projections.workspace import DEFINITIONS

Make = Callable[[Path, Log], Projection]


def _maker(name: str) -> Make:
    parts = {"lineage": Destination(Received(), lambda commit: "note")}
    return lambda home, log: registered()[name].make(Place(home, LogReader(lambda: log), parts=parts))


@pytest.fixture(params=[name for name in registered() if name != "cypher"])  # tests.extensions.cypher has that one
def make(request: pytest.FixtureRequest) -> Make:
    return _maker(request.param)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FilesLog]:
    opened = FilesLog(tmp_path / "_system")
    append(opened, *STORY[0])
    append(opened, *STORY[1])
    yield opened
    opened.close()


STORY = (
    (draft(node("a", size=1), node("b")), draft(node("c"))),
    (
        draft(Operation(Verb.UPSERT_EDGE, {"from": "a", "rel": "knows", "to": "b", "attrs": {}})),
        draft(node("a", size=2)),
        draft(Operation(Verb.DELETE_NODE, {"node_id": "c"})),
    ),
)


def test_one_that_has_seen_nothing_is_at_the_start(make: Make, log: FilesLog, tmp_path: Path) -> None:
    projection = make(tmp_path, log)
    assert projection.position() == Head()
    projection.close()


def test_it_is_where_it_was_moved_to_and_remembers_it(make: Make, log: FilesLog, tmp_path: Path) -> None:
    entries = list(log.read(Head()))
    projection = make(tmp_path, log)
    projection.position()
    between = head_after(entries[:3], Head())
    projection.apply(entries[:3], between)
    assert projection.position() == between
    projection.close()
    again = make(tmp_path, log)
    assert again.position() == between
    again.apply(entries[3:], log.head())
    assert again.position() == log.head()
    again.close()


def test_a_reset_begins_again(make: Make, log: FilesLog, tmp_path: Path) -> None:
    projection = make(tmp_path, log)
    follower = ProjectionWorker(LogReader(lambda: FilesLog(tmp_path / "_system")), projection, lock=tmp_path / "lock")
    follower.catch_up()
    projection.reset()
    assert projection.position() == Head()
    follower.catch_up()
    assert projection.position() == log.head()
    follower.close()


def test_what_one_process_applied_another_one_sees(make: Make, log: FilesLog, tmp_path: Path) -> None:
    one, two = make(tmp_path, log), make(tmp_path, log)
    assert [one.position(), two.position()] == [Head(), Head()]
    one.apply(list(log.read(Head())), log.head())
    assert two.position() == log.head()
    one.reset()
    assert two.position() == Head()
    one.close()
    two.close()


def test_a_draft_that_cannot_be_applied_leaves_it_where_it_was(make: Make, log: FilesLog, tmp_path: Path) -> None:
    projection = make(tmp_path, log)
    entries = list(log.read(Head()))
    projection.position()
    projection.apply(entries[:3], head_after(entries[:3], Head()))
    before = projection.position()

    class Torn(list[object]):
        def __iter__(self) -> Iterator[object]:
            yield entries[3]
            raise RuntimeError("the log went away")

    with pytest.raises(RuntimeError, match="went away"):
        projection.apply(Torn(entries[3:]), log.head())  # type: ignore[arg-type]  # entries that end half-way
    assert projection.position() == before
    projection.close()


def test_what_was_redacted_or_deleted_is_in_no_file_after_it_erased(make: Make, log: FilesLog, tmp_path: Path) -> None:
    kind = "Project"
    letter = {"format": "text", "encoding": "utf-8", "text": "Dear xylophone,"}
    said = [Operation(Verb.UPSERT_NODE, {"id": each, "type": kind, "attrs": {}, "content": letter}) for each in "pq"]
    projection = make(tmp_path, log)
    keeps_copies = isinstance(projection, Settling)
    worker = ProjectionWorker(LogReader(lambda: FilesLog(tmp_path / "_system")), projection, lock=tmp_path / "lock")
    append(log, draft(*DEFINITIONS, *said))
    worker.catch_up()
    copy = _copy_of_letter(projection, worker)
    beside = [path for path in tmp_path.rglob("*") if path.is_file() and "log" not in path.parts]
    assert any(copy in path.read_bytes() for path in beside) == keeps_copies
    append(log, draft(Operation(Verb.REDACT_NODE, {"node_id": "p", "reason": "asked"}, redacts={})))
    append(log, draft(Operation(Verb.DELETE_NODE, {"node_id": "q"})))
    assert worker.erase()
    left = [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "log"]
    assert [path.name for path in left if copy in path.read_bytes() or b"xylophone" in path.read_bytes()] == []
    worker.close()


def _copy_of_letter(projection: Projection, worker: ProjectionWorker) -> bytes:
    """As what the projection keeps it."""
    if not isinstance(projection, VectorProjection):
        return b"xylophone"
    if not model.is_installed():
        pytest.skip("tallystick[vectors] is not installed")
    index = VectorIndex(projection, worker)
    while index.embed_waiting():
        pass
    index.close()
    with closing(Reader(projection.path)) as reader, reader.snapshot() as db:
        query = "SELECT codes FROM vectors JOIN entities ON entity = entities.number WHERE id = 'p'"
        codes: bytes = db.execute(query).fetchone()[0]
    return codes


@pytest.mark.parametrize("name", registered())
def test_one_that_keeps_copies_is_registered_with_how_to_ask_for_what_is_left(
    name: str, log: FilesLog, tmp_path: Path
) -> None:
    projection = _maker(name)(tmp_path, log)
    assert isinstance(projection, Settling) == (name in all_copies())
    projection.close()

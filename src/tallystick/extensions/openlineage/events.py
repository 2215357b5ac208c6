"""The OpenLineage events of commits.

An event tells who did what to which entity, in which run, and by which commit it can be
proven. It never carries attributes or contents: what has left the house cannot be redacted.
The same commit gives the same event whoever asks for it, so a receiver may get one twice.

The client's classes take a third of a second to load, so this module is imported where
events are made, not where they might be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import attr
from openlineage.client.event_v2 import Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    RunFacet,
    dataset_version_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
)

from tallystick import __version__
from tallystick.commits import EDGE_VERBS, Commit, Verb

PRODUCER = f"urn:tallystick:{__version__}"

_RUNS = uuid5(NAMESPACE_URL, "urn:tallystick:run")
_DRAFTS = uuid5(NAMESPACE_URL, "urn:tallystick:draft")
"""Apart from the runs that callers name, so that no name of theirs can be the same."""
_UPSERTS = (Verb.UPSERT_NODE, Verb.UPSERT_EDGE)

Event = dict[str, Any]
KindOf = Callable[[Commit], str]
"""The type of the node that a commit speaks of without telling its type: a deletion, a redaction."""


class EventBuilder:
    """Turns commits, oldest first, into events, and remembers which runs have been started."""

    def __init__(self, kind_of_other: KindOf, started: Iterable[UUID] = ()) -> None:
        self._kind_of_other = kind_of_other
        self._started = set(started)

    def tell(self, commit: Commit) -> list[Event]:
        kind = kind_of(commit) or self._kind_of_other(commit)
        return events_of(commit, kind=kind, starts=self.skip(commit))

    def skip(self, commit: Commit) -> bool:
        """Whether its run starts with it."""
        if not is_in_named_run(commit):
            # The commits of a draft stand together: nothing has to be remembered.
            return commit.lamport == commit.draft_lamports.start
        run = run_of(commit)
        if run in self._started:
            return False
        self._started.add(run)
        return True


def events_of(commit: Commit, *, kind: str, starts: bool) -> list[Event]:
    """`kind` is the type of the node or the relation of the edge."""
    states = (RunState.START, RunState.COMPLETE) if starts else (RunState.COMPLETE,)
    return [_event(commit, kind, state) for state in states]


def kind_of(commit: Commit) -> str | None:
    """What the commit itself says of the type; None where only an earlier one does."""
    if commit.operation in EDGE_VERBS:
        return str(commit.document()["rel"])
    return str(commit.document()["type"]) if commit.operation is Verb.UPSERT_NODE else None


def is_in_named_run(commit: Commit) -> bool:
    return commit.run_context is not None and "run_id" in commit.run_context


def run_of(commit: Commit) -> UUID:
    """Of the run that the writer named; where it named none, the draft is one."""
    if commit.run_context is not None and "run_id" in commit.run_context:
        return uuid5(_RUNS, f"{commit.tenant}/{commit.run_context['run_id']}")
    return uuid5(_DRAFTS, f"{commit.tenant}/{_draft_name(commit)}")


# -- the parts of an event


@attr.define
class CommitRunFacet(RunFacet):
    """`run_id` is as the writer named it, or names the draft."""

    run_id: str
    named: bool
    actor: str
    operation: str
    commit_id: str
    lamport: int
    record_hash: str
    policy_version: str
    tool: str
    job_id: str | None = None
    dataset_id: str | None = None
    reason: str | None = None


@attr.define
class EntityDatasetFacet(DatasetFacet):
    entity: dict[str, str]
    entity_type: str
    content_hash: str


_ROW = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=1, producer=PRODUCER)
_ENGINE = processing_engine_run.ProcessingEngineRunFacet(version=__version__, name="tallystick", producer=PRODUCER)


def _event(commit: Commit, kind: str, state: RunState) -> Event:
    context = commit.run_context or {}
    namespace = f"tallystick/{commit.tenant}"
    event = RunEvent(
        eventType=state,
        eventTime=commit.timestamp,
        producer=PRODUCER,
        run=Run(str(run_of(commit)), facets={"tallystick_commit": _commit_facet(commit), "processing_engine": _ENGINE}),
        job=Job(namespace, context.get("job_id") or commit.operation.value, facets={"jobType": _job_type(commit.tool)}),
        inputs=[],
        outputs=[] if state is RunState.START else [_output(commit, kind, namespace)],
    )
    return attr.asdict(event, filter=_is_said, value_serializer=_plain)


def _is_said(field: Any, value: Any) -> bool:
    return value is not None


def _plain(holder: Any, field: Any, value: Any) -> Any:
    return value.value if isinstance(value, RunState) else value


def _output(commit: Commit, kind: str, namespace: str) -> OutputDataset:
    version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=commit.commit_id, producer=PRODUCER)
    entity = EntityDatasetFacet(
        entity=_subject(commit), entity_type=kind, content_hash=commit.content_hash, producer=PRODUCER
    )
    return OutputDataset(
        namespace,
        (commit.run_context or {}).get("dataset_id") or kind,
        facets={"version": version, "tallystick_entity": entity},
        outputFacets={"outputStatistics": _ROW} if commit.operation in _UPSERTS else {},
    )


def _commit_facet(commit: Commit) -> CommitRunFacet:
    context = commit.run_context or {}
    return CommitRunFacet(
        run_id=context.get("run_id") or _draft_name(commit),
        named=is_in_named_run(commit),
        actor=commit.actor,
        operation=commit.operation.value,
        commit_id=commit.commit_id,
        lamport=commit.lamport,
        record_hash=commit.record_hash,
        policy_version=commit.policy_version,
        tool=commit.tool,
        job_id=context.get("job_id"),
        dataset_id=context.get("dataset_id"),
        reason=commit.reason,
        producer=PRODUCER,
    )


@lru_cache(maxsize=256)
def _job_type(tool: str) -> job_type_job.JobTypeJobFacet:
    return job_type_job.JobTypeJobFacet(
        processingType="BATCH", integration="TALLYSTICK", jobType=tool, producer=PRODUCER
    )


def _draft_name(commit: Commit) -> str:
    return f"{commit.actor}@{commit.draft_lamports.start}"


def _subject(commit: Commit) -> dict[str, str]:
    """What names the entity."""
    said = commit.document()
    if commit.operation in EDGE_VERBS:
        return {name: said[name] for name in ("from", "rel", "to", "id") if name in said}
    return {"id": said["id"] if commit.operation is Verb.UPSERT_NODE else said["node_id"]}

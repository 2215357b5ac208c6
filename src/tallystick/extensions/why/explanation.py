"""Why a line or a file is as it is: from git to the task, its evidence, and what was read for it.

A line leads by `git blame` to its commit, the commit to the tasks whose evidence names it, a task to what the agents
read while they had it claimed (the audit log says that, and nothing is recorded a second time), and what was read to
its authors and sources. Where a link is not known the chain says so, in `gaps`.
"""

from __future__ import annotations

import asyncio
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tallystick.app.guards import audit_files
from tallystick.app.logs import checkpoint_keys
from tallystick.app.proving import proofs
from tallystick.app.vocabularies import knowledge_context
from tallystick.audit.reads import AuditRead, AuditReads, Span, find_reads
from tallystick.commits import REDACTIONS, Verb, reserved_attributes
from tallystick.commits.signed_note import SignerKey, VerifierKey
from tallystick.config import Settings
from tallystick.engine.store import Store
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound
from tallystick.extensions.why.git_history import Blamed, GitCommit, GitHistory, Touching
from tallystick.log import checkpoint_path
from tallystick.policy import Action, Principal
from tallystick.state import Lineage, Provenance
from tallystick.state.attributes import find_text, list_of, object_of
from tallystick.state.knowledge.catalogue import Knowledge, in_order
from tallystick.state.knowledge.globs import segments_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.state.work import CLAIMED_AT, CLAIMED_BY, NODE, PROJECT
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.knowledge.freshness import Repository

TOOL = "memory.why"
GIT = "git"
TASKS_MAX = 10
FACTS_MAX = 40
_EVIDENCE_MAX = 20
_SOURCES_MAX = 8
_NODES_MAX = 50_000
_STEPS_MAX = 500
_TEXT_MAX = 200
_AT_ONCE = 200
"""A look at the state may take a second: so many documents are a small part of that."""
_COMMIT = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{7,64}(?![0-9A-Za-z])")
_NAMES = ("name", "title", "summary")


P = TypeVar("P")
T = TypeVar("T")
Find = Callable[[State, ReadFilter, Sequence[P]], list[T]]


class WhyContext(msgspec.Struct, frozen=True):
    repository: Repository
    base: Path
    home: Callable[[str], Path]
    """Where the memory of a tenant lies."""
    audit: Callable[[str], Path]
    """Where its audit log lies."""
    keys: Callable[[str], tuple[VerifierKey, ...]]
    """Those that its checkpoints are signed with, as far as they are known."""


def why_context(
    settings: Settings,
    repository: Repository | None = None,
    signers: Callable[[str], tuple[SignerKey, ...]] | None = None,
) -> WhyContext:
    """`signers`: the keys of each tenant, where they were read already."""

    def of(tenant: str) -> Settings:
        return msgspec.structs.replace(settings, tenant=tenant)

    def keys(tenant: str) -> tuple[VerifierKey, ...]:
        # Whoever asks need not be who may sign.
        with suppress(InvalidArgument):
            found = checkpoint_keys(of(tenant)) if signers is None else signers(tenant)
            return tuple(key.verifier for key in found)
        return ()

    return WhyContext(
        repository=repository or knowledge_context(settings).repository,
        base=settings.base,
        home=lambda tenant: of(tenant).home,
        keys=keys,
        audit=lambda tenant: audit_files(of(tenant)).directory,
    )


class Source(msgspec.Struct, frozen=True):
    how: str
    """cites, supersedes, written for, or the relation of an edge."""
    what: str


class Fact(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A fact or a piece of knowledge, in the version that counts here."""

    id: str
    type: str
    name: str = ""
    by: str
    at: str
    commit_id: str
    position: int
    reason: str = ""
    sources: tuple[Source, ...] = ()
    is_changed: bool = False
    """Whether it was written again since."""
    untrusted: dict[str, Any] | None = None
    stale: dict[str, Any] | None = None


class ReadFact(msgspec.Struct, frozen=True, omit_defaults=True):
    fact: Fact
    by: str
    at: str
    audit_position: int
    tool: str | None = None


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    ref: str
    agent: str = ""
    at: str = ""


class TaskReceipt(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a receipt of the task would show to others now: `tallystick receipt` writes it."""

    origin: str
    index: int
    """Of its log entry, counted from 0."""
    size: int
    """Commits in the log that was signed."""
    record_hash: str
    verifies: bool
    problem: str = ""


class Task(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    summary: str
    project: str
    is_resolved: bool
    commits: tuple[str, ...] = ()
    """Those of the line or file that its evidence names."""
    evidence: tuple[Evidence, ...] = ()
    """The newest, and those that lead here."""
    receipt: TaskReceipt | None = None
    """Of one that is done, where the log is signed."""
    claims: tuple[Span, ...] = ()
    reads: tuple[ReadFact, ...] = ()
    gaps: tuple[str, ...] = ()


class Why(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    file: str
    line: int | None = None
    commit: GitCommit | None = None
    tasks: tuple[Task, ...] = ()
    knowledge: tuple[Fact, ...] = ()
    """Of the file: what is known of it, and what cites it. Not looked for when a line is asked about."""
    gaps: tuple[str, ...] = ()


async def explain(context: WhyContext, store: Store, principal: Principal, file: str, line: int | None = None) -> Why:
    """Raises NotFound for a file, line or repository that is not there, InvalidArgument for what is no line of a
    file in the repository, LimitExceeded where git takes too long."""
    # Who may not search learns nothing of the repository either.
    await store.read(principal, Action.SEARCH, lambda state, _: state.position)
    path, blamed, touching = await asyncio.to_thread(_ask_git, context, file, line)
    gaps = list(_git_gaps(blamed, touching))
    commits = _commits(blamed, touching)
    sought = _Sought(tuple(sorted(commits)), None if line is not None else path)
    ask = _Asking(store, principal)
    ids = await ask.look(lambda state, _: _candidates(state.derived(WorkGraph), sought))
    found, is_cut = await ask.in_parts(partial(_find_tasks, sought), ids[:_NODES_MAX], TASKS_MAX)
    if is_cut or len(ids) > _NODES_MAX:
        gaps.append("older tasks may name it, too: the newest are shown")
    if commits and not found:
        gaps.append("no task has evidence that names its commit" + ("" if line is not None else "s, or the file"))
    await store.flush_audit()
    tasks = [await _with_reads(context.audit(principal.tenant), ask, task) for task in found]
    if checkpoint_path(context.home(principal.tenant)).exists():
        tasks = [await _with_receipt(context, ask, task) for task in tasks]
    knowledge = await _knowledge(ask, path) if line is None else ()
    shown = path.encode(errors="replace").decode()
    commit = blamed.commit if blamed is not None else None
    return Why(file=shown, line=line, commit=commit, tasks=tuple(tasks), knowledge=knowledge, gaps=tuple(gaps))


async def explain_task(context: WhyContext, store: Store, principal: Principal, node_id: str) -> Task | None:
    """The same chain from a task on: its evidence, its receipt, and what was read while it was claimed."""
    ask = _Asking(store, principal)
    task = await ask.look(lambda state, read_filter: _task(None, state, read_filter, node_id))
    if task is None:
        return None
    await store.flush_audit()
    task = await _with_reads(context.audit(principal.tenant), ask, task)
    is_signed = checkpoint_path(context.home(principal.tenant)).exists()
    return await _with_receipt(context, ask, task) if is_signed else task


class _Asking(msgspec.Struct, frozen=True):
    """As the principal, under the policy."""

    store: Store
    principal: Principal

    async def look(self, look: Callable[[State, ReadFilter], T]) -> T:
        def prepared(state: State, read_filter: ReadFilter) -> T:
            # Not in a look that pauses: after a start this reads all there is.
            for derived in (WorkGraph, Knowledge, Trust):
                state.derived(derived)
            return look(state, read_filter)

        return await self.store.read(self.principal, Action.SEARCH, prepared)

    async def in_parts(self, find: Find[P, T], items: Sequence[P], most: int) -> tuple[list[T], bool]:
        """The first `most` that are found of the items, and whether there are more."""
        found: list[T] = []
        for start in range(0, len(items), _AT_ONCE):
            if len(found) > most:
                break
            part = items[start : start + _AT_ONCE]
            found += await self.look(lambda state, read_filter, part=part: find(state, read_filter, part))  # type: ignore[misc]  # a default binds it
        return found[:most], len(found) > most


# -- git


def _ask_git(context: WhyContext, file: str, line: int | None) -> tuple[str, Blamed | None, Touching | None]:
    history = GitHistory(context.repository, base=context.base)
    path = history.path_of(file)
    if line is None:
        return path, None, history.touching(path)
    return path, history.blame(path, line), None


def _git_gaps(blamed: Blamed | None, touching: Touching | None) -> Iterator[str]:
    if blamed is not None:
        if blamed.commit is None:
            yield "the line is not committed"
        if blamed.is_cut:
            yield "the clone is shallow and ends at this commit: an older one may have written the line"
    if touching is not None:
        if not touching.commits:
            yield "no commit has the file"
        if touching.is_cut:
            yield "older commits of the file were not looked at, or are not in this clone"


def _commits(blamed: Blamed | None, touching: Touching | None) -> Sequence[str]:
    if blamed is not None:
        return [] if blamed.commit is None else [blamed.commit.id]
    return [] if touching is None else touching.commits


# -- tasks


class _Sought(msgspec.Struct, frozen=True):
    commits: tuple[str, ...]
    """In order."""
    path: str | None

    def named_by(self, entry: Any) -> tuple[bool, set[str]]:
        """Whether this piece of evidence leads here, and by which commits."""
        ref = find_text(entry, "ref") if isinstance(entry, dict) else None
        if ref is None:
            return False, set()
        if entry.get("type") == GIT:
            words = _COMMIT.findall(ref)
            commits = {commit for word in words if (commit := self._find(word.lower())) is not None}
            return bool(commits), commits
        return self.path is not None and _names(ref, self.path), set()

    def _find(self, prefix: str) -> str | None:
        place = bisect_left(self.commits, prefix)
        found = self.commits[place] if place < len(self.commits) else ""
        return found if found.startswith(prefix) else None


def _names(ref: str, path: str) -> bool:
    """Whether the text has the path as a word of its own, perhaps with a line behind it."""
    if path not in ref:
        return False
    return re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w/-]|\.\w)", ref) is not None


def _candidates(graph: WorkGraph, sought: _Sought) -> list[str]:
    """Work nodes with evidence of a kind that may lead here, newest first; others need not be read."""
    if not sought.commits and sought.path is None:
        return []
    kinds = [GIT] if sought.path is None else list(graph.kinds)
    numbers = sorted({number for kind in kinds for number in graph.kinds.get(kind, ())}, reverse=True)
    return [graph.by_number[number].id for number in numbers if number in graph.by_number]


def _find_tasks(sought: _Sought, state: State, read_filter: ReadFilter, ids: Sequence[str]) -> list[Task]:
    return [task for each in ids if (task := _task(sought, state, read_filter, each)) is not None]


def _task(sought: _Sought | None, state: State, read_filter: ReadFilter, node_id: str) -> Task | None:
    try:
        node = state.node(node_id)
    except Corrupt:
        return None
    if node is None:
        return None
    entries = list_of(node.attrs, "evidence")
    leading = [(True, set()) if sought is None else sought.named_by(entry) for entry in entries]
    if not read_filter.allows(node_id) or not (sought is None or any(leads for leads, _ in leading)):
        return None
    kept = [
        _evidence(entry)
        for place, (entry, (leads, _)) in enumerate(zip(entries, leading, strict=True))
        if isinstance(entry, dict) and (leads or place >= len(entries) - _EVIDENCE_MAX)
    ]
    project = find_text(node.attrs, "project") or ""
    board = state.derived(WorkGraph).boards.get(project)
    return Task(
        id=node_id,
        summary=_clip(find_text(node.attrs, "summary")),
        project=board.name if board is not None and board.name and read_filter.allows(project) else "",
        is_resolved=node.attrs.get("resolved") is True,
        commits=tuple(sorted({commit for _, commits in leading for commit in commits}))[:_EVIDENCE_MAX],
        evidence=tuple(kept[-2 * _EVIDENCE_MAX :]),
    )


def _evidence(entry: dict[str, Any]) -> Evidence:
    agent, at = find_text(entry, "agent"), find_text(entry, "timestamp")
    return Evidence(_clip(find_text(entry, "type")), _clip(find_text(entry, "ref")), _clip(agent), _clip(at))


def _claims(node_id: str, state: State, read_filter: ReadFilter) -> tuple[tuple[Span, ...], tuple[str, ...]]:
    """Who had it when: from the claim to whatever ended it first, release, another claim, or the end of the task."""
    try:
        found = state.lineage(node_id, "direct", 0, _STEPS_MAX, read_filter)
        node = state.node(node_id)
    except Corrupt:
        found = node = None
    if found is None:
        return (), ("its history cannot be read",)
    gaps = [f"only the first {_STEPS_MAX} changes of the task were looked at"] if found.total > _STEPS_MAX else []
    spans = tuple(_spans(found))
    if not spans:
        gaps.append("nobody had claimed it: what was read for it is not known")
    elif node is not None and list_of(node.attrs, "context_links"):
        gaps.append("what is known of its context links came with the task: the audit log does not name it")
    return spans, tuple(gaps)


def _spans(found: Lineage) -> Iterator[Span]:
    owner, since = None, ""
    for step in found.steps:
        commit = step.commit
        if commit.operation in REDACTIONS:
            continue
        attrs = object_of(commit.document(), "attrs") if commit.operation is Verb.UPSERT_NODE else {}
        properties = object_of(attrs, "properties")
        claimed = find_text(properties, CLAIMED_BY) if find_text(properties, CLAIMED_AT) else None
        now = None if attrs.get("resolved") is True else claimed
        if now == owner:
            continue
        if owner is not None:
            yield Span(owner, since, commit.timestamp)
        owner, since = now, commit.timestamp
    if owner is not None:
        yield Span(owner, since)


# -- what was read for it


async def _with_reads(audit: Path, ask: _Asking, task: Task) -> Task:
    claims, unclear = await ask.look(partial(_claims, task.id))
    found = await asyncio.to_thread(find_reads, audit, claims, except_by=TOOL)
    reads, is_cut = await ask.in_parts(_find_reads, found.reads, FACTS_MAX)
    gaps = [*unclear, *_audit_gaps(found)]
    if is_cut:
        gaps.append("more was read: the first is shown")
    if claims and not reads:
        gaps.append("the audit log names no fact that was read while the task was claimed")
    return msgspec.structs.replace(task, claims=claims, reads=tuple(reads), gaps=tuple(gaps))


def _audit_gaps(found: AuditReads) -> Iterator[str]:
    yield from found.gaps
    if found.searches:
        yield "things were looked up by search, too: the audit log does not say what was found"


def _find_reads(state: State, read_filter: ReadFilter, reads: Sequence[AuditRead]) -> list[ReadFact]:
    facts = ((read, _fact(state, read_filter, read.resource, read.at)) for read in reads)
    return [ReadFact(fact, read.actor, read.at, read.seq, read.tool) for read, fact in facts if fact is not None]


# -- who wrote that, and from what


def _fact(state: State, read_filter: ReadFilter, entity_id: str, at: str | None = None) -> Fact | None:
    """As it was when it was read. None for what may not be read, is no entity, or is work itself."""
    owner = state.last_owner(entity_id)
    if owner is None:
        return _edge_fact(state, read_filter, entity_id, at)
    if owner[0] in (NODE, PROJECT) or not read_filter.allows(entity_id):
        return None
    try:
        node = state.node(entity_id, None if at is None else state.moment(at))
        now = state.node(entity_id)
        if node is None:
            return None
        sources = (*_said_sources(read_filter, node.attrs), *_edge_sources(state, read_filter, entity_id, at))
        name = next((text for each in _NAMES if (text := find_text(node.attrs, each))), None)
        is_changed = now is None or now.provenance.commit_id != node.provenance.commit_id
        return _made(state, read_filter, entity_id, node.type, name, node.provenance, sources, is_changed=is_changed)
    except Corrupt:
        return None


def _edge_fact(state: State, read_filter: ReadFilter, edge_id: str, at: str | None) -> Fact | None:
    name = state.edge_name(edge_id)
    if name is None or not read_filter.allows_all((name["from"], name["to"])):
        return None
    try:
        provenance = state.edge_provenance(edge_id, None if at is None else state.moment(at))
        now = state.edge_provenance(edge_id)
    except Corrupt:
        return None
    if provenance is None:
        return None
    is_changed = now is None or now.commit_id != provenance.commit_id
    sources = (Source("from", name["from"]), Source("to", name["to"]))
    return _made(state, read_filter, edge_id, name["rel"], None, provenance, sources, is_changed=is_changed)


def _made(
    state: State,
    read_filter: ReadFilter,
    entity_id: str,
    kind: str,
    name: str | None,
    provenance: Provenance,
    sources: tuple[Source, ...],
    *,
    is_changed: bool,
) -> Fact:
    commit = state.commit(state.resolve(provenance.lamport))
    job = (commit.run_context or {}).get("job_id")
    if isinstance(job, str) and state.knows(job) and read_filter.allows(job):
        sources = (Source("written for", job), *sources)
    warned = read_filter.warned(entity_id, {})
    return Fact(
        id=entity_id,
        type=kind,
        name=_clip(name),
        by=provenance.updated_by,
        at=provenance.timestamp,
        commit_id=provenance.commit_id,
        position=provenance.lamport,
        reason=_clip(commit.reason),
        sources=sources[:_SOURCES_MAX],
        is_changed=is_changed,
        untrusted=warned.get("untrusted"),
        stale=warned.get("stale"),
    )


def _said_sources(read_filter: ReadFilter, attrs: dict[str, Any]) -> Iterator[Source]:
    for path in reserved_attributes.cited_paths(attrs)[:_SOURCES_MAX]:
        yield Source(reserved_attributes.CITES, _clip(path))
    for entity_id in list_of(attrs, reserved_attributes.SUPERSEDES)[:_SOURCES_MAX]:
        if isinstance(entity_id, str) and read_filter.allows_reference(entity_id):
            yield Source(reserved_attributes.SUPERSEDES, entity_id)


def _edge_sources(state: State, read_filter: ReadFilter, entity_id: str, at: str | None) -> Iterator[Source]:
    moment = None if at is None else state.moment(at)
    for edge in state.edges(entity_id, "out", at=moment, limit=_SOURCES_MAX, read_filter=read_filter):
        yield Source(edge.rel, edge.target)


# -- its receipt


async def _with_receipt(context: WhyContext, ask: _Asking, task: Task) -> Task:
    if not task.is_resolved:
        return task
    tenant = ask.principal.tenant
    try:
        made = await proofs().prove(ask.store, ask.principal, context.home(tenant), task.id)
    except (NotFound, Conflict) as error:
        return msgspec.structs.replace(task, gaps=(*task.gaps, f"there is no receipt of it: {error.message}"))
    except Corrupt as error:
        return msgspec.structs.replace(task, gaps=(*task.gaps, f"a receipt of it would not hold: {error.message}"))
    problem = _problem(made.proof, context.keys(tenant))
    receipt = TaskReceipt(
        origin=made.origin,
        index=made.index,
        size=made.size,
        record_hash=made.record_hash,
        verifies=not problem,
        problem=problem,
    )
    return msgspec.structs.replace(task, receipt=receipt)


def _problem(proof: bytes, keys: tuple[VerifierKey, ...]) -> str:
    if not keys:
        return "no key is configured here to check the signature of the log with"
    return proofs().problem_of(proof, keys)


# -- what is known of a file


async def _knowledge(ask: _Asking, path: str) -> tuple[Fact, ...]:
    def citing(state: State, read_filter: ReadFilter, ids: Sequence[str]) -> list[Fact]:
        return _facts(state, read_filter, [each for each in ids if _cites(state, each, path)])

    atoms = await ask.look(lambda state, _: _atoms(state.derived(Knowledge), path))
    known, _ = await ask.in_parts(_facts, atoms, FACTS_MAX)
    ids = await ask.look(lambda state, _: state.having(reserved_attributes.CITES))
    cited, _ = await ask.in_parts(citing, ids, FACTS_MAX - len(known))
    return (*known, *cited)


def _facts(state: State, read_filter: ReadFilter, ids: Sequence[str]) -> list[Fact]:
    return [fact for each in ids if (fact := _fact(state, read_filter, each)) is not None]


def _atoms(knowledge: Knowledge, path: str) -> list[str]:
    segments = segments_of(path)
    if not segments:
        return []
    projects = dict.fromkeys(atom.project for atom in knowledge.atoms.values() if atom.project is not None)
    ids = {atom_id for project in projects for atom_id in knowledge.of_project(project).globs.match(segments)}
    return [atom.id for atom in in_order(knowledge.atoms[each] for each in ids)]


def _cites(state: State, entity_id: str, path: str) -> bool:
    try:
        node = state.node(entity_id)
    except Corrupt:
        return False
    return node is not None and path in map(os.path.normpath, reserved_attributes.cited_paths(node.attrs))


def _clip(text: str | None) -> str:
    said = text or ""
    return said if len(said) <= _TEXT_MAX else said[: _TEXT_MAX - 1] + "…"

"""The gate: decide, then route to the partition of the principal's tenant.

The only way in, for every protocol and the command line. Denied means: nothing read, nothing appended, the
reason given.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Generator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NoReturn, Protocol

import msgspec
from typing_extensions import TypeVar

from tallystick.clock import to_text
from tallystick.commits import DELETIONS, REDACTIONS, Commit, Draft, Verb
from tallystick.commits.payloads import name_of_edge
from tallystick.engine.partition import Partition, Proposal, Proposed, Receipt, proposal_of
from tallystick.engine.tenants import Tenants
from tallystick.errors import Conflict, Denied, InvalidArgument, NotFound, TallystickError
from tallystick.log import Entry
from tallystick.policy import Action, Decision, Policy, Principal, ResourceFacts
from tallystick.policy.cache import Cache
from tallystick.policy.gate import NO_FACTS, Authorization, DecisionPending, Gate, Question
from tallystick.state.ontology import check
from tallystick.state.read_filter import MayRead, ReadFilter
from tallystick.state.secret_scan import TextScreen
from tallystick.state.staleness import Citation, FilesPending, Pins, Stale, Watched, settle
from tallystick.state.state import State

logger = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A", default=Any)
_WATCH_SECONDS = 0.1
_ERASING = DELETIONS | REDACTIONS
_FILE_LOOKS_MAX = 3


Look = Callable[[State, ReadFilter], T | Generator[None, None, T]]
"""Answers from the state what the filter lets it; a generator pauses for others. May be called several times."""
Propose = Callable[[State, ReadFilter], Proposed[A] | Generator[None, None, Proposed[A]]]
"""Judge a write at the head, as `partition.Propose`, with the filter of the caller. Called several times, so it has no
side effects."""


class CitedFiles(Protocol):
    """What became of the files that facts cite."""

    def changed(self, watched: Watched) -> tuple[str, ...] | None:
        """Which of them are not as they were; None where that has to be looked up first. Quick."""
        ...

    async def look_up(self, wanted: Sequence[Watched]) -> Mapping[Watched, tuple[str, ...]]:
        """The same, in bounded time; what could not be found out counts as unchanged."""
        ...

    def relative(self, path: str) -> str:
        """Return an absolute path below the repository's root relative to it, any other unchanged."""
        ...

    async def pin(self, wanted: Mapping[str, Citation | None]) -> Pins:
        """These files as they are now: path → the pin that it has, which is left alone if it is another
        repository's."""
        ...


class Target(msgspec.Struct, frozen=True):
    """One operation of a call: what it does, and to what."""

    action: Action
    resource: str | None = None
    written_type: str | None = None
    """That of the resource, where it is known before the draft."""
    blindly: bool = False
    """A call shows something of its resource, if only by its refusals, so it must be allowed to READ that too;
    this is one that shows nothing."""
    place: str | None = None
    """To be named in refusals."""
    is_edge: bool = False
    """Whether the resource is that of an edge: a node may be called like it."""


class Store:
    def __init__(
        self,
        open_partition: Callable[[str], Awaitable[Partition]] | Tenants,
        policy: Policy | Gate,
        written: Callable[[Principal, Receipt], Awaitable[None]] | None = None,
        erase: Callable[[str, Receipt], Awaitable[Sequence[str]]] | None = None,
        files: CitedFiles | None = None,
        noticed: Callable[[Principal, Mapping[str, Stale]], Awaitable[None]] | None = None,
        elsewhere: Callable[[Principal], str | None] | None = None,
        screen_text: TextScreen | None = None,
    ) -> None:
        """`written` is called with what was written, by whatever tool, before its caller is answered: it must be
        quick where it has nothing to do, and not raise. `erase` removes the copies of what was redacted or deleted for
        a tenant, and says which are left: a redaction is not answered before. `noticed` is called with what a read
        was warned of as stale; it must not raise. `elsewhere` names the other machine that the principal's
        session began on: it may have written there what this one has not heard of, and may go back to it.
        `screen_text` looks for secrets in texts that are stored beside the log; drafts have a screen of their own."""
        self.tenants = open_partition if isinstance(open_partition, Tenants) else Tenants(open_partition)
        self._gate = policy if isinstance(policy, Gate) else Gate(policy, cache=Cache(seconds=0))
        self._written = written
        self._erase = erase
        self._files = files
        self._noticed = noticed
        self._elsewhere = elsewhere
        self._screen_text = screen_text

    def screened(self, text: str, place: str, *, may_mask: bool = True) -> str:
        """The text to store beside the log: masked, or refused, if it holds a secret. Raises InvalidArgument."""
        return text if self._screen_text is None else self._screen_text(text, place, may_mask)

    def relative_path(self, path: str) -> str:
        """Return an absolute path below the repository's root relative to it, any other unchanged."""
        return path if self._files is None else self._files.relative(path)

    async def read(
        self,
        principal: Principal,
        action: Action,
        look: Look[T],
        *,
        resource: str | None = None,
        min_position: int | None = None,
        is_entity: bool = True,
        written_type: str | None = None,
    ) -> T:
        """Catch up with the log, ask the policy, then `look` at the state, as far as the principal may READ it.

        An id that only another tenant has is asked about as that tenant's (L34). `is_entity` is False for a
        resource that is no id in anybody's log. Raises Denied, and LimitExceeded(QUERY_TIMEOUT) when
        deciding on all that the look reads takes too long.
        """
        authorization = Authorization(self._gate, principal, action, resource, written_type)
        with await self.tenants.using(principal.tenant) as partition:
            if self._elsewhere is not None and self._elsewhere(principal) is not None:
                await partition.confirm_or_date()
            may_be_foreign = is_entity and self.tenants.have_neighbours
            foreign = await self._foreign(partition, principal, action, resource) if may_be_foreign else None
            reading = _Reading(
                authorization, partition, principal, Target(action, resource), foreign, look, min_position, self._files
            )
            answer = await authorization.through(reading.attempt)
        read_filter = reading.read_filter
        if self._noticed is not None and read_filter is not None and read_filter.stale_told:
            await self._noticed(principal, read_filter.stale_told)
        return answer

    async def confirm(self, principal: Principal) -> None:
        """What the principal reads next has all that was acknowledged before, on whatever machine.

        Costs nothing where there is one; else a question to the others. Raises StorageRefused where there is no answer.
        """
        with await self.tenants.using(principal.tenant) as partition:
            await partition.confirm()

    def write(
        self,
        principal: Principal,
        action: Action,
        propose: Propose[A],
        *,
        resource: str | None = None,
        written_type: str | None = None,
        blindly: bool = False,
        restoring: bool = False,
    ) -> Coroutine[Any, Any, Receipt[A]]:
        """As `write_all`, for a call that does one thing: its arguments are those of a `Target`."""
        return self.write_all(
            principal, propose, [Target(action, resource, written_type, blindly)], restoring=restoring
        )

    async def write_all(
        self, principal: Principal, propose: Propose[A], targets: Sequence[Target], *, restoring: bool = False
    ) -> Receipt[A]:
        """Commit the draft that `propose` makes at the head, if the policy allows it there.

        The policy is asked about each of the targets, and about everything else that the draft changes; one denial
        refuses it whole. `restoring` writes an earlier version again as it was: who verified it, and when, stays.
        """
        first = targets[0]
        authorization = Authorization(self._gate, principal, first.action, first.resource, first.written_type)
        elsewhere = None if self._elsewhere is None else self._elsewhere(principal)
        with await self.tenants.using(principal.tenant) as partition:
            foreigners = [await self._foreign(partition, principal, each.action, each.resource) for each in targets]
            writing = _Writing(
                authorization, partition, principal, targets, foreigners, propose, self._files, restoring
            )
            attempt = writing.attempt if elsewhere is None else writing.attempt_at_head
            receipt = await authorization.through(attempt, writing.facts)
            if elsewhere is not None and receipt.commits:
                await partition.await_copy(elsewhere, receipt.commits[-1].lamport)
        return await self._follow_up(principal, receipt) if receipt.commits else receipt

    async def _follow_up(self, principal: Principal, receipt: Receipt[A]) -> Receipt[A]:
        """Do what follows a commit. Does not raise: a durable write is answered as a success (X27)."""
        try:
            if self._written is not None:
                await self._written(principal, receipt)
        except Exception:
            logger.exception("what follows a write of %s failed", principal.tenant)
        if self._erase is None or all(commit.operation not in _ERASING for commit in receipt.commits):
            return receipt
        try:
            pending = await self._erase(principal.tenant, receipt)
        except Exception:
            logger.exception("copies of what was erased for %s may be left", principal.tenant)
            pending = ["projections"]
        return msgspec.structs.replace(receipt, erasure_pending=(*receipt.erasure_pending, *pending))

    async def commits(
        self, principal: Principal, *, after: int = 0, newest_first: bool = False
    ) -> AsyncGenerator[Entry]:
        """The log behind a position, up to now, as far as the principal may READ what each commit is about.

        An edge is read with both its ends. A policy that withholds nothing is asked once.
        """
        with await self.tenants.using(principal.tenant) as partition:
            _, narrows = await self._readable(principal, [])
            async for entries in partition.entries(after, newest_first=newest_first):
                for entry in (await self._readable(principal, entries))[0] if narrows else entries:
                    yield entry

    async def watch(self, principal: Principal, *, after: int | None = None) -> AsyncGenerator[Entry]:
        """The commits behind a position, by default those from now on, as they arrive from any process; without end.

        The policy is asked about all that arrives together: what it says may change meanwhile.
        """
        with await self.tenants.using(principal.tenant) as partition:
            position = partition.position if after is None else after
            await self._readable(principal, [])
            while True:
                if partition.position > position:
                    async for entries in partition.entries(position):
                        for entry in (await self._readable(principal, entries))[0]:
                            yield entry
                        position = entries[-1].commit.lamport
                await asyncio.sleep(_WATCH_SECONDS)

    async def ask(
        self, principal: Principal, action: Action, resource: str, *, also: Sequence[tuple[Action, str]] = ()
    ) -> None:
        """Ask the policy about something that is in nobody's log; and, if it wants to be asked, about all that goes
        with it. Raises Denied, naming only what may be read, and LimitExceeded."""
        authorization = Authorization(self._gate, principal, action, resource)

        async def attempt() -> None:
            if authorization.decide(NO_FACTS).narrows:
                authorization.decide_all([(each, name, NO_FACTS, None) for each, name in also])

        with await self.tenants.using(principal.tenant):
            await authorization.through(attempt)

    async def withholds(self, principal: Principal) -> bool:
        """Whether the policy may withhold entities from the principal. Raises Denied if it may not SEARCH."""

        def look(state: State, read_filter: ReadFilter) -> bool:
            return read_filter.narrows

        return await self.read(principal, Action.SEARCH, look)

    async def allowed(self, principal: Principal, targets: Sequence[Target]) -> list[bool]:
        """Of each, whether it could be done now: the first goes for all where its answer narrows nothing, so they
        should be alike. Nothing is done, so nothing but the look is written down: what was never tried is no denial.
        Raises Denied for who may look at nothing."""
        authorization = Authorization(self._gate, principal, Action.SEARCH)

        def decided(state: State) -> list[bool]:
            authorization.decide(NO_FACTS)
            facts = (_facts(state, each, principal) for each in targets)
            questions = list(map(_question, targets, facts))
            if all(each.allowed and not each.narrows for each in authorization.decisions(questions[:1])):
                return [True for _ in targets]
            return [each.allowed for each in authorization.decisions(questions)]

        with await self.tenants.using(principal.tenant) as partition:
            return await authorization.through(lambda: partition.look(decided))

    async def refuse_actor(self, principal: Principal, action: Action, resource: str | None, actor: str) -> NoReturn:
        """Deny a call that says that somebody else makes it: written down like any other denial (L11)."""
        reason = f"actor '{principal.actor}' cannot write as '{actor}'"
        await self._gate.refuse_actor(principal, action, resource, reason)
        raise Denied(reason, hint="leave out 'actor': it is taken from the access token", details={"status": 403})

    async def partition(self, principal: Principal) -> Partition:
        """For work on a partition as a whole, which no policy decides on: snapshots, following the log.

        It may be closed once it was idle for long enough; `tenants.using` keeps it open.
        """
        with await self.tenants.using(principal.tenant) as partition:
            return partition

    def position(self, principal: Principal) -> int:
        """Where the log of the principal's tenant stands; 0 while it is not open."""
        partition = self.tenants.find(principal.tenant)
        return 0 if partition is None else partition.position

    def waiting(self, principal: Principal) -> int:
        """How many drafts of the principal's tenant wait to be appended."""
        partition = self.tenants.find(principal.tenant)
        return 0 if partition is None else partition.waiting

    async def flush_audit(self) -> None:
        """For who reads the audit log next: what was decided here so far is in it."""
        await self._gate.flush_audit()

    async def close(self) -> None:
        await self.tenants.close()

    # -- below

    async def _readable(self, principal: Principal, entries: Sequence[Entry]) -> tuple[list[Entry], bool]:
        """With whether anything may be withheld."""

        def look(state: State, read_filter: ReadFilter) -> tuple[list[Entry], bool]:
            return [each for each in entries if may_read(read_filter, each.commit)], read_filter.narrows

        return await self.read(principal, Action.SEARCH, look)

    async def _foreign(
        self, partition: Partition, principal: Principal, action: Action, resource: str | None
    ) -> ResourceFacts | None:
        """Of an id that is not in the principal's log: whose it is. Nothing more is said of it, not even its owner.

        Not for WRITE: an id that others use too is free to be used here.
        """
        if resource is None or action is Action.WRITE or not self.tenants.have_neighbours:
            return None
        if partition.knows(resource) or await partition.look(lambda state: state.knows(resource)):
            return None
        tenant = await self.tenants.find_owner(resource, other_than=principal.tenant)
        return None if tenant is None else ResourceFacts(tenant=tenant)


class _Reading(msgspec.Struct, Generic[T], eq=False):
    """One call that reads: its look, repeated until all that it wants to know is decided and looked up."""

    _authorization: Authorization
    _partition: Partition
    _principal: Principal
    _target: Target
    _foreign: ResourceFacts | None
    _look: Look[T]
    _min_position: int | None
    _files: CitedFiles | None
    _looked_up: Mapping[Watched, tuple[str, ...]] = {}
    read_filter: ReadFilter | None = None
    """Of the last look."""

    async def attempt(self) -> T:
        file_looks = 0
        while True:
            self.read_filter = None
            try:
                answer = await self._partition.look(self._decided, min_position=self._min_position)
            except TallystickError:
                _raise_pending(self._authorization, self.read_filter)
                raise
            _raise_pending(self._authorization, self.read_filter)
            if self._files is None or file_looks == _FILE_LOOKS_MAX:
                return answer
            pending = _pending_files(self.read_filter)
            if not pending:
                return answer
            # Files take a while: they are looked at in between, and the look is repeated.
            self._looked_up = {**self._looked_up, **await self._files.look_up(list(pending))}
            file_looks += 1

    def _decided(self, state: State) -> T | Generator[None, None, T]:
        found = _decide(self._authorization, state, self._foreign, self._principal, self._target, self._make_filter)
        self.read_filter = found.read_filter
        return self._look(state, found.read_filter)

    def _make_filter(self, state: State, may_read: MayRead | None = None) -> ReadFilter:
        # Not a method of ours: the filter would know us as we know it, and what was frozen is never collected.
        return ReadFilter(state, may_read, self._partition.clock, partial(_changed, self._files, self._looked_up))


class _Writing(msgspec.Struct, Generic[A], eq=False):
    """One call that writes: its proposal, judged until all that it depends on is decided and looked up."""

    _authorization: Authorization
    _partition: Partition
    _principal: Principal
    _targets: Sequence[Target]
    _foreigners: Sequence[ResourceFacts | None]
    _propose: Propose[A]
    _files: CitedFiles | None
    _restoring: bool
    _pins: Pins | None = None
    """None until the files that the draft cites were looked at."""

    async def attempt(self) -> Receipt[A]:
        try:
            return await self._partition.commit(self._decided)
        except FilesPending as pending:
            self._pins = {} if self._files is None else await self._files.pin(pending.wanted)
            return await self._partition.commit(self._decided)

    async def attempt_at_head(self) -> Receipt[A]:
        """Judge a write where the log is, and a refusal where this machine is."""
        try:
            return await self.attempt()
        except (NotFound, Conflict, InvalidArgument):
            await self._partition.confirm_or_date()
            return await self.attempt()

    async def facts(self) -> ResourceFacts:
        """Return what the policy is told of the first target."""
        foreign = self._foreigners[0]
        if foreign is not None:
            return foreign
        return await self._partition.look(lambda state: _facts(state, self._targets[0], self._principal))

    def _decided(self, state: State) -> Generator[None, None, Proposal[A]]:
        authorization, first = self._authorization, self._targets[0]
        try:
            permitted = _decide(authorization, state, self._foreigners[0], self._principal, first, self._make_filter)
        except Denied as error:
            raise error.at(first.place) from None
        if len(self._targets) > 1:
            yield
            permitted = _decide_others(
                authorization, state, self._foreigners, self._principal, self._targets, self._make_filter, permitted
            )
            yield
        try:
            proposal = yield from self._proposed(state, permitted.read_filter)
        except Exception:
            _raise_pending(authorization, permitted.read_filter)
            raise
        # While a decision is pending, a proposal is neither accepted nor refused.
        _raise_pending(authorization, permitted.read_filter)
        draft = proposal.draft
        if not isinstance(draft, Draft):
            return proposal
        if permitted.hidden:
            raise _absent(permitted.hidden[0].resource).at(permitted.hidden[0].place)
        if permitted.narrows:
            authorization.decide_all((yield from _touched(state, draft, self._principal, self._targets)))
        draft = msgspec.structs.replace(
            draft,
            policy_version=permitted.decision.policy_version,
            run_context=_in_session(draft.run_context, self._principal.session),
        )
        return Proposal(draft, proposal.answer)

    def _proposed(self, state: State, read_filter: ReadFilter) -> Generator[None, None, Proposal[A]]:
        """Return the proposal with what the server fills in, checked against the rules of the ontology."""
        proposed = self._propose(state, read_filter)
        if not isinstance(proposed, Draft | Commit | Proposal):
            proposed = yield from proposed
        proposal = proposal_of(proposed)
        draft = proposal.draft
        if not isinstance(draft, Draft):
            return proposal
        yield
        if not self._restoring:
            pins = self._pins if self._files is not None else {}
            draft = settle(state, draft, lambda: _now(self._partition, state), read_filter, pins)
            yield
        check(state, draft, read_filter)
        yield
        return Proposal(draft, proposal.answer)

    def _make_filter(self, state: State, may_read: MayRead | None = None) -> ReadFilter:
        return ReadFilter(state, may_read, self._partition.clock, partial(_changed, self._files, {}))


def _changed(
    files: CitedFiles | None, looked_up: Mapping[Watched, tuple[str, ...]], watched: Watched
) -> tuple[str, ...] | None:
    found = looked_up.get(watched)
    if found is not None:
        return found
    return () if files is None else files.changed(watched)


def may_read(read_filter: ReadFilter, commit: Commit) -> bool:
    """Whether what the commit is about may be read."""
    if not read_filter.narrows:
        return True
    said = commit.document()
    return read_filter.allows_all(
        (said["from"], said["to"]) if "from" in said else (said.get("node_id") or said["id"],)
    )


def _absent(resource: str | None) -> NotFound:
    """What every tool should have said in its own words."""
    return NotFound(f"there is no '{resource}'")


def _in_session(context: dict[str, str] | None, session: str | None) -> dict[str, str] | None:
    """A session is a run (X19), unless the writer named another."""
    return context if session is None else {"run_id": session, **(context or {})}


def _pending_files(read_filter: ReadFilter | None) -> Collection[Watched]:
    return () if read_filter is None else read_filter.pending_files


def _raise_pending(authorization: Authorization, read_filter: ReadFilter | None) -> None:
    if read_filter is not None and read_filter.pending:
        raise DecisionPending([authorization.read_question(*each) for each in read_filter.pending])


def _now(partition: Partition, state: State) -> str:
    """Never before the head, so that times follow the order of the log."""
    return max(to_text(partition.clock()), state.head.timestamp)


class _Permitted(msgspec.Struct, frozen=True):
    decision: Decision
    read_filter: ReadFilter
    narrows: bool
    """Whether the policy has to be asked about whatever else the draft changes."""
    hidden: Sequence[Target] = ()
    """About whose resources the policy was asked as if they were not there."""


def _decide_others(
    authorization: Authorization,
    state: State,
    foreigners: Sequence[ResourceFacts | None],
    principal: Principal,
    targets: Sequence[Target],
    make: Callable[..., ReadFilter],
    found: _Permitted,
) -> _Permitted:
    """What was found of the first, no denial of any other, and what the answer may read by then. Raises as `_decide`
    does."""
    others = targets[1:]
    made = _made_by(targets, state, principal)
    facts = [
        foreign or made.get(each.resource) or _facts(state, each, principal)
        for each, foreign in zip(others, foreigners[1:], strict=True)
    ]
    questions = list(map(_question, others, facts))
    decisions = authorization.decisions(questions)
    read_filter = found.read_filter
    narrows = found.narrows or any(each.narrows or not each.allowed for each in decisions)
    if not read_filter.narrows and any(each.withholds or not each.allowed for each in decisions):
        read_filter = make(state, authorization.may_read)
    hidden = list(found.hidden)
    if read_filter.narrows:
        shown = [_shows(state, read_filter, *each) for each in zip(others, facts, strict=True)]
        _raise_pending(authorization, read_filter)
        hidden += [each for each, is_shown in zip(others, shown, strict=True) if not is_shown]
        questions = [
            question if is_shown else _question(each, NO_FACTS)
            for question, each, is_shown in zip(questions, others, shown, strict=True)
        ]
        authorization.decisions(questions)
    for each, question in zip(others, questions, strict=True):
        try:
            authorization.require(question)
        except Denied as error:
            raise error.at(each.place) from None
    return _Permitted(found.decision, read_filter, narrows, hidden)


def _made_by(targets: Sequence[Target], state: State, principal: Principal) -> dict[str | None, ResourceFacts]:
    """What the call itself makes, and then does something else to: it is its author's."""
    times = Counter(each.resource for each in targets)
    made = (each for each in targets if each.written_type is not None and times[each.resource] > 1)
    return {
        each.resource: ResourceFacts(each.written_type, principal.actor, principal.tenant)
        for each in made
        if _facts(state, msgspec.structs.replace(each, action=Action.DELETE), principal).owner is None
    }


def _question(target: Target, facts: ResourceFacts) -> Question:
    return target.action, target.resource, facts, target.written_type


def _decide(
    authorization: Authorization,
    state: State,
    foreign: ResourceFacts | None,
    principal: Principal,
    target: Target,
    make: Callable[..., ReadFilter],
) -> _Permitted:
    """The decision on the call itself, or on the first thing that it does, and what its answer may read. Raises
    Denied, DecisionPending."""
    facts = foreign or _facts(state, target, principal)
    try:
        decision = authorization.decide(facts)
        if not decision.withholds:
            return _Permitted(decision, make(state), decision.narrows)
        denial = None
    except Denied as error:
        denial = error
    read_filter = make(state, authorization.may_read)
    shown = _shows(state, read_filter, target, facts)
    _raise_pending(authorization, read_filter)
    if not shown:
        return _Permitted(authorization.decide(NO_FACTS), read_filter, True, [target])
    if denial is not None:
        raise denial
    return _Permitted(decision, read_filter, True)


def _shows(state: State, read_filter: ReadFilter, target: Target, facts: ResourceFacts) -> bool:
    """False where the call must be answered as if its resource were not there: an edge to what may not be read; and,
    unless it changes it blindly, whatever may not be read."""
    resource = target.resource
    if facts.owner is None or resource is None:
        return True
    itself = not target.blindly and target.action in (Action.WRITE, Action.DELETE)
    is_node = not target.is_edge and state.last_owner(resource) is not None
    if is_node and not itself:
        return True
    itself_readable = not itself or read_filter.allows_resource(resource, (facts.type or "", facts.owner or ""))
    return (is_node or read_filter.allows_edge(resource)) and itself_readable


def _facts(state: State, target: Target, principal: Principal) -> ResourceFacts:
    """What was deleted is still read and redacted, in the past and in its lineage, so it is judged by what it was."""
    resource = target.resource
    if resource is None:
        return NO_FACTS
    if target.action is Action.WRITE:
        of_node, of_edge = state.owner, state.edge_owner
    else:
        of_node, of_edge = state.last_owner, state.last_edge_owner
    known = of_edge(resource) or of_node(resource) if target.is_edge else of_node(resource) or of_edge(resource)
    return ResourceFacts(*known, principal.tenant) if known else NO_FACTS


def _touched(
    state: State, draft: Draft, principal: Principal, targets: Sequence[Target]
) -> Generator[None, None, list[Question]]:
    """Return policy questions for everything that the draft changes beyond its targets. New entities have no owner,
    so there is one question for each new type.

    An edge goes with a node that is deleted or redacted (L20); any other is written on its source, or redacted by
    itself, unless it is a target.
    """
    asked = {(each.resource, each.action): each.written_type for each in targets}
    resources = {each.resource for each in targets}
    actions: dict[str, Action] = {}
    types: dict[str, str] = {}
    edges: list[tuple[Verb, str, str, str]] = []
    redacted: set[str] = set()
    for operation in draft.operations:
        said = operation.payload
        if operation.verb is Verb.UPSERT_NODE:
            actions.setdefault(said["id"], Action.WRITE)
            types[said["id"]] = said["type"]
        elif "node_id" in said:
            actions[said["node_id"]] = Action.DELETE
        elif (name := name_of_edge(said)) not in resources:
            edges.append((operation.verb, name, said["from"], said["to"]))
        yield
    for verb, name, source, target in edges:
        if Action.DELETE in (actions.get(source), actions.get(target)):
            continue
        if verb is Verb.REDACT_EDGE:
            actions[name] = Action.DELETE
            redacted.add(name)
        else:
            actions.setdefault(source, Action.WRITE)
    questions: list[Question] = []
    made: dict[str, None] = {}
    for node_id, each in actions.items():
        facts = _facts(state, Target(each, node_id, is_edge=node_id in redacted), principal)
        gives = types.get(node_id)
        if gives is not None and (facts.owner is None or each is Action.DELETE):
            made[gives] = None
        if facts.owner is None:
            continue
        yield
        keeps = each is Action.DELETE or gives in (None, facts.type, asked.get((node_id, each)))
        if (node_id, each) not in asked or not keeps:
            questions.append((each, node_id, facts, gives if each is Action.WRITE else None))
    return questions + [(Action.WRITE, None, NO_FACTS, gives) for gives in made if gives not in asked.values()]

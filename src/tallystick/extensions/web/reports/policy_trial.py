"""Policies tried out beside the one in force: the tests of a policy, and what a candidate would have decided otherwise.

A policy cannot be interrupted while it decides, and a candidate may be anybody's. So it is asked in a process of its
own, which has no environment, bounded time and bounded memory, and which nothing is lost with.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from tallystick.audit import Decided, decode
from tallystick.engine.store import Store
from tallystick.errors import Corrupt, InvalidArgument, LimitExceeded
from tallystick.extensions.web.reports.audit_index import AuditIndex, is_look
from tallystick.policy import Action, Principal
from tallystick.policy.bundle import Bundle, Module
from tallystick.policy.embedded import Embedded
from tallystick.policy.policy_tests import Examined, examine
from tallystick.policy.replay import Changed, Replayed, replay
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

CANDIDATE_CHARACTERS_MAX = 200_000
DECISIONS_MAX = 20_000
"""Asked again, the newest of them."""
NARROWED_MAX = 1_000
"""Of those by which versions are counted where each has to be asked about."""
INDEXING_SECONDS = 0.05
SECONDS_MAX = 20.0
MEMORY_BYTES_MAX = 2 << 30
TRIALS_AT_ONCE = 2
ROWS_MAX = 100
GROUPS_MAX = 50
_READING_SECONDS_MAX = 2.0
_AT_ONCE = 200
_INHERITED = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
"""What the interpreter may need to be found again."""
_CHILD = "from tallystick.extensions.web.reports.policy_trial import run_child; run_child()"

_Asked = list[tuple[int, Decided]]


class PolicyVersion(msgspec.Struct, kw_only=True):
    """By which decisions were made, as the audit log says."""

    name: str
    first: str
    last: str
    decisions: int = 0
    denials: int = 0


class PolicyVersions(msgspec.Struct, frozen=True):
    versions: list[PolicyVersion]
    """The newest first."""
    is_cut: bool
    """Whether older decisions were not looked at."""


class ChangedGroup(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None
    """An actor or a resource; None for what was about no one thing."""
    denied_now: int
    allowed_now: int


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing was changed."""

    examined: Examined
    asked: int
    skipped: int
    """Denied because the engine gave no answer: no policy decided that."""
    denied_now: int
    allowed_now: int
    since: str | None
    """When the first of these decisions was made."""
    is_cut: bool
    """Whether older decisions were not asked again."""
    by_actor: list[ChangedGroup]
    """Those with most first; of many, not all."""
    actors: int
    by_resource: list[ChangedGroup]
    resources: int
    changed: list[Changed]
    """The first of them."""


async def list_versions(store: Store, principal: Principal, audit: AuditIndex) -> PolicyVersions:
    """Of all decisions; where something is withheld, of the newest that may be read."""
    await store.flush_audit()
    await asyncio.to_thread(audit.read, INDEXING_SECONDS)
    _, narrows = await _allowed(store, principal, [])
    if narrows:
        lines, is_cut = await _readable_decisions(store, principal, audit, NARROWED_MAX)
        return PolicyVersions(_versions(lines), is_cut)
    found = await asyncio.to_thread(audit.versions)
    named = [PolicyVersion(name=name, **msgspec.structs.asdict(counted)) for name, counted in found.items()]
    return PolicyVersions(named, not audit.is_complete)


def _versions(lines: _Asked) -> list[PolicyVersion]:
    found: dict[str, PolicyVersion] = {}
    for _, event in lines:
        name, at = event.policy_version, event.timestamp
        version = found.setdefault(name, PolicyVersion(name=name, first=at, last=at))
        version.first = min(version.first, at)
        version.decisions += 1
        version.denials += not event.decision
    return list(found.values())


async def examine_policy(bundle: Bundle) -> Examined:
    """Raises LimitExceeded where it takes too long."""
    return (await _in_a_process(bundle, [])).examined


async def simulate(
    store: Store, principal: Principal, audit: AuditIndex, candidate: str, beside: Bundle | None
) -> Simulation:
    """What the candidate decides of what the principal may read in the audit log. It has the data of the policy
    `beside`. Raises InvalidArgument for none, LimitExceeded where it takes too long."""
    if not candidate.strip():
        raise InvalidArgument("there is no policy to try: paste one, or choose a file", code="POLICY_INVALID")
    if len(candidate) > CANDIDATE_CHARACTERS_MAX:
        raise LimitExceeded(f"a policy to try has at most {CANDIDATE_CHARACTERS_MAX} characters")
    bundle = Bundle("candidate", (Module("candidate.rego", candidate),), data=() if beside is None else beside.data)
    await store.flush_audit()
    asked, is_cut = await _readable_decisions(store, principal, audit, DECISIONS_MAX)
    asked.reverse()
    outcome = await _in_a_process(bundle, asked)
    found = outcome.replayed or Replayed("none", 0, 0, 0, 0, [])
    return Simulation(
        examined=outcome.examined,
        asked=found.asked,
        skipped=found.skipped,
        denied_now=found.denied_now,
        allowed_now=found.allowed_now,
        since=asked[0][1].timestamp if asked else None,
        is_cut=is_cut,
        by_actor=_grouped((each.actor, each.decision_now) for each in found.changed),
        actors=len({each.actor for each in found.changed}),
        by_resource=_grouped((each.resource, each.decision_now) for each in found.changed),
        resources=len({each.resource for each in found.changed}),
        changed=found.changed[:ROWS_MAX],
    )


def _grouped(changed: Iterable[tuple[str | None, bool]]) -> list[ChangedGroup]:
    counts = Counter(changed)
    totals: Counter[str | None] = Counter()
    for (name, _), count in counts.items():
        totals[name] += count
    return [
        ChangedGroup(name=name, denied_now=counts[name, False], allowed_now=counts[name, True])
        for name, _ in totals.most_common(GROUPS_MAX)
    ]


# -- what was decided


async def _readable_decisions(store: Store, principal: Principal, audit: AuditIndex, most: int) -> tuple[_Asked, bool]:
    """The newest first, and whether there are more."""
    until = time.monotonic() + _READING_SECONDS_MAX
    decisions = _newest(audit)
    found: _Asked = []
    while True:
        part = await asyncio.to_thread(_take, decisions, until)
        found += (await _allowed(store, principal, part))[0]
        if len(found) > most:
            return found[:most], True
        if len(part) < _AT_ONCE:
            return found, time.monotonic() > until
        if time.monotonic() > until:
            return found, True


async def _allowed(store: Store, principal: Principal, part: _Asked) -> tuple[_Asked, bool]:
    """With whether anything may be withheld. Raises Denied for who may not search at all."""

    def look(state: State, read_filter: ReadFilter) -> tuple[_Asked, bool]:
        if not read_filter.narrows:
            return part, False
        return [each for each in part if _shows(read_filter, each[1].resource)], True

    return await store.read(principal, Action.SEARCH, look)


def _shows(read_filter: ReadFilter, resource: str | None) -> bool:
    return resource is None or read_filter.allows_entity(resource)


def _take(decisions: Iterator[tuple[int, Decided]], until: float) -> _Asked:
    found: _Asked = []
    for each in decisions:
        found.append(each)
        if len(found) == _AT_ONCE or time.monotonic() > until:
            break
    return found


def _newest(audit: AuditIndex) -> Iterator[tuple[int, Decided]]:
    for raw in audit.lines():
        if is_look(raw, audit.looks_by):
            continue
        with suppress(Corrupt):
            line = decode(raw)
            if isinstance(line.event, Decided):
                yield line.seq, line.event


# -- the process


class _Trial(msgspec.Struct, frozen=True):
    bundle: Bundle
    asked: _Asked


class _Outcome(msgspec.Struct, frozen=True):
    examined: Examined
    replayed: Replayed | None


_running: set[int] = set()
"""Processes of trials, by the ids of what they try."""


async def _in_a_process(bundle: Bundle, asked: _Asked) -> _Outcome:
    if len(_running) >= TRIALS_AT_ONCE:
        raise LimitExceeded("other policies are being tried", hint="try again in a while")
    trial = _Trial(msgspec.structs.replace(bundle, files=()), asked)
    _running.add(id(trial))
    try:
        return await _ended(trial)
    finally:
        _running.discard(id(trial))


async def _ended(trial: _Trial) -> _Outcome:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _CHILD,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _INHERITED if name in os.environ},
        cwd="/",
    )
    try:
        async with asyncio.timeout(SECONDS_MAX):
            answer, _ = await process.communicate(msgspec.json.encode(trial))
        return msgspec.json.decode(answer, type=_Outcome)
    except TimeoutError:
        raise LimitExceeded(f"the policy had not decided within {SECONDS_MAX:.0f} seconds") from None
    except msgspec.DecodeError:
        raise LimitExceeded("the policy needed more time or memory than it may have") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def run_child() -> None:
    """In the process: from standard input to standard output."""
    seconds = int(SECONDS_MAX) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    trial = msgspec.json.decode(sys.stdin.buffer.read(), type=_Trial)
    examined = examine(trial.bundle)
    is_asked = trial.asked and examined.problem is None
    replayed = replay(Embedded(trial.bundle), trial.asked, len(trial.asked)) if is_asked else None
    sys.stdout.buffer.write(msgspec.json.encode(_Outcome(examined, replayed)))

"""Rego in this process: the default engine, some 20 µs a decision, and 1 µs where it is known from another like it.

A policy that is broken is refused when it is loaded, by asking it once about each action, and
a reload that fails leaves the policy that was there. Evaluation cannot be interrupted: one
that takes longer than `timeout_ms` of processor time is over before it can be denied.
"""

from __future__ import annotations

import logging
import threading
import time

import msgspec

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.policy import Action, Decision, Principal, Request, denial
from tallystick.policy.bundle import Bundle, find_bundle
from tallystick.policy.rego import Engine, RegoError, engine_for, entry_of
from tallystick.policy.rego_codec import decision_of, input_of

logger = logging.getLogger(__name__)

TIMEOUT_MS = 250.0
_KNOWN_MAX = 10_000
_UNREPEATED = frozenset({"resource", "context.timestamp"})
"""Members of a question that hardly any two have in common."""

_Alike = tuple[object, ...]


class Embedded:
    def __init__(self, policy: str | Bundle, *, timeout_ms: float = TIMEOUT_MS) -> None:
        """By name, path or files. Raises InvalidArgument or NotFound, and then there is no policy."""
        self._policy = policy
        self._timeout_seconds = timeout_ms / 1000
        self._threads = threading.local()
        self._generation = 0
        self._stamped: tuple[tuple[int, int], ...] = ()
        self._use(find_bundle(policy) if isinstance(policy, str) else policy)

    def decide(self, request: Request) -> Decision:
        known = self._known
        if known is None:
            return self._evaluate(request)
        alike = _alike(request, known.written_type)
        found = known.decisions.get(alike)
        if found is None:
            found = self._evaluate(request)
            if len(known.decisions) >= _KNOWN_MAX:
                known.decisions.clear()
            if found.cacheable:
                known.decisions[alike] = found
        return found

    def _evaluate(self, request: Request) -> Decision:
        version = self.policy_version
        started = time.thread_time()
        try:
            answer = self._engine().evaluate(self._path, input_of(request))
        except Exception as error:
            # What a panic leaves behind is not asked again.
            self._threads.engine = None
            return denial("error", f"the policy failed: {error}", version)
        if time.thread_time() - started > self._timeout_seconds:
            return denial("timeout", "the policy took too long", version)
        return decision_of(answer, version)

    def reload(self) -> bool:
        """Whether the files say something else now. Raises what a first load would; the old policy then stays."""
        bundle = find_bundle(self._policy) if isinstance(self._policy, str) else self._policy
        if bundle == self._bundle:
            return False
        self._use(bundle)
        return True

    def reload_if_changed(self) -> bool:
        """`reload` for a running server: costs a look at each file's time and size, and never raises."""
        try:
            if self._stamp() == self._stamped:
                return False
            self._stamped = self._stamp()
            return self.reload()
        except (TallystickError, OSError) as error:
            logger.error("the changed policy is not used, the one before it stays: %s", error)
            return False

    def _use(self, bundle: Bundle) -> None:
        engine = engine_for(bundle)
        package = entry_of(engine.rules)
        _ask_once(engine, package)
        version = bundle.version
        if any(rule.package == package and rule.name == "policy_version" for rule in engine.rules):
            named = engine.evaluate(f"data.{package}.policy_version", {})
            version = named if isinstance(named, str) and named else version
        self._bundle = bundle
        self._path = f"data.{package}.decision"
        self.policy_version = version
        self._stamped = self._stamp()
        self._generation += 1
        self._threads.engine, self._threads.generation = engine, self._generation
        # Last, so that whoever fills the new one has asked the new policy.
        consulted = engine.consulted
        is_repeated = consulted is not None and not consulted & _UNREPEATED
        self._known = _Known({}, "written_type" in (consulted or ())) if is_repeated else None

    def _engine(self) -> Engine:
        """This thread's own: engines of other threads are dropped by these, when they next ask."""
        engine: Engine | None = getattr(self._threads, "engine", None)
        if engine is None or self._threads.generation != self._generation:
            self._threads.generation = self._generation
            engine = self._threads.engine = engine_for(self._bundle)
        return engine

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        return tuple((stat.st_mtime_ns, stat.st_size) for stat in (file.stat() for file in self._bundle.files))


class _Known(msgspec.Struct, frozen=True):
    decisions: dict[_Alike, Decision]
    written_type: bool
    """Whether that makes a difference."""


def _alike(request: Request, written_type: bool) -> _Alike:
    """Equal for questions that such a policy cannot tell apart."""
    return (
        request.principal,
        request.action,
        request.resource_type,
        request.resource_owner,
        request.resource_owner_tenant,
        request.written_type if written_type else None,
    )


def _ask_once(engine: Engine, package: str) -> None:
    """Unknown functions, unsafe variables and conflicting rules load well and fail at the first question."""
    for action in Action:
        for request in (
            Request(Principal(actor="nobody"), action),
            Request(
                Principal(actor="nobody", roles=("none",)), action, "resource", "type", "owner", "default", "", "type"
            ),
        ):
            try:
                decision = decision_of(engine.evaluate(f"data.{package}.decision", input_of(request)), "")
            except RegoError as error:
                raise InvalidArgument(
                    f"the policy cannot decide about {action}: {error}", code="POLICY_INVALID"
                ) from None
            if decision.fault == "malformed":
                raise InvalidArgument(decision.reason, code="POLICY_INVALID")

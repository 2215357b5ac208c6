"""What the work tools share: clock, settings, claims, and how they read and write."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from tallystick.clock import Clock, to_text, wall_clock
from tallystick.engine.partition import Receipt
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import CLAIMED_BY
from tallystick.state.work.board import Board, Row
from tallystick.state.work.claims import ClaimTime
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.claims import Claimant, Claims
from tallystick.toolsets.drafts import Drawn, write_drawn
from tallystick.toolsets.truncation import within_budget
from tallystick.toolsets.work.view import View
from tallystick.work_settings import WorkSettings

if TYPE_CHECKING:
    from tallystick.engine.store import Store

T = TypeVar("T")


class FileKnowledge(Protocol):
    @property
    def data(self) -> dict[str, Any]:
        """As it goes into an answer; empty when nothing is known."""
        ...


class Knowledge(Protocol):
    """What is known of the files of a node."""

    def find(
        self,
        state: State,
        project_id: str,
        links: Sequence[str],
        sections: Sequence[tuple[str, str]],
        *,
        read_filter: ReadFilter,
    ) -> FileKnowledge:
        """Of what its links point to, and of what its sections, by title and content, list as its files."""
        ...

    async def add_freshness(self, found: Sequence[Any]) -> None:
        """To the data of those that were found. Asks git, so it may take a while."""
        ...


class Receipts(msgspec.Struct, frozen=True):
    """Signed receipts of tasks that are done, made elsewhere and handed in."""

    require: Callable[[str], None]
    """By tenant. Raises InvalidArgument where nothing could be signed."""
    make: Callable[[Store, Principal, Sequence[str]], Awaitable[tuple[list[dict[str, Any]], list[str]]]]
    """Of these tasks; and why some have none. Does not raise: what was resolved stays resolved."""


WARNINGS_BYTES_MAX = 12_500
_LETTERS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"
_SIGNS = _LETTERS + "23456789"
_ID_CHARACTERS = 10
_REMEMBERED = 1_000


def new_id() -> str:
    """Ten characters that nobody mistakes for another, the first a letter: never taken for a number."""
    return secrets.choice(_LETTERS) + "".join(secrets.choice(_SIGNS) for _ in range(_ID_CHARACTERS - 1))


class ToolContext:
    def __init__(
        self,
        *,
        clock: Clock = wall_clock,
        settings: WorkSettings | None = None,
        knowledge: Knowledge | None = None,
        claims: Claims | None = None,
        ids: Callable[[], str] = new_id,
        receipts: Receipts | None = None,
    ) -> None:
        self.clock = clock
        self.settings = settings or WorkSettings()
        self.knowledge = knowledge
        self.claims = claims or Claims(ttl=self.settings.claim_ttl_milliseconds)
        self.ids = ids
        self.receipts = receipts
        self._opened: OrderedDict[tuple[str, str, str | None], str] = OrderedDict()

    # -- time

    def now(self, state: State) -> int:
        """Never before the head, so that times follow the order of the log."""
        return state.time_after(self.clock())

    def moment(self, state: State) -> ClaimTime:
        return self.claims.moment(self.now(state))

    def claimant(self, principal: Principal, state: State) -> Claimant:
        return self.claims.claimant(principal, self.now(state))

    def held_by(self, principal: Principal, state: State, graph: WorkGraph, board: Board) -> Iterator[Row]:
        """The open nodes of a project on which the principal's claim counts."""
        postings, claimant = graph.properties.get(CLAIMED_BY), self.claimant(principal, state)
        numbers = postings.members(principal.actor) if postings is not None else ()
        rows = (graph.by_number[number] for number in numbers if number in board.members)
        return (row for row in rows if row.open and claimant.has(row))

    def stamp(self, state: State) -> str:
        return to_text(self.now(state))

    # -- the project that an agent opened last, in each of its sessions

    def remember(self, principal: Principal, project_id: str) -> None:
        key = principal.tenant, principal.actor, principal.session
        self._opened[key] = project_id
        self._opened.move_to_end(key)
        if len(self._opened) > _REMEMBERED:
            self._opened.popitem(last=False)

    def opened(self, principal: Principal) -> str | None:
        return self._opened.get((principal.tenant, principal.actor, principal.session))


class Call(msgspec.Struct, frozen=True):
    """One call of a tool: with what it is answered, and who makes it."""

    context: ToolContext
    store: Store
    principal: Principal
    tool: str

    def claimant(self, state: State) -> Claimant:
        return self.context.claimant(self.principal, state)

    async def write(
        self,
        draw: Callable[[DraftBuilder, View], T],
        *,
        action: Action = Action.WRITE,
        resource: str | None = None,
        reason: str | None = None,
    ) -> tuple[T, Receipt | None]:
        """What `draw` answers at the head, with the receipt if it drafted anything."""

        def drawn(state: State, read_filter: ReadFilter) -> Drawn[T]:
            with DraftBuilder(state, read_filter) as builder:
                return Drawn(draw(builder, View(state, builder.graph, read_filter)), builder.operations)

        return await write_drawn(
            self.store, self.principal, self.tool, drawn, action=action, resource=resource, reason=reason
        )

    async def read(self, action: Action, look: Callable[[View], T | Breathing[T]], *, resource: str | None = None) -> T:
        """`look` may be called several times."""
        return await self.store.read(
            self.principal,
            action,
            lambda state, read_filter: look(View(state, state.derived(WorkGraph), read_filter)),
            resource=resource,
        )


class AnswerBuilder(msgspec.Struct):
    """An answer in the making, and what the agent should be warned of."""

    data: dict[str, Any] = msgspec.field(default_factory=dict)
    warnings: list[str] = msgspec.field(default_factory=list)

    def warn(self, warning: str | None) -> None:
        if warning is not None and warning not in self.warnings:
            self.warnings.append(warning)

    def complete(self) -> dict[str, Any]:
        if not self.warnings:
            return self.data
        shown = within_budget(self.warnings, WARNINGS_BYTES_MAX)
        more = [f"and {len(self.warnings) - len(shown)} more"] if len(shown) < len(self.warnings) else []
        return {**self.data, "warnings": shown + more}

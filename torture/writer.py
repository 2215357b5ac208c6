"""The writer: a process that works on a base until it is ended, and notes whatever it was told.

Everything of `tallystick serve` but the wire: the store, the gate, the audit log, the followers
of all projections. Several clients at once, so that groups form.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from tallystick import app
from tallystick.app.tenant_projections import AllProjections
from tallystick.commits import Draft, Operation, Verb
from tallystick.config import Settings, load
from tallystick.engine.store import Store
from tallystick.errors import Conflict, LogClosed, TallystickError
from tallystick.operations.snapshot import take_snapshot
from tallystick.policy import Action, Principal
from tallystick.server import Offer
from tallystick.server.dispatch import Broken, Done, Refused, call
from torture.journal import Journal

ONTOLOGY = {
    "node_types": ["Page", "Shelf"],
    "connection_types": [{"name": "StandsIn", "from_types": ["Page"], "to_types": ["Shelf"]}],
}
TENANTS = ("default", "ants", "bees", "cats")
_BLOB_CHARACTERS = 300_000


class Plan(msgspec.Struct, frozen=True):
    base: str
    journal: str
    name: str
    """Of this life: nobody else writes entities that begin with it."""
    job: str
    seed: int
    clients: int = 4
    settings: dict[str, Any] = {}
    writes_max: int = 0
    """For each client; 0 means until killed."""
    clock_seconds: float = 0.0
    """How far its clock is ahead of the others'."""


def settled(base: Path | str, **flags: Any) -> Settings:
    """Of this base alone: what the environment says is no part of a round."""
    flags = {"toolsets": ("all",), "snapshot_every": 0, "adopt_file_edits": "off"} | flags
    return load({"base": str(base), **flags}, environ={})


async def write(plan: Plan) -> None:
    await _JOBS[plan.job](plan, Journal(Path(plan.journal)))


# -- jobs


async def _commits(plan: Plan, journal: Journal) -> None:
    await _served(plan, journal, _commit_batches, _count_up)


async def _pages(plan: Plan, journal: Journal) -> None:
    await _served(plan, journal, _write_pages)


async def _redactions(plan: Plan, journal: Journal) -> None:
    await _served(plan, journal, _redact, _commit_batches)


async def _mixed(plan: Plan, journal: Journal) -> None:
    await _served(plan, journal, _commit_batches, _count_up, _write_pages, _redact)


async def _sharing(plan: Plan, journal: Journal) -> None:
    """On entities and work that other processes want as well."""
    from torture import sharing

    trades = (sharing.share, _commit_batches, sharing.work, sharing.share, _count_up, sharing.work, _write_pages)
    await _served(plan, journal, *trades)


async def _snapshots(plan: Plan, journal: Journal) -> None:
    """The process that a server starts to keep a snapshot, again and again."""
    while True:
        with suppress(Conflict):  # Something was redacted meanwhile.
            await take_snapshot(app.operation_context(settled(plan.base, **plan.settings)))
        journal.note("began")


async def _tenants(plan: Plan, journal: Journal) -> None:
    """Four tenants where hardly one may stay open: they close and open all the time."""
    settings = settled(plan.base, tenant_idle_seconds=0.01, tenants_open_max=1, **plan.settings)
    projections = AllProjections(settings, open_log=app.open_log)
    async with app.opened(settings, projections) as store:
        closing = asyncio.create_task(_close_idle(store))
        clients = [Client(plan, number, journal, store, None, TENANTS[number % 4]) for number in range(plan.clients)]
        journal.note("began")
        await asyncio.gather(*(_commit_batches(client) for client in clients))
        closing.cancel()
    await projections.close()


async def _close_idle(store: Store) -> None:
    while True:
        await asyncio.sleep(0.01)
        await store.tenants.close_idle()


async def _served(plan: Plan, journal: Journal, *trades: Callable[[Client], Awaitable[None]]) -> None:
    async with AsyncExitStack() as stack:
        offer = await stack.enter_async_context(app.served(settled(plan.base, **plan.settings)))
        if _write_pages in trades:
            await call(offer.tools.get("create_ontology"), ONTOLOGY, offer.store, lambda: offer.principal_of(None))
        journal.note("began")
        clients = [Client(plan, number, journal, offer.store, offer) for number in range(plan.clients)]
        await asyncio.gather(*(trades[client.number % len(trades)](client) for client in clients))


_JOBS: dict[str, Callable[[Plan, Journal], Awaitable[None]]] = {
    "commits": _commits,
    "pages": _pages,
    "redactions": _redactions,
    "mixed": _mixed,
    "sharing": _sharing,
    "snapshots": _snapshots,
    "tenants": _tenants,
}


# -- clients


class Client:
    def __init__(
        self, plan: Plan, number: int, journal: Journal, store: Store, offer: Offer | None, tenant: str = "default"
    ) -> None:
        self.number = number
        self.journal = journal
        self.tenant = tenant
        self.actor = ""
        """Who it is, if not whoever started the process."""
        self.name = plan.name
        self.random = random.Random(f"{plan.seed} {plan.name} {number}")
        self._plan = plan
        self._store = store
        self._offer = offer
        self._written = 0

    def next(self) -> str | None:
        """The name of what is written next; None when it is enough."""
        self._written += 1
        if self._plan.writes_max and self._written > self._plan.writes_max:
            return None
        return f"{self._plan.name}.{self.number}.{self._written}"

    async def commit(self, name: str, *operations: Operation) -> bool:
        draft = Draft(operations=operations, actor="torture", tool="torture")
        try:
            await self._store.write(
                Principal(actor="torture", tenant=self.tenant), Action.WRITE, lambda state, read_filter: draft
            )
        except TallystickError as error:
            await self.refused(name, error)
            return False
        except Exception as error:
            self.journal.note("broken", name, tenant=self.tenant, text=repr(error))
            return False
        return True

    async def tell(self, tool: str, name: str, /, **arguments: Any) -> dict[str, Any] | None:
        told = await self.ask(tool, name, **arguments)
        if isinstance(told, TallystickError):
            await self.refused(name, told)
        return told if isinstance(told, dict) else None

    async def ask(self, tool: str, name: str, /, **arguments: Any) -> dict[str, Any] | TallystickError | None:
        """The answer, the refusal, or None for a bug of ours."""
        offer = self._offer
        assert offer is not None
        outcome = await call(offer.tools.get(tool), arguments, offer.store, lambda: self._principal(offer))
        if isinstance(outcome, Done):
            return outcome.data
        if isinstance(outcome, Refused):
            return outcome.error
        assert isinstance(outcome, Broken)
        self.journal.note("broken", name, text=tool)
        return None

    def _principal(self, offer: Offer) -> Principal:
        principal = offer.principal_of(None)
        return msgspec.structs.replace(principal, actor=self.actor) if self.actor else principal

    async def refused(self, name: str, error: TallystickError) -> None:
        self.journal.note("refused", name, tenant=self.tenant, text=error.code)
        if isinstance(error, LogClosed):
            os._exit(3)  # As its hint says: start again.
        await asyncio.sleep(0.01)


async def _commit_batches(client: Client) -> None:
    while (name := client.next()) is not None:
        count = client.random.choice((1, 1, 2, 3, 5))
        if await client.commit(name, *(_member(client, name, number, count) for number in range(count))):
            client.journal.note("batch", name, tenant=client.tenant, number=count)


def _member(client: Client, name: str, number: int, count: int) -> Operation:
    attrs = {"batch": name, "of": count, "pad": "x" * client.random.choice((0, 50, 400))}
    return Operation(Verb.UPSERT_NODE, {"id": f"{name}.{number}", "type": "member", "attrs": attrs})


async def _count_up(client: Client) -> None:
    """One node overwritten again and again; the same value once more after a refusal."""
    value, node = 1, f"{client.next()}.counter"
    while client.next() is not None:
        told = await client.tell(
            "memory.write", node, op="UPSERT_NODE", node={"id": node, "type": "counter", "attrs": {"value": value}}
        )
        if told is not None:
            client.journal.note("count", node, number=value)
            value += 1


async def _redact(client: Client) -> None:
    while (name := client.next()) is not None:
        secret = f"sesame{client.random.randrange(1 << 60):015x}"
        node = {"id": name, "type": "confession", "attrs": {"secret": secret, "kept": name}}
        if await client.tell("memory.write", name, op="UPSERT_NODE", node=node) is None:
            continue
        client.journal.note("secret", name, text=secret)
        told = await client.tell(
            "memory.write", name, op="REDACT_NODE", node_id=name, redacted_fields=["attrs.secret"], reason="asked"
        )
        if told is not None:
            client.journal.note("redacted", name, text=secret)


async def _write_pages(client: Client) -> None:
    """Nodes with contents, changed and deleted: whatever the views show."""
    while (name := client.next()) is not None:
        page = await _write_page(client, name, "create_node", type="Page", properties={"name": name})
        if page is None:
            continue
        if client.random.random() < 0.3:
            await _write_page(client, page, "update_node", node_id=page)
        if client.random.random() < 0.3:
            client.journal.note("trying", page)
            if await client.tell("delete_node", page, node_id=page) is not None:
                client.journal.note("gone", page)


async def _write_page(client: Client, name: str, tool: str, /, **arguments: Any) -> str | None:
    text = f"{name} " + "word " * client.random.choice((1, 20, 200))
    if name.endswith(".1") or client.random.random() < 0.1:
        text = text.ljust(_BLOB_CHARACTERS, "·")
    digest = sha256(text.encode()).hexdigest()
    client.journal.note("trying", name, text=digest)
    told = await client.tell(tool, name, content=text, encoding="utf-8", format="markdown", **arguments)
    if told is None:
        return None
    page = str(arguments.get("node_id") or told["node_id"])
    client.journal.note("node", page, text=digest)
    return page


def main(plan: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    found = msgspec.json.decode(plan, type=Plan)
    if found.clock_seconds:
        _set_clock(found.clock_seconds)
    asyncio.run(write(found))


def _set_clock(seconds: float) -> None:
    """Of this process. Not by libfaketime: `time.sleep` fails with EINVAL there, since it waits for a point of the
    monotonic clock, which the library translates although it is told to leave that clock alone."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + round(seconds * 1e9)


if __name__ == "__main__":
    main(sys.argv[1])

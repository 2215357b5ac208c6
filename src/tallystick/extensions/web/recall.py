"""`/recall`: the step before trust is taken back from what somebody wrote, and from what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from tallystick.engine.store import Target
from tallystick.errors import InvalidArgument, NotFound
from tallystick.extensions.web.addresses import entity_address
from tallystick.extensions.web.forms import confirmed_reason, number_of
from tallystick.extensions.web.visit import Redirect, Visit, told
from tallystick.operations.recall import Sought, recall
from tallystick.policy import Action
from tallystick.state.derivation import Trace
from tallystick.state.trust import RECALL

HOPS = 3
HOPS_MAX = 10
SHOWN_MAX = 200
RECALLING = Target(Action.WRITE, None, RECALL)


class RecallView(msgspec.Struct, frozen=True, kw_only=True):
    sought: Sought
    hops: int
    entity: str | None
    """Whose page it was begun on."""
    entities: list[Trace]
    """The first of what would be marked."""
    written: int
    derived: int
    digest: str
    """Of all of it: what is confirmed is what was shown."""
    is_changed: bool = False
    """Whether it is not what was confirmed."""


async def recall_step(visit: Visit) -> RecallView:
    """Raises NotFound, also for who may not."""
    if not (await visit.may(RECALLING))[0]:
        raise NotFound("there is nothing to recall")
    said = {name: visit.said(name) for name in ("commit", "actor", "since", "until", "entity")}
    return await _view(visit, _sought(said), visit.number("hops", HOPS, most=HOPS_MAX), said["entity"])


async def act_on_recall(visit: Visit, form: Mapping[str, str]) -> RecallView | Redirect:
    visit.check_may_act()
    reason = confirmed_reason(form)
    hops = number_of(form.get("hops", ""), HOPS_MAX)
    if hops is None:
        raise InvalidArgument(f"'hops' must be a number up to {HOPS_MAX}")
    sought, entity = _sought(form), form.get("entity") or None
    view = await _view(visit, sought, hops, entity)
    if view.digest != form.get("digest"):
        return msgspec.structs.replace(view, is_changed=True)
    with told():
        done = await recall(visit.context.operations(visit.principal), sought, hops=hops, reason=reason)
    return Redirect(entity_address(entity or done.recall or ""))


def _sought(said: Mapping[str, str | None]) -> Sought:
    commit, actor = said.get("commit") or None, said.get("actor") or None
    if (commit is None) == (actor is None):
        raise NotFound("an address of this page names a commit or an actor")
    return Sought(actor, said.get("since") or None, said.get("until") or None, commit)


async def _view(visit: Visit, sought: Sought, hops: int, entity: str | None) -> RecallView:
    found = await recall(visit.context.operations(visit.principal), sought, hops=hops, reason=None)
    written = sum(1 for each in found.entities if each.hops == 0)
    return RecallView(
        sought=sought,
        hops=hops,
        entity=entity,
        entities=sorted(found.entities, key=lambda each: each.hops)[:SHOWN_MAX],
        written=written,
        derived=len(found.entities) - written,
        digest=sha256(msgspec.json.encode(sorted(each.id for each in found.entities))).hexdigest(),
    )

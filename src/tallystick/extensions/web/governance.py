"""`/governance`: what can be counted of how the memory is used and kept, and the erasure of a person in two steps."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.extensions.web.forms import REASON_CHARACTERS_MAX, confirmed_reason
from tallystick.extensions.web.report_times import ReportSeconds, report_seconds
from tallystick.extensions.web.reports.governance import Governance, count_governance
from tallystick.extensions.web.visit import Visit
from tallystick.operations import OperationContext
from tallystick.operations import forget as erasure
from tallystick.operations.forget import ErasureReport, NotErased, Search
from tallystick.state.mentions import Subject

SUBJECT_CHARACTERS_MAX = 2_000
TEXTS_MAX = 20
CHARACTERS_MIN = 3
"""Of what names a person: less is in everything."""
SHOWN_MAX = 200


class PlannedRedaction(msgspec.Struct, frozen=True, kw_only=True):
    entity: str
    kind: str
    type: str
    fields: list[str]
    mentions: int


class NamesOfAPerson(msgspec.Struct, frozen=True, kw_only=True):
    """What names a person. Nothing was changed."""

    texts: str
    """As they were asked for, a line each."""
    whole_words: bool
    plans: list[PlannedRedaction]
    """The first of them."""
    total: int
    beyond: list[NotErased]
    """What no redaction reaches; of much, not all."""
    beyond_total: int
    not_searched: int
    digest: str
    """Of all plans: what is confirmed is what was shown."""
    is_changed: bool = False
    """Whether it is not what was confirmed."""


class GovernanceView(msgspec.Struct, frozen=True, kw_only=True):
    counted: Governance
    found: NamesOfAPerson | None = None
    reports: ReportSeconds | None = None
    """From question to exported report, as pages of this process saw it."""
    report: ErasureReport | None = None


async def governance(visit: Visit) -> GovernanceView:
    context = visit.context
    audit = context.audit(visit.principal.tenant)
    operations = context.operations(visit.principal)
    return GovernanceView(
        counted=await count_governance(operations, audit, context.kept_counts),
        reports=report_seconds(context.system_of(visit.principal.tenant)),
    )


async def act_on_governance(visit: Visit, form: Mapping[str, str]) -> GovernanceView:
    """Finds what names a person; or erases it, as it was shown."""
    view = await governance(visit)
    if not view.counted.reads_everything:
        raise InvalidArgument(
            "what names a person can be found only by who may read everything",
            hint="the operator may: 'tallystick forget'",
        )
    operations = visit.context.operations(visit.principal)
    subject, whole_words = _subject(form)
    match form.get("act"):
        case "find":
            found = await _found(operations, subject, whole_words)
            return msgspec.structs.replace(view, found=found[0])
        case "forget":
            visit.check_may_act()
            return await _forgotten(visit, view, subject, whole_words, form)
        case _:
            raise InvalidArgument("'act' must be find or forget")


async def _forgotten(
    visit: Visit, view: GovernanceView, subject: Subject, whole_words: bool, form: Mapping[str, str]
) -> GovernanceView:
    operations = visit.context.operations(visit.principal)
    reason, reference = confirmed_reason(form), form.get("reference", "").strip()[:REASON_CHARACTERS_MAX] or None
    erasure.check_request(subject, (), f"{reason} {reference or ''}")
    found, plans = await _found(operations, subject, whole_words)
    if found.digest != form.get("digest"):
        return msgspec.structs.replace(view, found=msgspec.structs.replace(found, is_changed=True))
    report = await erasure.forget([(operations, plans)], subject, reason=reason, reference=reference)
    # Counted again: the redactions were made after the first view.
    return msgspec.structs.replace(await governance(visit), report=report)


def _subject(form: Mapping[str, str]) -> tuple[Subject, bool]:
    texts = form.get("texts", "")
    whole_words = form.get("whole_words") == "yes"
    subject = Subject(texts.splitlines(), whole_words=whole_words)
    if not subject.texts or len(subject.texts) > TEXTS_MAX or len(texts) > SUBJECT_CHARACTERS_MAX:
        raise InvalidArgument(f"write what names the person: a line for each name, {TEXTS_MAX} at most")
    if any(len(text) < CHARACTERS_MIN for text in subject.texts):
        raise InvalidArgument(f"what names a person has at least {CHARACTERS_MIN} characters: less is in everything")
    return subject, whole_words


async def _found(operations: OperationContext, subject: Subject, whole_words: bool) -> tuple[NamesOfAPerson, Search]:
    plans = await erasure.search(operations, subject)
    rows = [
        PlannedRedaction(
            entity=plan.entity, kind=plan.kind, type=plan.type, fields=plan.described, mentions=plan.mentions
        )
        for plan in plans.plans.values()
    ]
    beyond = erasure.not_erased(plans)
    found = NamesOfAPerson(
        texts="\n".join(subject.texts),
        whole_words=whole_words,
        plans=rows[:SHOWN_MAX],
        total=len(rows),
        beyond=beyond[:SHOWN_MAX],
        beyond_total=len(beyond),
        not_searched=len(plans.unread),
        digest=sha256(msgspec.json.encode(rows)).hexdigest(),
    )
    return found, plans

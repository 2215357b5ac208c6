"""What all pages are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from tallystick.app.context import AppContext
from tallystick.extensions.web.actors import ActorKinds
from tallystick.extensions.web.chain import Chain, Chains
from tallystick.extensions.web.last_used import LastUsed
from tallystick.extensions.web.report_times import ReportTimes
from tallystick.extensions.web.reports.audit_index import AuditIndex
from tallystick.extensions.web.reports.governance import RECALL_TOOLS, KeptCounts
from tallystick.extensions.web.reports.history import History
from tallystick.extensions.web.reports.kept_knowledge import KeptKnowledge
from tallystick.extensions.web.reports.last_day import Authors
from tallystick.operations import OperationContext
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.dispatch import Tools
from tallystick.telemetry.readings import Reading, read_figures, together
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.knowledge.context import ToolContext as KnowledgeContext

SYSTEM = "_system"
TOOL = "web"
"""As which the audit log knows what people ask for on the pages."""
PROGRAM_TOOL = "web.json"
"""As which it knows what programs, with a token of their own, ask for there."""


def _index_of(directory: Path) -> AuditIndex:
    return AuditIndex(directory, looks_by=TOOL, recalls_by=RECALL_TOOLS)


class WorkerPlace(msgspec.Struct, frozen=True):
    """Which of several processes behind one address."""

    number: int
    """From 1."""
    count: int


def _of_this_process() -> dict[int, Reading]:
    return {0: read_figures()}


class WebContext(msgspec.Struct, frozen=True, kw_only=True):
    app: AppContext
    """For the pages of other extensions."""
    offer: Offer
    tools: Tools
    """Of every vocabulary: what agents are offered is no bound on what people may look at."""
    policy: str
    """By which name the operator chose it."""
    home_of: Callable[[str], Path]
    """Where the memory of a tenant lies."""
    audit_of: Callable[[str], Path]
    """Where its audit log lies."""
    streams_max: int = 256
    """How many pages may listen at a time for what arrives."""
    policy_source: str | None
    """Where its rules are; None where another server decides."""
    operations: Callable[[Principal], OperationContext]
    """What operations work with, as the visitor: the store that is served, under its policy."""
    claims: Claims
    knowledge: KnowledgeContext
    report_times: ReportTimes = msgspec.field(default_factory=ReportTimes)
    is_read_only: bool = False
    """Whether pages show only."""
    person: str | None = None
    """Who visitors are where nobody logs in; None means whom the server takes callers for."""
    readings: Callable[[], Mapping[int, Reading]] = _of_this_process
    """What the metrics of each process say that serves behind this address, by their numbers from 0."""
    history: History = msgspec.field(default_factory=History)
    """Of the same together, for plots."""
    audit_indexes: LastUsed[Path, AuditIndex] = msgspec.field(default_factory=lambda: LastUsed(_index_of))
    """By where the logs lie."""
    worker: WorkerPlace | None = None
    """None where one process serves alone."""
    chains: Chains = msgspec.field(default_factory=Chains)
    kept_counts: KeptCounts = msgspec.field(default_factory=KeptCounts)
    kept_knowledge: LastUsed[str, KeptKnowledge] = msgspec.field(
        default_factory=lambda: LastUsed(lambda tenant: KeptKnowledge())
    )
    kept_authors: LastUsed[str, Authors] = msgspec.field(default_factory=lambda: LastUsed(lambda tenant: Authors()))
    figures_for: str | None = None
    """The tenant whose people see how the server does, which is about all tenants; None where there are no others."""

    def reading(self) -> Reading:
        return together(list(self.readings().values()))

    def chain(self, tenant: str, position: int) -> Chain:
        return self.chains.of(tenant, self.system_of(tenant), position)

    def system_of(self, tenant: str) -> Path:
        """Where the memory of a tenant keeps what is its own and no document."""
        return self.home_of(tenant) / SYSTEM

    def audit(self, tenant: str) -> AuditIndex:
        return self.audit_indexes.of(self.audit_of(tenant))

    def actor_kinds(self, tenant: str) -> ActorKinds:
        return ActorKinds(self.audit(tenant))

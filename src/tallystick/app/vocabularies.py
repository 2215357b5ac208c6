"""Every toolset, and what its tools look at besides the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.app.callers import claims_of, work_settings
from tallystick.app.context import AppContext
from tallystick.app.guards import audit_files
from tallystick.config import Settings
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extension import installed, load
from tallystick.policy import Principal
from tallystick.sessions import Sessions
from tallystick.store import Store
from tallystick.tenant_projections import AllProjections
from tallystick.toolsets import Toolset, knowledge, memory, work
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.knowledge.context import TaskMaker
from tallystick.toolsets.knowledge.context import ToolContext as KnowledgeContext
from tallystick.toolsets.knowledge.path_context import NodeKnowledge
from tallystick.toolsets.memory.lineage import PlacedCommit
from tallystick.toolsets.work.context import Receipts
from tallystick.toolsets.work.context import ToolContext as WorkContext

if TYPE_CHECKING:
    from tallystick.projections.text import TextIndex


logger = logging.getLogger(__name__)


def toolsets(
    settings: Settings, projections: AllProjections | None = None, sessions: Sessions | None = None
) -> tuple[Toolset, ...]:
    """Return every vocabulary, offered or not. Without `projections` they can be shown, not all be called."""
    claims = claims_of(settings, sessions)
    tool_context = knowledge_context(settings, claims, projections.text if projections else None)
    core = (
        memory.toolset(
            hops_max=settings.max_hops,
            text=projections.text if projections else None,
            vectors=projections.vectors if projections and settings.vectors else None,
            walks=projections.walks if projections and settings.cypher_url else None,
            prove=partial(_prove, settings),
        ),
        work.toolset(
            settings=work_settings(settings),
            knowledge=NodeKnowledge(tool_context),
            claims=claims,
            receipts=_receipts(settings, projections) if projections else None,
        ),
        knowledge.make_toolset(tool_context),
    )
    context = AppContext(settings=settings, projections=projections, sessions=sessions, knowledge=tool_context)
    names = {each.name for each in core}
    contributed = (each for each in _contributed(context) if each.name not in names)
    return *core, *sorted(contributed, key=lambda each: (each.order, each.name))


def _contributed(context: AppContext) -> Iterator[Toolset]:
    """Yield the toolsets of extensions. One that cannot be built is left out, unless what it says is for the user."""
    for name, reference in installed().toolsets().items():
        try:
            toolset: Toolset = load(reference)(context)
        except TallystickError:
            raise
        except Exception:
            logger.exception("the toolset '%s' is left out", name)
        else:
            yield toolset


def knowledge_context(
    settings: Settings, claims: Claims | None = None, text: Callable[[str], TextIndex] | None = None
) -> KnowledgeContext:
    _check_repo(settings)
    return knowledge.make_tool_context(
        repo=Path(settings.repo) if settings.repo else None,
        base=settings.base,
        repo_falls_back=not settings.issuers,
        pin_knowledge=settings.pin_knowledge,
        stale_makes_work=settings.stale_makes_work and not settings.read_only,
        work=WorkContext(settings=work_settings(settings), claims=claims or claims_of(settings)),
        tasks_are_made_by=_task_maker(settings),
        text=text,
    )


_TASK_MAKERS: dict[str, TaskMaker] = {"work": "graph_plan", "tasks": "manage_container"}


def _task_maker(settings: Settings) -> TaskMaker | None:
    """The tool that is offered to make tasks, if any is."""
    on = (tool for toolset, tool in _TASK_MAKERS.items() if {toolset, "all"} & {*settings.toolsets})
    return next((tool for tool in on if not settings.tools or tool in settings.tools), None)


def _prove(settings: Settings, tenant: str, commits: Sequence[PlacedCommit]) -> list[str | None]:
    from tallystick.extensions.proofs.operations.proofs import prove_signed

    home = msgspec.structs.replace(settings, tenant=tenant).home
    return prove_signed(home, [(each.commit, each.index, each.prev_record_hash) for each in commits])


def _receipts(settings: Settings, projections: AllProjections) -> Receipts:
    """For agents on this machine they are files, where a directory is named for them."""
    directory = Path(settings.receipts).expanduser().absolute() if settings.receipts and not settings.issuers else None

    def require(tenant: str) -> None:
        if not projections.keys(tenant):
            from tallystick.extensions.proofs.operations.checkpoint import no_key

            raise no_key()

    async def make(store: Store, principal: Principal, tasks: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
        from tallystick.extensions.proofs.operations.receipts import make_receipt, with_proof, write_receipt

        of = msgspec.structs.replace(settings, tenant=principal.tenant)
        found: list[dict[str, Any]] = []
        problems: list[str] = []
        for task in tasks:
            try:
                if not found and not problems:
                    await projections.sign(principal.tenant)
                audit, keys = audit_files(of).directory, projections.keys(principal.tenant)
                made = await make_receipt(store, principal, of.home, audit, keys, task)
                shown = (
                    {"receipt": with_proof(made)}
                    if directory is None
                    else {"files": [str(path) for path in await asyncio.to_thread(write_receipt, made, directory)]}
                )
                found.append({"node_id": task, **shown})
            except TallystickError as error:
                problems.append(f"'{task}' is resolved, but there is no receipt of it: {error.message}; ask again")
        return found, problems

    return Receipts(require, make)


def _check_repo(settings: Settings) -> None:
    """Who has tokens of an issuer is not who started the server here: its working directory is not for them."""
    wanted = [name for name in ("pin_knowledge", "stale_makes_work") if getattr(settings, name)]
    if settings.issuers and not settings.repo and wanted:
        raise InvalidArgument(
            f"{' and '.join(wanted)} looks at files, and 'repo' names no work tree to look at",
            code="SETTING_INVALID",
            hint="with an issuer, name the directory in 'repo'; the working directory is not taken for it",
        )

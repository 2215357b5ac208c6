"""Every toolset, and what its tools look at besides the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.app.callers import claims_of, work_settings
from tallystick.app.context import AppContext
from tallystick.app.proving import all_proofs, proofs
from tallystick.app.tenant_projections import AllProjections
from tallystick.config import Settings
from tallystick.engine.sessions import Sessions
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extension import Vocabulary, installed, load
from tallystick.toolsets import AnyToolset, DeferredToolset, Toolset, error_shape, knowledge, memory, work
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
) -> tuple[AnyToolset, ...]:
    """Return every vocabulary, offered or not. Without `projections` they can be shown, not all be called."""
    claims = claims_of(settings, sessions)
    tool_context = knowledge_context(settings, claims, projections.text if projections else None)
    context = AppContext(settings=settings, projections=projections, sessions=sessions, knowledge=tool_context)
    core = (
        memory.toolset(
            hops_max=settings.max_hops,
            text=projections.text if projections else None,
            near=_part("memory.search near", context),
            walks=_part("memory.search walks", context),
            prove=partial(_prove, settings),
        ),
        work.toolset(
            settings=work_settings(settings),
            knowledge=NodeKnowledge(tool_context),
            claims=claims,
            receipts=_receipts(context) if projections else None,
        ),
        knowledge.make_toolset(tool_context),
    )
    names = {each.name for each in core}
    contributed = (_deferred(*each, context) for each in installed().toolsets() if each[0] not in names)
    return *core, *contributed


def _part(of_tool: str, context: AppContext) -> Any:
    """Return the part of a tool that an extension carries out by tenant; None where none does, or it is off."""
    make = installed().find_handler(of_tool)
    return None if make is None else make(context)


def _deferred(name: str, vocabulary: Vocabulary, context: AppContext) -> DeferredToolset:
    return DeferredToolset(
        name, vocabulary.summary, partial(_built, name, vocabulary, context), is_listed=vocabulary.is_listed
    )


def _built(name: str, vocabulary: Vocabulary, context: AppContext) -> Toolset:
    """Return the toolset; without tools if it cannot be built, unless the error says what the user can change."""
    try:
        toolset: Toolset = load(vocabulary.build)(context)
    except TallystickError:
        raise
    except Exception:
        logger.exception("the toolset '%s' is left out", name)
        return Toolset(name=name, tools=(), error_shape=error_shape)
    return toolset


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
    return proofs().prove_all(msgspec.structs.replace(settings, tenant=tenant).home, commits)


def _receipts(context: AppContext) -> Receipts | None:
    for each in all_proofs():
        return each.receipts(context)
    return None


def _check_repo(settings: Settings) -> None:
    """Who has tokens of an issuer is not who started the server here: its working directory is not for them."""
    wanted = [name for name in ("pin_knowledge", "stale_makes_work") if getattr(settings, name)]
    if settings.issuers and not settings.repo and wanted:
        raise InvalidArgument(
            f"{' and '.join(wanted)} looks at files, and 'repo' names no work tree to look at",
            code="SETTING_INVALID",
            hint="with an issuer, name the directory in 'repo'; the working directory is not taken for it",
        )

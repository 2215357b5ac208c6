"""Every toolset, and what its tools look at besides the store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.app.callers import claims_of, work_settings
from tallystick.app.guards import audit_files
from tallystick.app.logs import checkpoint_keys
from tallystick.config import Settings, named_paths
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extensions.files import toolset as files
from tallystick.extensions.hooks import toolset as hooks
from tallystick.extensions.ontology import toolset as ontology
from tallystick.extensions.tasks import toolset as tasks
from tallystick.extensions.tasks.settings import find_file, read_pipelines
from tallystick.extensions.why import toolset as why
from tallystick.policy import Principal
from tallystick.sessions import Sessions
from tallystick.store import Store
from tallystick.tenant_projections import AllProjections
from tallystick.toolsets import Toolset, knowledge, memory, work
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.knowledge.context import TaskMaker
from tallystick.toolsets.knowledge.context import ToolContext as KnowledgeContext
from tallystick.toolsets.knowledge.freshness import Repository
from tallystick.toolsets.knowledge.path_context import NodeKnowledge
from tallystick.toolsets.memory.lineage import PlacedCommit
from tallystick.toolsets.work.context import Receipts
from tallystick.toolsets.work.context import ToolContext as WorkContext
from tallystick.work_settings import named_paths as named_by_work

if TYPE_CHECKING:
    from tallystick.commits.signed_note import SignerKey, VerifierKey
    from tallystick.extensions.why.explanation import Why, WhyContext
    from tallystick.projections.text import TextIndex


def toolsets(
    settings: Settings, projections: AllProjections | None = None, sessions: Sessions | None = None
) -> tuple[Toolset, ...]:
    """Every vocabulary, offered or not. Without `projections` they can be shown, not all be called."""
    claims = claims_of(settings, sessions)
    tool_context = knowledge_context(settings, claims, projections.text if projections else None)
    return (
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
        tasks.toolset(pipelines=read_pipelines(os.environ), knowledge=tool_context, claims=claims),
        ontology.make_toolset(
            projections.contents if projections else None,
            projections.text if projections else None,
            published=projections.published if projections else None,
            adopt=projections.adopted if projections else None,
            content_bytes_max=settings.content_bytes_max,
        ),
        files.make_toolset(
            projections.path if projections else None,
            views=projections.views if projections else lambda tenant: None,
            adopt=projections.adopted if projections else None,
            published=projections.published if projections else None,
            reserved=_named_paths(settings),
            base=settings.base,
        ),
        why.make_toolset(partial(_explain, settings, tool_context.repository, projections)),
        hooks.make_toolset(settings, work_settings(settings)),
    )


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


def why_context(
    settings: Settings,
    repository: Repository | None = None,
    signers: Callable[[str], tuple[SignerKey, ...]] | None = None,
) -> WhyContext:
    """`signers`: the keys of each tenant, where they were read already."""
    from tallystick.extensions.why.explanation import WhyContext

    def of(tenant: str) -> Settings:
        return msgspec.structs.replace(settings, tenant=tenant)

    def keys(tenant: str) -> tuple[VerifierKey, ...]:
        # Whoever asks need not be who may sign.
        with suppress(InvalidArgument):
            found = checkpoint_keys(of(tenant)) if signers is None else signers(tenant)
            return tuple(key.verifier for key in found)
        return ()

    return WhyContext(
        repository=repository or knowledge_context(settings).repository,
        base=settings.base,
        home=lambda tenant: of(tenant).home,
        keys=keys,
        audit=lambda tenant: audit_files(of(tenant)).directory,
    )


def _prove(settings: Settings, tenant: str, commits: Sequence[PlacedCommit]) -> list[str | None]:
    from tallystick.extensions.proofs.operations.proofs import prove_signed

    home = msgspec.structs.replace(settings, tenant=tenant).home
    return prove_signed(home, [(each.commit, each.index, each.prev_record_hash) for each in commits])


async def _explain(
    settings: Settings,
    repository: Repository,
    projections: AllProjections | None,
    store: Store,
    principal: Principal,
    file: str,
    line: int | None,
) -> Why:
    from tallystick.extensions.why.explanation import explain

    context = why_context(settings, repository, projections.keys if projections else None)
    return await explain(context, store, principal, file, line)


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


def _named_paths(settings: Settings) -> list[Path]:
    """All that any settings name, or are read from: out of reach for tools, wherever it lies."""
    pipelines = find_file(os.environ)
    return [
        *named_paths(settings),
        *named_by_work(work_settings(settings), base=settings.base, working=Path.cwd()),
        *([] if pipelines is None else [pipelines]),
    ]

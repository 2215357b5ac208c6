"""The tasks vocabulary: projects, features and tasks that go through their steps.

They are the work graph's own projects and nodes under other names: a task that is made here
is handed out by graph_next, and one that was planned there can be advanced here. This file is
the table of the tools; `view` is what they see and draw on, `entities` what they answer.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.clock import Clock, wall_clock
from tallystick.extensions.tasks import arguments
from tallystick.extensions.tasks.blocks import block, manage_dependency, query_dependencies, unblock
from tallystick.extensions.tasks.cards import Pipelines
from tallystick.extensions.tasks.containers import manage_container
from tallystick.extensions.tasks.context import Call, ToolContext
from tallystick.extensions.tasks.queries import (
    NULLABLE,
    get_blocked_features,
    get_blocked_tasks,
    get_next_feature,
    get_next_task,
    query_container,
    query_workflow_state,
)
from tallystick.extensions.tasks.sections import manage_sections, query_sections
from tallystick.extensions.tasks.settings import read_pipelines
from tallystick.extensions.tasks.tags import get_tag_usage, list_tags, rename_tag
from tallystick.extensions.tasks.templates import apply_template, manage_template, query_templates
from tallystick.extensions.tasks.transitions import advance, revert, terminate
from tallystick.toolsets import Toolset, make_tool
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.envelope import OUTPUT, error_shape
from tallystick.toolsets.knowledge.context import ToolContext as KnowledgeContext

if TYPE_CHECKING:
    from tallystick.app.context import AppContext


def contributed(context: AppContext) -> Toolset:
    knowledge = context.knowledge
    assert knowledge is not None
    return toolset(pipelines=read_pipelines(os.environ), knowledge=knowledge, claims=knowledge.work.claims)


def toolset(
    *,
    pipelines: Pipelines | None = None,
    knowledge: KnowledgeContext | None = None,
    claims: Claims | None = None,
    clock: Clock = wall_clock,
) -> Toolset:
    """`pipelines` are those of `settings.read_pipelines`; `knowledge` says whether atoms are fresh."""
    tool_context = ToolContext(
        pipelines=pipelines or Pipelines(), knowledge=knowledge, claims=claims or Claims(), clock=clock
    )
    return toolset_with(tool_context)


def toolset_with(tool_context: ToolContext) -> Toolset:
    begin = partial(Call, tool_context)
    return Toolset(
        name="tasks",
        faults="result",
        error_shape=error_shape,
        tools=tuple(make_tool(begin, *row, NULLABLE if row[0] in _MAYBE_NOTHING else OUTPUT) for row in _TABLE),
    )


_MAYBE_NOTHING = (get_next_task, get_next_feature)

_TABLE: tuple[tuple[Any, type[Any], str, str, str], ...] = (
    (manage_container, arguments.ManageContainer, "d", "Make or change a container",
     "Create, update or delete a project, feature or task. Status is changed by advance, revert and terminate."),
    (query_container, arguments.QueryContainer, "ri", "Find containers",
     "Get one project, feature or task, search them, or see an overview. includeGraphContext adds what to know of a"
     " task's files."),
    (query_sections, arguments.QuerySections, "ri", "Read sections",
     "The sections of a project, feature or task, in order."),
    (manage_sections, arguments.ManageSections, "d", "Write sections",
     "Add, change, reorder or delete sections. Paths in a section titled Context Files tell which knowledge a task"
     " needs."),
    (advance, arguments.Advance, "", "Advance",
     "Move a feature or task one step on. ACTIVE makes it yours. Closing it unblocks what waited for it, and closes a"
     " feature with its last task."),
    (revert, arguments.Step, "", "Revert", "Move a feature or task one step back; not from a terminal state."),
    (terminate, arguments.Terminate, "d", "Give up",
     "Set a feature or task to WILL_NOT_IMPLEMENT. What waits for it stays blocked."),
    (block, arguments.Block, "i", "Block",
     "Let a feature or task wait for others, or with NO_OP and a reason for something outside."),
    (unblock, arguments.Unblock, "i", "Unblock", "Take blockers away."),
    (manage_dependency, arguments.ManageDependency, "di", "Make or remove a dependency",
     "fromId BLOCKS toId, or both are related."),
    (query_dependencies, arguments.QueryDependencies, "ri", "Read dependencies",
     "What a feature or task waits for, what waits for it, and what is related."),
    (query_workflow_state, arguments.WorkflowState, "ri", "Where it stands",
     "Status, next and previous step, and blockers of a feature or task."),
    (get_next_task, arguments.NextTask, "ri", "Next task",
     "The task to begin: new, unblocked, highest priority, least complex, oldest."),
    (get_next_feature, arguments.NextFeature, "ri", "Next feature",
     "The feature to go on with: active before new, unblocked, highest priority."),
    (get_blocked_tasks, arguments.Blocked, "ri", "Blocked tasks", "Tasks that wait, with what they wait for."),
    (get_blocked_features, arguments.Blocked, "ri", "Blocked features",
     "Features that wait, with what they wait for."),
    (query_templates, arguments.QueryTemplates, "ri", "Find templates", "Get a template with its sections, or list."),
    (manage_template, arguments.ManageTemplate, "d", "Make or change a template",
     "Create, update, delete, enable or disable a template, or add a section to it."),
    (apply_template, arguments.ApplyTemplate, "", "Apply a template",
     "Copy a template's sections to an entity, after those it has."),
    (list_tags, arguments.ListTags, "ri", "List tags", "All tags with how often they are used."),
    (get_tag_usage, arguments.TagUsage, "ri", "Who has a tag", "The projects, features and tasks with a tag."),
    (rename_tag, arguments.RenameTag, "i", "Rename a tag", "Rename a tag everywhere; dryRun tells what would change."),
)  # fmt: skip

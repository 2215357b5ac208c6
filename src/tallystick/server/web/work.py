"""`/work`: the projects, and of one of them the board and the tree."""

from __future__ import annotations

import msgspec

from tallystick.operations.work_board import ProjectBoard, Projects, list_projects, show_project
from tallystick.server.web.visit import Visit


class WorkView(msgspec.Struct, frozen=True):
    projects: Projects
    board: ProjectBoard | None
    """Of the project that the address names."""


async def work(visit: Visit) -> WorkView:
    store, claims = visit.context.offer.store, visit.context.claims
    name = visit.said("project")
    projects = await list_projects(store, visit.principal, claims)
    board = None if name is None else await show_project(store, visit.principal, claims, name)
    return WorkView(projects, board)

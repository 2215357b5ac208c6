"""The work graph: projects, their tree of work nodes, what waits for what, and what comes next.

`attributes` reads a work node, `graph` keeps everything that follows from them up to
date commit by commit, `cycles` finds the way from one node to another along dependencies,
`queries` answers filters, `claims` says when a node is somebody's, and `draft_builder` tries a draft
out before it is written. Nothing here reads a clock: the caller says what time it is.

A project is a node of type `work/project`: {name, root, summary}. A work node is of type
`work/node`: {project, parent, summary, resolved, rev, state?, properties?, context_links?,
evidence?, merged?, merged_into?}. The tree is made by `parent`; a dependency is an edge
`depends_on` from the node that waits to the one it waits for.
"""

from __future__ import annotations

from tallystick.commits.reserved_attributes import CLAIM, CLAIMED_AT, CLAIMED_BY, CLAIMED_SESSION

__all__ = ["CLAIM", "CLAIMED_AT", "CLAIMED_BY", "CLAIMED_SESSION", "DEPENDS_ON", "DROPPED", "LOOSE", "NODE", "PROJECT"]

PROJECT = "work/project"
NODE = "work/node"
DEPENDS_ON = "depends_on"
LOOSE = "tasks/loose"
"""Stands for the project of nodes that have none: no such project exists."""

DROPPED = "dropped"
"""The type of evidence that says why a node was given up."""

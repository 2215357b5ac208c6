"""Knowledge of the code: molecules, their atoms, and the history of both.

`globs` reads patterns, `index` finds whose patterns match a path, and `catalogue` keeps both
up to date commit by commit. Nothing here reads a file or asks git.

A molecule is a node of type `knowledge/molecule`: {projectId, name, knowledge,
relatedMolecules, createdByTaskId, lastTaskId, version, createdAt, updatedAt}. An atom, of
type `knowledge/atom`, has moleculeId, paths and relatedAtoms as well, and `pin` when the
state of its files was noted. A `knowledge/changelog` node is {parentType, parentId, taskId,
summary, createdAt}. They refer to each other by their ids, never by edges.
"""

from __future__ import annotations

MOLECULE = "knowledge/molecule"
ATOM = "knowledge/atom"
CHANGELOG = "knowledge/changelog"

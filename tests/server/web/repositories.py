"""A repository with a few files, and what agents know of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.server.web.pages import Pages


def make_repository(root: Path) -> Path:
    for name in ("src/queue.py", "src/retry.py", "src/deep/er.py", "README.md"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n")
    commit_all(root)
    return root


def commit_all(root: Path) -> None:
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "begin")):
        subprocess.run(["git", *who, *command], cwd=root, check=True)


async def know(
    pages: Pages, name: str, text: str, *paths: str, project: str = "shop", pin: bool = True, actor: str = "ada"
) -> tuple[str, str]:
    """The ids of the project and of what is known now."""
    made = await pages.write(actor, "manage_container", operation="create", containerType="project", name=project,
                             summary="s")  # fmt: skip
    place = {"projectId": made["data"]["project"]["id"]}
    task = await pages.write(actor, "manage_container", operation="create", containerType="task", title="t",
                             priority="LOW", complexity=1, summary="s", **place)  # fmt: skip
    atom = await pages.write(actor, "manage_graph", operation="create", entityType="atom", name=name, knowledge=text,
                             paths=list(paths), pin=pin, createdByTaskId=task["data"]["task"]["id"],
                             **place)  # fmt: skip
    return place["projectId"], atom["data"]["atom"]["id"]

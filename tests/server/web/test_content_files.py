"""Contents over the tools of a served memory whose content files cannot be looked at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.server.web.pages import serving_pages

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("instead", ["a file", "a link"])
async def test_content_is_answered_from_the_log(tmp_path: Path, instead: str) -> None:
    async with serving_pages(tmp_path / "base", adopt_file_edits="on") as pages:
        await pages.write("ada", "create_ontology", node_types=["Note"], connection_types=[])
        made = await pages.write("ada", "create_node", type="Note", content="what it says", format="text")
        nodes = tmp_path / "base" / "_content" / "nodes"
        shutil.rmtree(nodes, ignore_errors=True)
        nodes.parent.mkdir(exist_ok=True)
        if instead == "a file":
            nodes.write_text("in its place")
        else:
            nodes.symlink_to(tmp_path)
        answer = await pages.write("ada", "get_node_content", node_id=made["node_id"])
        assert answer.get("content") == "what it says", answer

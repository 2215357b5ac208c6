"""Every element id is used once on each page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tallystick.extensions.web.registry import PAGES
from tests.server.web.pages import HTML, serving_pages

pytestmark = pytest.mark.anyio

ADDRESSES = {
    "/entities/{id:path}": "/entities/plan",
    "/search": "/search?q=about",
    "/graph": "/graph?id=plan",
    "/redact": "/redact?id=plan",
    "/recall": "/recall?actor=ada",
    "/work": "/work?project=p",
}


async def test_element_ids_are_unique_on_every_page(tmp_path: Path) -> None:
    async with serving_pages(tmp_path) as pages:
        await pages.node("plan", "note", "ada")
        await pages.node("plan", "note", "bob", attrs={"title": "changed"})
        await pages.edge("plan", "about", "plan")
        opened = await pages.write("ada", "graph_open", project="p", goal="a goal")
        drop = f"/drop?id={opened['root']['id']}"
        repeated = {}
        for page in PAGES:
            address = drop if page.path == "/drop" else ADDRESSES.get(page.path, page.path)
            text = (await pages.http.get(address, headers=HTML)).text
            found = Counter(re.findall(r'<[^>]*?\sid="([^"]*)"', text))
            assert found["main"] == 1, address
            repeated[address] = [name for name, count in found.items() if count > 1]
        assert {address: names for address, names in repeated.items() if names} == {}

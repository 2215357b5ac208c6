"""The pictures that the docs show, taken of a memory that agents worked with: `make screenshots`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.browser.harness import THEMES, Browser, Look, browsing
from tests.browser.memories import PROJECT, lived_in

DIRECTORY = Path(__file__).parents[2] / "docs/pictures"
PICTURES = {
    "overview": "/",
    "entity": "/entities/decision-retries",
    "entity-past": "/entities/decision-retries?as_of=7",
    "work": f"/work?project={PROJECT}",
    "audit": "/audit?outcome=denied",
    "graph": "/graph?around=decision-retries&hops=2",
}
DARK = ("overview", "entity")
"""Which of them the docs show in both themes."""
READY = {"overview": ".live:not([hidden])"}


def take() -> None:
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, lived_in(Path(directory)) as site, browsing() as browser:
        _wait_for_verification(browser, site)
        for theme in THEMES:
            with browser.visit(site, Look(theme=theme, height=860, reduced_motion=True)) as visit:
                for name in PICTURES if theme == "light" else DARK:
                    visit.open(PICTURES[name])
                    visit.page.locator(READY.get(name, "main")).wait_for()
                    visit.page.screenshot(path=DIRECTORY / f"{name}-{theme}.png")


def _wait_for_verification(browser: Browser, site: str) -> None:
    """The first look begins it."""
    with browser.visit(site) as visit:
        visit.open("/")
        while visit.page.locator(".bar .seal.verified").count() == 0:
            visit.open("/")


if __name__ == "__main__":
    take()

"""Debian's Chromium, driven by Playwright: a page opened as a person would, and all that is wrong with it written down.

Whatever the browser complains of while a page is open counts as a fault: a script that fails, something that the
content security policy refuses, something fetched from elsewhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from tests.timeouts import SECONDS

HERE = Path(__file__).parent
AXE = HERE / "node_modules/axe-core/axe.min.js"
WCAG = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")

SOFTWARE_GRAPHICS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
"""Machines without a graphics card draw WebGL too."""

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
DECISIONS = "[role=region][aria-labelledby=h-decisions] tbody tr"
"""The lines of `/audit`, which has other tables too."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How somebody looks at pages."""

    theme: Theme = "light"
    width: int = 1280
    height: int = 900
    zoom: int = 1
    """As the browser does it: a page at 200 % has half of the window's pixels."""
    scripts: bool = True
    forced_colours: bool = False
    reduced_motion: bool = False


class Browser:
    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium

    @contextmanager
    def visit(self, address: str, look: Look | None = None) -> Iterator[Visit]:
        """A visit to one server; cookies and storage are its own."""
        look = look or Look()
        context = self._chromium.new_context(
            base_url=address,
            viewport={"width": look.width // look.zoom, "height": look.height // look.zoom},
            device_scale_factor=look.zoom,
            color_scheme=look.theme,
            java_script_enabled=look.scripts,
            forced_colors="active" if look.forced_colours else "none",
            reduced_motion="reduce" if look.reduced_motion else "no-preference",
        )
        context.set_default_timeout(1000 * SECONDS)
        try:
            yield Visit(context.new_page(), address)
        finally:
            context.close()


class Visit:
    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.faults: list[str] = []
        self._host = urlsplit(address).netloc
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(f"a script failed: {error}"))
        page.on("request", self._notice)

    def open(self, path: str, *, status: int = 200) -> None:
        answer = self.page.goto(path, wait_until="load")
        assert answer.status == status, f"{path}: {answer.status}"

    def settle(self) -> None:
        """Until what a link or a form changes in place is there, and scripts have drawn on it: some moments later."""
        self.page.wait_for_function("() => !document.querySelector('[aria-busy=true], .htmx-request, .htmx-settling')")

    def axe(self) -> list[str]:
        """What keeps some people from using the page, by the rules of WCAG 2.2 A and AA."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate(
            "tags => axe.run(document, {runOnly: {type: 'tag', values: tags}, resultTypes: ['violations']})", list(WCAG)
        )
        return [
            f"{each['id']}: {each['help']}: {node['html'][:200]} ({'; '.join(any['message'] for any in node['any'])})"
            for each in found["violations"]
            for node in each["nodes"]
        ]

    def overflow(self) -> list[str]:
        """What stands out to the right of the window, and is in nothing that can be scrolled by itself."""
        found: list[str] = self.page.evaluate(_OVERFLOW)
        return found

    def tab_stops(self) -> list[TabStop]:
        """Where the tab key leads, from the beginning to the end."""
        self.page.evaluate("document.activeElement?.blur(); window.scrollTo(0, 0)")
        stops: list[TabStop] = []
        for _ in range(_STOPS_MAX):
            self.page.keyboard.press("Tab")
            found = self.page.evaluate(_FOCUSED)
            if found is None or (stops and found["number"] == stops[0].number):
                break
            stops.append(msgspec.convert(found, TabStop))
        return stops

    def controls(self) -> list[str]:
        """All that can be worked with and is visible, in the order of the page."""
        found: list[str] = self.page.evaluate(_CONTROLS)
        return found

    def _hear(self, message: Any) -> None:
        if "Content Security Policy" in message.text:
            self.faults.append(f"refused by the policy of the page: {message.text}")
        elif message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(f"the console says: {message.text}")

    def _notice(self, request: Any) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.netloc != self._host:
            self.faults.append(f"asked elsewhere: {request.url}")


class TabStop(msgspec.Struct, frozen=True):
    number: int
    """Among all elements of the page."""
    html: str
    is_seen: bool
    """Whether it is within the window, and something is drawn around it."""


@contextmanager
def browsing() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert found, "Chromium is needed: install Debian's package chromium, or name one in CHROMIUM"
    with sync_playwright() as playwright:
        # Chromium refuses to run as root within its sandbox.
        chromium = playwright.chromium.launch(
            executable_path=found, chromium_sandbox=os.geteuid() != 0, args=SOFTWARE_GRAPHICS
        )
        try:
            yield Browser(chromium)
        finally:
            chromium.close()


_STOPS_MAX = 400

_OVERFLOW = """() => {
  const edge = document.documentElement.clientWidth + 1;
  const scrolls = element => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.overflowX === 'auto' || style.overflowX === 'scroll' || style.position === 'fixed') return true;
      if (style.overflowX === 'hidden' || style.overflowX === 'clip') return true;
    }
    return false;
  };
  return [...document.body.querySelectorAll('*')]
    .filter(element => element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}))
    .filter(element => element.getBoundingClientRect().right > edge && !scrolls(element))
    .map(element => element.outerHTML.slice(0, 160));
}"""

_CONTROL = "a[href], button:not([disabled]), input:not([type=hidden]), select, textarea, summary, [tabindex='0']"

_CONTROLS = f"""() => [...document.querySelectorAll("{_CONTROL}")]
  .filter(element => element.checkVisibility({{checkVisibilityCSS: true}}))
  .map(element => element.outerHTML.slice(0, 160))"""

_FOCUSED = """() => {
  const at = document.activeElement;
  if (!at || at === document.body || at === document.documentElement) return null;
  const box = at.getBoundingClientRect();
  // A field without edges of its own has its ring around the box that it is in.
  const ring = [at, at.parentElement].map(each => getComputedStyle(each))
    .some(style => style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1);
  const inside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return {number: [...document.querySelectorAll('*')].indexOf(at), html: at.outerHTML.slice(0, 160),
          is_seen: ring && inside && box.width > 0};
}"""

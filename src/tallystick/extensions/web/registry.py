"""Which pages there are. A page is added here, with its view, its template, and its place in the navigation."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from tallystick import extension
from tallystick.errors import TallystickError
from tallystick.extension import installed, load
from tallystick.extensions.web.audit import audit
from tallystick.extensions.web.drop import drop, drop_step
from tallystick.extensions.web.entity import entity_page
from tallystick.extensions.web.governance import act_on_governance, governance
from tallystick.extensions.web.graph import graph_page
from tallystick.extensions.web.knowledge import act_on_knowledge, knowledge
from tallystick.extensions.web.operations import operations
from tallystick.extensions.web.overview import overview
from tallystick.extensions.web.policy import act_on_policy, policy
from tallystick.extensions.web.recall import act_on_recall, recall_step
from tallystick.extensions.web.redact import redact, redact_step
from tallystick.extensions.web.search import search_page
from tallystick.extensions.web.visit import Visit
from tallystick.extensions.web.work import act_on_work, work

logger = logging.getLogger(__name__)

View = Callable[[Visit], Awaitable[msgspec.Struct]]
Act = Callable[[Visit, Mapping[str, str]], Awaitable[msgspec.Struct]]
"""From a visit and the fields of a form to what the page shows then, or to where that is shown."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    view: View
    """Raises what tools raise."""
    template: str
    also: tuple[str, ...] = ()
    """Other paths of the same page."""
    act: Act | None = None
    """Where its forms are sent to it."""
    is_step: bool = False
    """On the way to a grave act: the address says to what, and without that it is not there."""

    @property
    def json_path(self) -> str:
        return "/overview.json" if self.path == "/" else f"{self.path}.json"


class Link(msgspec.Struct, frozen=True):
    title: str
    path: str
    icon: str


class Section(msgspec.Struct, frozen=True):
    """Of the navigation."""

    title: str
    links: tuple[Link, ...]


PAGES: tuple[Page, ...] = (
    Page(path="/", view=overview, template="overview.html"),
    Page(path="/search", view=search_page, template="search.html"),
    Page(path="/entities/{id:path}", view=entity_page, template="entity.html", also=("/entities",)),
    Page(path="/graph", view=graph_page, template="graph.html"),
    Page(path="/policy", view=policy, act=act_on_policy, template="policy.html"),
    Page(path="/governance", view=governance, act=act_on_governance, template="governance.html"),
    Page(path="/redact", view=redact_step, act=redact, template="redact.html", is_step=True),
    Page(path="/recall", view=recall_step, act=act_on_recall, template="recall.html", is_step=True),
    Page(path="/drop", view=drop_step, act=drop, template="drop.html", is_step=True),
    Page(path="/work", view=work, act=act_on_work, template="work.html"),
    Page(path="/knowledge", view=knowledge, act=act_on_knowledge, template="knowledge.html"),
    Page(path="/audit", view=audit, template="audit.html"),
    Page(path="/operations", view=operations, template="operations.html"),
)

_CONTRIBUTED_ICON = "graph"

NAVIGATION: tuple[Section, ...] = (
    Section(
        "Memory",
        (
            Link("Overview", "/", "overview"),
            Link("Search", "/search", "search"),
            Link("Graph", "/graph", "graph"),
            Link("Work", "/work", "work"),
            Link("Knowledge", "/knowledge", "knowledge"),
        ),
    ),
    Section(
        "Trust",
        (
            Link("Audit", "/audit", "audit"),
            Link("Policy", "/policy", "policy"),
            Link("Governance", "/governance", "governance"),
        ),
    ),
    Section("Server", (Link("Operations", "/operations", "operations"),)),
)


class Added(msgspec.Struct, frozen=True):
    """A part of a page, made for a visit."""

    view: msgspec.Struct
    template: str


def all_pages() -> list[Page]:
    """Return the pages of this extension, then those of others."""
    return [*PAGES, *map(_contributed, installed().pages())]


def navigation() -> list[Section]:
    """Return the navigation with the pages of other extensions at the ends of their sections."""
    links: dict[str, list[Link]] = {section.title: [*section.links] for section in NAVIGATION}
    for page in installed().pages():
        links.setdefault(page.section, []).append(Link(page.title, page.path, _CONTRIBUTED_ICON))
    return [Section(title, tuple(each)) for title, each in links.items()]


async def added_to(page: Page, visit: Visit, view: msgspec.Struct) -> list[Added]:
    """Return what extensions add to a page. One that fails adds nothing."""
    added: list[Added] = []
    for part in installed().parts(page.path):
        try:
            added.append(Added(await load(part.view)(visit, view), _template(part)))
        except TallystickError:
            raise
        except Exception:
            logger.exception("the part '%s' of the page '%s' is left out", part.view, page.path)
    return added


def _contributed(page: extension.Page) -> Page:
    async def view(visit: Visit) -> msgspec.Struct:
        # Imported at the first visit, as few processes have one.
        return await load(page.view)(visit)  # type: ignore[no-any-return]

    return Page(path=page.path, view=view, template=_template(page))


def _template(contributed: extension.Page | extension.Part) -> str:
    """Return the name by which `drawing` finds the file."""
    return f"{contributed.view.partition(':')[0]}/{contributed.template}"

"""People who act on pages: forms filled in and sent as a browser does without scripts."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx2

from tests.server.web.pages import HTML, JSON, SITE, Pages


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[dict[str, Any]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            form = {"action": given.get("action"), "method": given.get("method")}
            self.forms.append({**form, "fields": {}, "texts": [], "boxes": {}})
        elif tag in ("input", "textarea") and self.forms and given.get("name"):
            self._add(str(given["name"]), given.get("type") or "text", given.get("value") or "")
        elif tag == "button" and self.forms and given.get("name"):
            self.forms[-1]["fields"].setdefault(given["name"], given.get("value") or "")

    def _add(self, name: str, kind: str, value: str) -> None:
        """What a person types into, and what they tick, is also told apart."""
        form = self.forms[-1]
        if kind == "checkbox":
            form["boxes"][name] = value
        elif kind != "file":
            form["fields"][name] = value
        if kind in ("text", "search"):
            form["texts"].append(name)


def forms_of(text: str) -> list[dict[str, Any]]:
    parser = _Forms()
    parser.feed(text)
    return [form for form in parser.forms if form["method"] == "post"]


def form_of(text: str, action: str, **fields: str) -> dict[str, Any]:
    """The form that is sent there with these fields in it."""
    found = [
        form
        for form in forms_of(text)
        if form["action"].partition("?")[0] == action and form["fields"].items() >= fields.items()
    ]
    assert found, f"no form for {action} with {fields}"
    return found[0]


async def send(pages: Pages, address: str, action: str, filled: dict[str, str], /, **fields: str) -> httpx2.Response:
    """The form of a page with these fields in it, filled in further."""
    form = form_of(await pages.html(address), action, **fields)
    return await pages.http.post(
        form["action"], data={**form["fields"], **filled}, headers={**HTML, "Origin": SITE, "Referer": SITE + address}
    )


async def followed(pages: Pages, answer: httpx2.Response) -> str:
    assert answer.status_code == 303, answer.text
    return await pages.html(answer.headers["location"].partition("#")[0])


async def token(pages: Pages, address: str = "/") -> str:
    found = re.search(r'name="token" value="([^"]+)"', await pages.html(address))
    assert found is not None
    return unescape(found[1])


async def post(pages: Pages, path: str, /, **fields: str) -> httpx2.Response:
    """As a program does that took a token from a page."""
    form = {"token": await token(pages), **fields}
    return await pages.http.post(path, data=form, headers={**JSON, "Origin": SITE})

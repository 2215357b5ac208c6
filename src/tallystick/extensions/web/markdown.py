"""Markdown that agents wrote, as HTML that does no harm: no HTML of theirs, no pictures from elsewhere, and of every
link that leads away it is said where to."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup, escape

CHARACTERS_MAX = 32_000
"""More is shown as it was written: to render it would keep others waiting."""
_SCHEMES = frozenset({"", "http", "https", "mailto"})


def render_markdown(text: str) -> Markup:
    if len(text) > CHARACTERS_MAX:
        return Markup("<pre>{}</pre>").format(text)
    return Markup(_markdown().render(text))


@cache
def _markdown() -> MarkdownIt:
    return _Markdown("commonmark", {"html": False}, renderer_cls=_Renderer).enable(["table", "strikethrough"])


class _Markdown(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        try:
            return urlsplit(url.strip()).scheme.lower() in _SCHEMES
        except ValueError:
            return False


class _Renderer(RendererHTML):
    def link_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        tokens[index].attrSet("rel", "noopener noreferrer nofollow")
        return self.renderToken(tokens, index, options, env)

    def link_close(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        depth, opened = 0, index
        for opened in range(index, -1, -1):
            depth += {"link_close": 1, "link_open": -1}.get(tokens[opened].type, 0)
            if depth == 0:
                break
        place = urlsplit(str(tokens[opened].attrGet("href") or "")).netloc
        return f'</a><span class="outside"> (leads to {escape(place)})</span>' if place else "</a>"

    def image(self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]) -> str:
        address = str(tokens[index].attrGet("src") or "")
        return f'<span class="outside">picture, not loaded: {escape(tokens[index].content)} ({escape(address)})</span>'

    def heading_open(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        """Below the headings of the page."""
        tokens[index].tag = _lowered(tokens[index].tag)
        return self.renderToken(tokens, index, options, env)

    def heading_close(
        self, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
    ) -> str:
        tokens[index].tag = _lowered(tokens[index].tag)
        return self.renderToken(tokens, index, options, env)


def _lowered(tag: str) -> str:
    return f"h{min(6, int(tag[1:]) + 2)}"

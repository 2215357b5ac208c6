"""What judges the pages is judged: each kind of fault, in a page that has it, is seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.browser.harness import Browser, Look

POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'"
GOOD = '<!doctype html><html lang="en"><title>page</title><main><h1>Page</h1>{}</main></html>'


@contextmanager
def served(body: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/" else 204)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            if self.path == "/":
                self.wfile.write(GOOD.format(body).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_a_good_page_has_no_faults(browser: Browser) -> None:
    with served('<p>text</p><a href="/there">a link</a>') as address, browser.visit(address) as visit:
        visit.open("/")
        assert visit.axe() == []
        assert visit.overflow() == []
        assert [stop.is_seen for stop in visit.tab_stops()] == [True]
        assert len(visit.controls()) == 1
        assert visit.faults == []


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ('<img src="data:,">', "image-alt"),
        ('<p style="color: #bbb; background: #fff">pale</p>', "color-contrast"),
        ('<input type="text">', "label"),
    ],
)
def test_what_some_people_cannot_use_is_seen(browser: Browser, body: str, rule: str) -> None:
    with served(body) as address, browser.visit(address) as visit:
        visit.open("/")
        assert [fault.partition(":")[0] for fault in visit.axe()] == [rule]


@pytest.mark.parametrize(
    "body",
    [
        "<script>document.title = 'mine'</script>",
        '<button onclick="document.title = 1" id="pressed">go</button>',
        '<img alt="" src="http://127.0.0.1:9/pixel.png">',
    ],
)
def test_what_the_policy_of_the_page_refuses_is_counted(browser: Browser, body: str) -> None:
    with served(body) as address, browser.visit(address) as visit:
        visit.open("/")
        assert any("refused by the policy" in fault for fault in visit.faults), visit.faults


def test_what_does_not_fit_into_the_window_is_seen_unless_it_scrolls_by_itself(browser: Browser) -> None:
    wide = '<div style="width: 900px">wide</div>'
    look = Look(width=320)
    with served(wide) as address, browser.visit(address, look) as visit:
        visit.open("/")
        assert len(visit.overflow()) == 1
    scrolling = f'<div style="overflow-x: auto; max-width: 100%" tabindex="0">{wide}</div>'
    with served(scrolling) as address, browser.visit(address, look) as visit:
        visit.open("/")
        assert visit.overflow() == []


def test_a_page_at_two_hundred_percent_has_half_of_the_window(browser: Browser) -> None:
    with served("text") as address, browser.visit(address, Look(width=1280, zoom=2)) as visit:
        visit.open("/")
        assert visit.page.evaluate("innerWidth") == 640


def test_a_focus_that_nobody_sees_is_seen(browser: Browser) -> None:
    body = '<style>a {outline: none}</style><a href="/there">there</a><button>other</button>'
    with served(body) as address, browser.visit(address) as visit:
        visit.open("/")
        assert [stop.is_seen for stop in visit.tab_stops()] == [False, True]

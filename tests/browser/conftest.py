from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.harness import Browser, browsing


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found

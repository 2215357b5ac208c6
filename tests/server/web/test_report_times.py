"""From a question to the report that answers it, counted over restarts and in bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.extensions.web.report_times import BYTES_MAX, FILE_NAME, KEPT, ReportTimes, report_seconds
from tests.server.web.pages import HTML, Pages, serving_pages

pytestmark = pytest.mark.anyio

ADA, GRACE = ("default", "ada", ""), ("default", "grace", "")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def answered(times: ReportTimes, clock: Clock, system: Path, *seconds: float) -> None:
    for took in seconds:
        times.asked(ADA)
        clock.now += took
        times.exported(ADA, system)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_what_was_counted_outlives_the_process(tmp_path: Path, clock: Clock) -> None:
    assert report_seconds(tmp_path) is None
    answered(ReportTimes(clock), clock, tmp_path, 10, 30)
    answered(ReportTimes(clock), clock, tmp_path, 20)
    found = report_seconds(tmp_path)
    assert found is not None
    assert (found.reports, found.median, found.longest) == (3, 20.0, 30.0)


def test_two_who_serve_one_memory_count_together_and_each_knows_who_asked_it(tmp_path: Path, clock: Clock) -> None:
    one, other = ReportTimes(clock), ReportTimes(clock)
    one.asked(ADA)
    other.asked(GRACE)
    clock.now += 5
    other.exported(ADA, tmp_path)
    assert report_seconds(tmp_path) is None
    one.exported(ADA, tmp_path)
    other.exported(GRACE, tmp_path)
    found = report_seconds(tmp_path)
    assert found is not None
    assert found.reports == 2


def test_the_file_stays_small_and_the_newest_count(tmp_path: Path, clock: Clock) -> None:
    answered(ReportTimes(clock), clock, tmp_path, *[1000.0] * KEPT, *[7.0] * 3 * KEPT)
    found = report_seconds(tmp_path)
    assert found is not None
    assert (found.reports, found.longest) == (KEPT, 7.0)
    assert (tmp_path / FILE_NAME).stat().st_size <= BYTES_MAX


def test_lines_that_are_no_times_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"12.5\nnan\n-3\n1e9\n<script>\n\xff\xfe\n7.5\n4")
    found = report_seconds(tmp_path)
    assert found is not None
    assert (found.reports, found.longest) == (3, 12.5)


def test_an_export_is_given_where_nothing_can_be_kept(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / FILE_NAME).mkdir()
    answered(ReportTimes(clock), clock, tmp_path, 10)
    assert report_seconds(tmp_path) is None


async def test_governance_tells_it_after_a_restart(tmp_path: Path) -> None:
    async def export(pages: Pages) -> None:
        await pages.html("/entities/plan")
        (await pages.http.get("/entities/plan?export=json", headers=HTML)).raise_for_status()

    async with serving_pages(tmp_path) as pages:
        await pages.node("plan")
        await export(pages)
    async with serving_pages(tmp_path) as pages:
        assert (await pages.json("/governance"))["reports"]["reports"] == 1
        await export(pages)
        assert (await pages.json("/governance"))["reports"]["reports"] == 2

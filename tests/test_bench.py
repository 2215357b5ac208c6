"""The benchmarks' own arithmetic, tables, plot and clients: figures that are published must be worked out well."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import SECTIONS, Row, load, percentile
from bench.plot import Axis, draw
from bench.processes import module, program
from bench.report import PAGE, Results, between, drawn, marked_down, tables
from bench.soak import Sample, slopes
from bench.talking import Lines, Refused, Speaker, call_line, speak, talk

HUNDRED = list(range(1, 101))


@pytest.mark.parametrize(
    ("taken", "percent", "expected"),
    [(HUNDRED, 50, 51), (HUNDRED, 95, 96), (HUNDRED, 99, 100), (HUNDRED, 100, 100), ([7], 95, 7), ([3, 1, 2], 50, 2)],
)
def test_a_percentile_is_one_of_the_values(taken: list[float], percent: float, expected: float) -> None:
    assert percentile(taken, percent) == expected


@pytest.mark.parametrize(
    ("row", "to_target", "to_peer"),
    [
        (Row("read", 5, "ms", 10, "less", 50, "peer"), 2, 10),
        (Row("rate", 5, "/s", 10, "more", 50, "peer"), 0.5, 0.1),
        (Row("size", 5, "GB"), None, None),
        (Row("nothing", 0, "ms", 10), None, None),
    ],
)
def test_a_ratio_above_one_is_better_whichever_way_better_is(
    row: Row, to_target: float | None, to_peer: float | None
) -> None:
    assert (row.ratio, row.ratio_to_peer) == (to_target, to_peer)


CURVE = [
    Row("get, CPU a call", 0.5, "ms", peer=0.6, beside="peer", at=100),
    Row("get, CPU a call", 0.6, "ms", peer=300, beside="peer", at=50_000),
]
PLAIN = [Row("growth", 1.2, "×", 1.5, peer=500, beside="peer"), Row("bytes", 12_345, "bytes")]


def test_sizes_are_columns_and_the_rest_are_rows() -> None:
    curves, plain = tables(CURVE + PLAIN)
    assert curves == [
        ("", "at 100", "at 50,000"),
        ("get, CPU a call", "0.5 / 0.6 ms (×1.2)", "0.6 / 300 ms (×500)"),
    ]
    assert plain == [
        ("", "measured", "target", "to target", "to peer"),
        ("growth", "1.2 ×", "< 1.5 ×", "×1.25", "×417 peer"),
        ("bytes", "12,345 bytes", "", "", ""),
    ]
    assert marked_down(curves).splitlines()[1] == "| --- | ---: | ---: |"
    assert len({len(line) for line in drawn(plain).splitlines()[:2]}) == 1


KEPT = {"when": "2026-01-02T03:04:05+00:00", "quick": False, "seconds": 1, "rows": []}


def test_results_of_several_runs_are_kept_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    Results(file).add("peers", PLAIN, quick=True, seconds=1)
    Results(file).add("doors", CURVE, quick=True, seconds=1)
    Results(file).add("peers", CURVE, quick=False, seconds=2)
    kept = Results(file)
    assert (kept.rows("peers"), kept.rows("doors"), kept.rows("load")) == (CURVE, CURVE, [])
    assert json.loads(file.read_text())["peers"]["on"]["Python"]
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_the_page_keeps_its_words_and_has_a_place_for_every_section(tmp_path: Path) -> None:
    page, plot = tmp_path / "page.md", tmp_path / "plot.svg"
    page.write_text(PAGE.read_text())
    results = Results(None)
    for section in SECTIONS:
        results.add(section, CURVE + PLAIN, quick=True, seconds=1)
    results.write_docs(page, plot)
    once = page.read_text()
    results.write_docs(page, plot)
    assert page.read_text() == once
    assert once.count("**not to be quoted.**") == len(SECTIONS)
    for section in (*SECTIONS, "machine"):
        once = between(once, section, "")
        assert between(PAGE.read_text(), section, "").count(f"<!-- {section} -->") == 1
    empty = PAGE.read_text()
    for section in (*SECTIONS, "machine"):
        empty = between(empty, section, "")
    assert once == empty


PLACES = """
<!-- machine --><!-- /machine -->
## Beside others, by pipe
<!-- peers --><!-- /peers -->
### Doors
<!-- doors --><!-- /doors -->
## Load
<!-- load --><!-- /load -->
"""


def test_each_machine_is_shown_once_and_names_what_was_measured_on_it(tmp_path: Path) -> None:
    results, page = tmp_path / "results.json", tmp_path / "page.md"
    page.write_text(PLACES)
    machines = {"load": {"cores": "2"}, "doors": {"cores": "4"}, "peers": {"cores": "2", "Node": "22"}}
    results.write_text(json.dumps({name: KEPT | {"on": machine} for name, machine in machines.items()}))
    Results(results).write_docs(page, tmp_path / "plot.svg")
    told = page.read_text().partition("<!-- /machine -->")[0]
    first, second = told.split("Measured here: ")[1:]
    assert first.splitlines()[0] == "[Beside others, by pipe](#beside-others-by-pipe), [Load](#load)."
    assert ("| cores | 2 |" in first, "| Node | 22 |" in first) == (True, True)
    assert second.splitlines()[0] == "[Doors](#doors)."
    assert ("| cores | 4 |" in second, "Node" in second) == (True, False)


def test_a_page_without_a_place_is_not_written() -> None:
    with pytest.raises(SystemExit, match="no place for peers"):
        between("words", "peers", "told")


def test_the_plot_is_well_formed_and_has_two_lines_for_each_curve() -> None:
    svg = ElementTree.fromstring(draw(CURVE))
    name = "{http://www.w3.org/2000/svg}"
    panels = svg.findall(f"{name}g")
    assert len(panels) == 1
    lines = panels[0].findall(f"{name}polyline")
    heights = [[float(point.split(",")[1]) for point in line.attrib["points"].split()] for line in lines]
    theirs, ours = heights
    assert theirs[0] - theirs[1] > 10 * abs(ours[0] - ours[1])


def test_an_axis_reaches_from_one_power_of_ten_to_another() -> None:
    axis = Axis([0.3, 42], 0, 300)
    assert axis.ticks == [0.1, 1, 10, 100]
    assert [axis.place(value) for value in (0.1, 1, 100)] == [0, 100, 300]
    assert Axis([10, 10], 0, 1).ticks == [10, 100]


# -- processes and clients

ANSWERS = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        error = asked.get("params", {}).get("name") == "broken"
        sum(range(200_000))
        print(json.dumps({"id": asked["id"], "result": {"isError": error, "structuredContent": {}}},
              separators=(",", ":")), flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="CPU of other processes is asked of Linux")
def test_a_servers_cpu_is_its_own_and_not_the_clients(tmp_path: Path) -> None:
    with program([sys.executable, "-c", ANSWERS], {}, working=tmp_path) as server:
        lines = Lines(server)
        lines.begin()
        taken: list[float] = []
        calls = [call_line(number, "any", {}) for number in range(20)]
        worked = server.cpu_of(lambda: taken.extend(lines.time_calls(calls, seconds=60)))
        idle = server.cpu_of(lambda: sum(range(5_000_000)))
        assert len(taken) == 20
        assert idle < worked
        with pytest.raises(Refused):
            lines.call("broken", {})
        with pytest.raises(Refused):
            lines.time_calls([call_line(1, "broken", {})], seconds=60)


def test_every_client_is_answered_and_every_answer_counted(tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"note-0": {"entity": None, "position": 0}}))
    with module("bench.plain", "sdk", str(answers)) as server:

        def begin(entity_id: str) -> list[float]:
            speaker = Speaker.in_session(server.port)
            ask = lambda number: speaker.call("read", "memory.read", {"entity_id": entity_id}, number)  # noqa: E731
            return talk(server.port, speak(3, 5, lambda: ask)).taken["read"]

        assert len(begin("note-0")) == 15
        with pytest.raises(Refused):
            begin("unknown")
    with pytest.raises(ConnectionRefusedError):
        Speaker(server.port, "/mcp").post(b"{}")


@pytest.mark.parametrize(
    ("memory", "files", "flat"),
    [
        (0, 0, [True] * 5),
        (100, 0, [True] * 5),
        (5_000, 0, [False, False, True, True, True]),
        (0, 1, [True, True, False, True, True]),
    ],
    ids=["as before", "its history", "a leak of memory", "a leak of files"],
)
def test_what_a_soak_finds_to_grow_is_what_grew(memory: int, files: int, flat: list[bool]) -> None:
    samples = [
        Sample(float(number), 10 * number, 10**8 + 10 * number * memory, 30 + number * files, 12, 5)
        for number in range(100)
    ]
    assert [each.is_flat for each in slopes(samples)] == flat


def test_agents_who_think_between_their_calls_are_all_answered(tmp_path: Path) -> None:
    told = list(load.agents(tmp_path, many=8, seconds=0.5, rate=100.0, nodes=20))
    assert "8 agents" in told[-2]
    assert "no error" in told[-2]
    assert sum(int(line.split()[1]) for line in told[:-2]) >= 8

"""The report: rows as tables for a terminal and for a page, all of them as JSON, and the page itself."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from bench import SECTIONS, Row
from bench.plot import draw

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "benchmarks.md"
PLOT = DOCS / "benchmarks.svg"
HEAD = ("", "measured", "target", "to target", "to peer")

Table = list[tuple[str, ...]]


def tables(rows: Sequence[Row]) -> list[Table]:
    """One for the curves, with a column for each size, and one for the rest; each begins with its head."""
    curves = [row for row in rows if row.at is not None]
    plain = [row for row in rows if row.at is None]
    both: list[Table] = [_curves(curves), [HEAD, *map(_cells, plain)]]
    return [table for table in both if len(table) > 1]


def drawn(table: Table) -> str:
    """For a terminal."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in table
    )


def marked_down(table: Table) -> str:
    head, *rows = table
    rule = ("---", *("---:" for _ in head[1:]))
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def _curves(rows: Sequence[Row]) -> Table:
    sizes = sorted({row.at for row in rows if row.at is not None})
    table: Table = [("", *(f"at {size:,}" for size in sizes))]
    for what, group in groupby(rows, key=lambda row: row.what):
        by_size = {row.at: row for row in group}
        table.append((what, *(_point(by_size[size]) if size in by_size else "" for size in sizes)))
    return table


def _point(row: Row) -> str:
    """Ours, and behind the stroke the peer's, with the ratio of the two."""
    if row.peer is None or row.ratio_to_peer is None:
        return f"{_number(row.measured)} {row.unit}"
    return f"{_number(row.measured)} / {_number(row.peer)} {row.unit} (×{_number(row.ratio_to_peer)})"


def _cells(row: Row) -> tuple[str, str, str, str, str]:
    bound = "≥" if row.better == "more" else "<"
    target = "" if row.target is None else f"{bound} {_number(row.target)} {row.unit}"
    ratio = "" if row.ratio is None else f"×{_number(row.ratio)}"
    beside = "" if row.ratio_to_peer is None else f"×{_number(row.ratio_to_peer)} {row.beside}"
    return row.what, f"{_number(row.measured)} {row.unit}", target, ratio, beside


def _number(value: float) -> str:
    """Three digits that count; from a thousand on, whole."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.1g}"


# -- what was measured, on what


def circumstances() -> dict[str, str]:
    """The machine and the versions that figures come from."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "file system": _file_system(),
        "Python": platform.python_version(),
        **{name: version(name) for name in ("tallystick", "mcp", "uvicorn", "uvloop")},
        **_node_versions(),
    }


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _file_system() -> str:
    """Of the directory for temporary files, where everything is measured."""
    import tempfile

    mounts = (line.split() for line in _text(Path("/proc/mounts")).splitlines())
    place = Path(tempfile.gettempdir()).resolve()
    over = [(len(mount[1]), mount[2]) for mount in mounts if place.is_relative_to(mount[1])]
    return max(over)[1] if over else "unknown"


def _node_versions() -> dict[str, str]:
    from bench.peers import NODE, SCRIPT

    if not (NODE.exists() and SCRIPT.exists()):
        return {}
    node = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    package = json.loads((SCRIPT.parents[1] / "package.json").read_text())
    return {"Node": node.removeprefix("v"), "server-memory": str(package["version"])}


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


class Results:
    """By section, kept in a file; a section that is measured again takes the place of its former self."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._sections: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file and file.exists() else {}

    def add(self, section: str, rows: Sequence[Row], *, quick: bool, seconds: float) -> None:
        """Written at once, so that a run that is broken off loses nothing."""
        self._sections[section] = {
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "quick": quick,
            "seconds": round(seconds),
            "on": circumstances(),
            "rows": [row._asdict() | {"to_target": row.ratio, "to_peer": row.ratio_to_peer} for row in rows],
        }
        if self._file is not None:
            fresh = self._file.with_suffix(".new")
            fresh.write_text(json.dumps(self._sections, indent=1, ensure_ascii=False) + "\n")
            fresh.rename(self._file)

    def rows(self, section: str) -> list[Row]:
        told = self._sections.get(section, {}).get("rows", [])
        return [Row(**{name: row[name] for name in Row._fields}) for row in told]

    def write_docs(self, page: Path = PAGE, plot: Path = PLOT) -> None:
        """Only between the markers; the words around them are people's."""
        text = page.read_text()
        for section in SECTIONS:
            if section in self._sections:
                text = between(text, section, self._told(section))
        page.write_text(between(text, "machine", self._machines(text)))
        if curves := [row for row in self.rows("peers") if row.at is not None]:
            plot.write_text(draw(curves))

    def _told(self, section: str) -> str:
        kept = self._sections[section]
        quick = "A quick run, to see that it works: **not to be quoted.** " if kept["quick"] else ""
        said = f"{quick}Measured {kept['when'][:10]} in {kept['seconds']} s."
        return "\n\n".join([said, *map(marked_down, tables(self.rows(section)))])

    def _machines(self, page: str) -> str:
        measured = [section for section in SECTIONS if section in self._sections]
        return "\n\n".join(
            f"Measured here: {', '.join(_link(page, section) for section in sections)}.\n\n"
            + marked_down([("", "value"), *machine.items()])
            for machine, sections in _machines((section, self._sections[section]["on"]) for section in measured)
        )


def between(text: str, name: str, told: str) -> str:
    """`text` with what stands between the markers of this name replaced."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before, found, rest = text.partition(begin)
    _, found_too, after = rest.partition(end)
    if not (found and found_too):
        raise SystemExit(f"there is no place for {name} on the page: {begin} and {end} are missing")
    return f"{before}{begin}\n{told}\n{end}{after}"


def _machines(measured: Iterable[tuple[str, dict[str, str]]]) -> list[tuple[dict[str, str], list[str]]]:
    """Each with its sections. One where Node was not installed is the same as one where it was."""
    found: list[tuple[dict[str, str], list[str]]] = []
    for section, on in measured:
        for machine, sections in found:
            if all(machine.get(name, value) == value for name, value in on.items()):
                machine.update(on)
                sections.append(section)
                break
        else:
            found.append((dict(on), [section]))
    return found


def _link(page: str, section: str) -> str:
    """To the heading that the section stands under."""
    heading = re.findall(r"^#+ (.+)$", page.partition(f"<!-- {section} -->")[0], re.MULTILINE)[-1]
    return f"[{heading}](#{re.sub(r'[^a-z0-9 _-]', '', heading.lower()).replace(' ', '-')})"

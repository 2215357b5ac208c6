"""The paths in a task's Context Files, in whatever form they were written."""

from __future__ import annotations

import pytest

from tallystick.toolsets.knowledge.context_files import context_files, is_context_files

TABLE: list[tuple[str, list[str]]] = [
    ("src/a.ts\nsrc/b.ts", ["src/a.ts", "src/b.ts"]),
    ("src/a.ts, src/b.ts,src/c.ts", ["src/a.ts", "src/b.ts", "src/c.ts"]),
    ("src/a.ts, src/b.ts\nsrc/c.ts\n\n", ["src/a.ts", "src/b.ts", "src/c.ts"]),
    ("# heading\n// comment\n\nsrc/a.ts", ["src/a.ts"]),
    (
        "- src/a.ts\n* src/b.ts\n+ src/c.ts\n1. src/d.ts\n2) src/e.ts",
        ["src/a.ts", "src/b.ts", "src/c.ts", "src/d.ts", "src/e.ts"],
    ),
    ("- [ ] src/a.ts\n- [x] src/b.ts", ["src/a.ts", "src/b.ts"]),
    ("- `src/a.ts` the page\n- see `src/b.ts`, `src/c.ts`", ["src/a.ts", "src/b.ts", "src/c.ts"]),
    (
        "src/a.ts — the page\nsrc/b.ts - the cart\nsrc/c.ts (new)\nsrc/d.ts: totals",
        ["src/a.ts", "src/b.ts", "src/c.ts", "src/d.ts"],
    ),
    ("src/a.ts — reads, writes\nsrc/b.ts", ["src/a.ts", "src/b.ts"]),
    ("src/a.ts — one, src/b.ts — two", ["src/a.ts", "src/b.ts"]),
    ("src/a.ts (reads, writes), src/b.ts", ["src/a.ts", "src/b.ts"]),
    ("app/(shop)/[id]/page.tsx", ["app/(shop)/[id]/page.tsx"]),
    ("src/pages/**\nsrc/x-*.ts", ["src/pages/**", "src/x-*.ts"]),
    ("\"src/a.ts\", 'src/b.ts'", ["src/a.ts", "src/b.ts"]),
    ("[the page](src/a.ts)", ["src/a.ts"]),
    ("Makefile\nDockerfile", ["Makefile", "Dockerfile"]),
    ("This sentence is no path.\nsrc/a.ts", ["src/a.ts"]),
    ("```\nsrc/a.ts\n```", ["src/a.ts"]),
    ("| file | why |\n|---|---|", []),
    ("none", []),
    ("N/A", []),
    ("https://example.org/src/a.ts", []),
    ("src/a.ts\nsrc/a.ts,src/a.ts", ["src/a.ts"]),
    ("./src/a.ts", ["./src/a.ts"]),
    ("src/a.ts\r\nsrc/b.ts\r\n", ["src/a.ts", "src/b.ts"]),
    ("", []),
]


@pytest.mark.parametrize(("content", "paths"), TABLE, ids=[repr(row[0][:30]) for row in TABLE])
def test_paths_are_found_in_whatever_form_they_were_written(content: str, paths: list[str]) -> None:
    assert context_files(content) == paths


def test_the_section_is_known_by_its_title_in_any_case() -> None:
    titles = ["Context Files", "the CONTEXT FILES of this task", "Context", "Files"]
    assert [is_context_files(title) for title in titles] == [True, True, False, False]

"""The paths in a task's Context Files, in whatever form they were written."""

from __future__ import annotations

import pytest

from tallystick.toolsets.knowledge.context_files import context_files, is_context_files
from tests.promises import promise

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
    ("- `src/a.ts` the page\n- `src/b.ts`, `src/c.ts`", ["src/a.ts", "src/b.ts", "src/c.ts"]),
    # A path stands first, and what follows it is a note, in backticks or not.
    ("- src/c.ts — calls `charge()`", ["src/c.ts"]),
    ("- src/c.ts calls `charge()`, `refund()`", ["src/c.ts"]),
    ("- `src/c.ts` — was `src/old/c.ts`", ["src/c.ts"]),
    ("- src/c.ts — imports src/d.ts, src/e.ts", ["src/c.ts"]),
    ("- src/c.ts — wraps `src/d.ts`, `src/e.ts`", ["src/c.ts"]),
    ("- see `src/b.ts`, `src/c.ts`", []),
    ("- `charge()` is called here\n- `src/a.ts`", ["src/a.ts"]),
    ("Makefile — builds\nMakefile the builder of `src/a.ts`", ["Makefile"]),
    ("package.json the manifest", ["package.json"]),
    ("**src/a.ts** the page\n- **`src/b.ts`**: the cart\n**/x/**", ["src/a.ts", "src/b.ts", "**/x/**"]),
    ("[the page](src/a.ts) calls `charge()`", ["src/a.ts"]),
    # A mixed list keeps every path.
    ('`src/a.ts`, src/b.ts, [c](src/c.ts), "src/d.ts"', ["src/a.ts", "src/b.ts", "src/c.ts", "src/d.ts"]),
    ("src/a.ts, `src/b.ts` — calls `charge()`", ["src/a.ts", "src/b.ts"]),
    ("- src/a.ts — calls `charge()`, `src/b.ts` — is called", ["src/a.ts", "src/b.ts"]),
    ("- src/a.ts — the page, src/b.ts, src/c.ts", ["src/a.ts", "src/b.ts", "src/c.ts"]),
    ("`src/a.ts, src/b.ts`, src/c.ts", ["src/a.ts", "src/b.ts", "src/c.ts"]),
    ("- `src/a.ts`\n- src/b.ts\n- `src/c.ts` (new), src/d.ts", ["src/a.ts", "src/b.ts", "src/c.ts", "src/d.ts"]),
    ("src/{a,b}.ts, src/c.ts", ["src/{a,b}.ts", "src/c.ts"]),
    ("https://example.org/x, src/a.ts", ["src/a.ts"]),
    ("src/a.ts:10, `src/b.ts#L5-L9`, src/c.ts:1-20: the loop", ["src/a.ts", "src/b.ts", "src/c.ts"]),
    ("src/x/ — everything", ["src/x/"]),
    ("`, `` `", []),
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


@promise("K33", "context files are read in whatever form they were written")
@pytest.mark.parametrize(("content", "paths"), TABLE, ids=[repr(row[0][:30]) for row in TABLE])
def test_paths_are_found_in_whatever_form_they_were_written(content: str, paths: list[str]) -> None:
    assert context_files(content) == paths


def test_the_section_is_known_by_its_title_in_any_case() -> None:
    titles = ["Context Files", "the CONTEXT FILES of this task", "Context", "Files"]
    assert [is_context_files(title) for title in titles] == [True, True, False, False]


@pytest.mark.parametrize("unit", [",", " ", "`", "{", "{,", "(", " (", ":1", "[", "**", "a.", "- ", "`,`", '"', "{a,"])
def test_no_content_takes_long_to_read(unit: str) -> None:
    """Ten times the work of a tenth, not a hundred times: or this would not end."""
    context_files("src/a.ts" + unit * 100_000)

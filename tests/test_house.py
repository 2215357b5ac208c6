"""The house: directions hold, and everything there is has been written down."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import tallystick
from tallystick import app, cli, config, errors
from tests import house

ROOT = Path(__file__).parent.parent
TOOLSETS = app.toolsets(config.load(environ={}))
SOURCE = ROOT / "src" / "tallystick"
DOCS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "plugins").rglob("*.md"))]
MAPS = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]


def test_imports_go_downwards_only() -> None:
    # A process of its own, since the linter sets up logging as it likes.
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says(reference: ModuleType) -> None:
    stale = [path.name for path, text in reference.pages().items() if path.read_text("utf-8") != text]
    assert stale == [], "run make docs"


def test_every_tool_setting_error_and_command_is_documented() -> None:
    pages = {page.stem: page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md")}
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TallystickError)
    ]
    assert [
        tool.name for toolset in TOOLSETS for tool in toolset.tools if f"### {tool.name}\n" not in pages["tools"]
    ] == []
    assert [row.name for row in config.table() if f"`{row.name}`" not in pages["settings"]] == []
    assert [kind.code for kind in kinds if f"`{kind.code}`" not in pages["errors"]] == []
    assert [name for name in (*cli.COMMANDS, *cli.GROUPS) if f"## {name}\n" not in pages["commands"]] == []


def test_every_toolset_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [toolset.name for toolset in TOOLSETS if f"| {toolset.name} |" not in readme] == []


def test_every_error_kind_has_an_exit_code_and_only_bad_news_is_one() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TallystickError)
    ]
    assert {cli.exit_code(kind) for kind in kinds} <= set(range(1, 8))
    assert cli.EXIT_BUG not in cli.EXIT_CODES.values()


def _shell_lines() -> Iterator[tuple[str, str]]:
    for page in DOCS:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            for line in block.splitlines():
                yield page.name, line.strip()


def _commands_in(line: str) -> Iterator[list[str]]:
    """The words after each `tallystick` that is run in a line of shell."""
    lexer = shlex.shlex(line.removesuffix("\\"), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for ends, words in groupby(lexer, lambda word: word == "--" or set(word) <= set("|;&<>()")):
        found = list(words)
        if not ends and found[0] == "tallystick":
            yield found[1:]


@cache
def _whole_command_line() -> Any:
    return typer.main.get_command(cli.command_line())


def _command(words: list[str]) -> Any:
    """The command that the first words name; None when there is none."""
    found: Any = _whole_command_line()
    for word in words:
        if not hasattr(found, "commands") or (word not in found.commands and found.params and words[0] != word):
            break
        found = found.commands.get(word)
    return found


def _is_right(words: list[str]) -> bool:
    command = _command(words)
    if not words or command is None or words[0].startswith("-"):
        return words in ([], ["--version"], ["--help"], ["--install-completion"])
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return all(word in options | {"-", "-h", "--help"} for word in words if word.startswith("-"))


def test_the_commands_in_the_documentation_exist() -> None:
    wrong = [
        f"{page}: {' '.join(words)}"
        for page, line in _shell_lines()
        for words in _commands_in(line)
        if not _is_right(words)
    ]
    assert wrong == []
    assert sum(1 for _, line in _shell_lines() for _ in _commands_in(line)) > 30, "the documentation shows how"


def test_the_links_in_the_documentation_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}#{anchor}"
        for page in DOCS
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text("utf-8"))
        if not _leads_to(page.parent / target if target else page, anchor)
    ]
    assert broken == []


def _leads_to(target: Path, anchor: str) -> bool:
    return target.exists() and (not anchor or anchor in _anchors(target.read_text("utf-8")))


def _anchors(text: str) -> list[str]:
    """Of each heading, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_every_place_on_the_maps_exists() -> None:
    named = {
        (page.name, word) for page in MAPS for word in re.findall(r"`([\w./]+(?:\.py|/))`", page.read_text("utf-8"))
    }
    places = (SOURCE, ROOT)
    missing = [(page, word) for page, word in sorted(named) if not any((place / word).exists() for place in places)]
    assert missing == []
    assert len(named) > 30, "there is a map"


def test_everything_in_the_source_is_on_the_map() -> None:
    code_map = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    places = [f"{each.name}/" if each.is_dir() else each.name for each in SOURCE.iterdir()]
    code = [place for place in places if place.endswith((".py", "/")) and place not in ("__init__.py", "__pycache__/")]
    assert [place for place in sorted(code) if f"`{place}`" not in code_map] == []


def test_the_messages_that_runbooks_explain_are_those_of_the_code() -> None:
    source = "".join(path.read_text("utf-8") for path in SOURCE.rglob("*.py"))
    joined = re.sub(r'"\s*f?"', "", source)
    rows = [
        (page.name, row)
        for page in (ROOT / "docs" / "runbooks").glob("*.md")
        for row in re.findall(r"^\| (`.*?) \|", page.read_text("utf-8"), re.MULTILINE)
    ]
    messages = [(page, part.strip()) for page, row in rows for part in re.split(r"[`…:,/]", row)]
    assert [(page, part) for page, part in messages if len(part) > 8 and part not in joined] == []
    assert len(messages) > 30, "runbooks explain messages"


def test_every_decision_has_a_number_of_its_own() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1)), "renumber the newest"
    assert [page.name for page in pages if not page.read_text("utf-8").startswith(f"# {int(page.name[:4])}. ")] == []


def test_a_release_has_one_version() -> None:
    entry = json.loads((ROOT / "server.json").read_text("utf-8"))
    bundle = json.loads((ROOT / "packaging" / "manifest.json").read_text("utf-8"))
    told = {entry["version"], bundle["version"], *(package["version"] for package in entry["packages"])}
    assert told == {tallystick.__version__}


def test_every_page_of_the_documentation_is_on_the_site() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    named = [page for section in site for pages in section.values() for page in pages]
    docs = ROOT / "docs"
    assert sorted(named) == sorted(str(page.relative_to(docs)) for page in docs.rglob("*.md"))


def test_every_word_of_the_glossary_stands_in_order() -> None:
    words = re.findall(r"^\| ([a-z ]+) \|", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE)[1:]
    assert words == sorted(words)


def test_the_lock_files_pin_everything_with_hashes_and_name_no_place() -> None:
    for name in ("constraints.txt", "constraints-build.txt", "constraints-dev.txt", "constraints-mutants.txt"):
        text = (ROOT / name).read_text("utf-8")
        pinned = re.split(r"(?<!\\)\n", text.strip())
        assert [
            pin for pin in pinned if not re.match(r"[a-z0-9.-]+(\[.+\])?==\S+", pin) or "--hash=sha256:" not in pin
        ] == []
        assert "://" not in text
        assert " file:" not in text


def test_a_pin_says_the_extras_that_others_want_of_it() -> None:
    """Or pip looks for the newest release with that extra, and refuses it once there is a newer one than the pin."""
    pins = "".join((ROOT / name).read_text("utf-8") for name in ("constraints.txt", "constraints-dev.txt"))
    found = re.findall(r"^([a-z0-9.-]+)\[(.+)\]==", pins, re.MULTILINE)
    pinned = {name: set(extras.split(", ")) for name, extras in found}
    wanted = [Requirement(each) for known in distributions() for each in known.requires or ()]
    needed = [each for each in wanted if each.extras and (each.marker is None or each.marker.evaluate({"extra": ""}))]
    assert needed
    assert [each for each in needed if not each.extras <= pinned.get(canonicalize_name(each.name), set())] == []


def test_every_setting_is_heeded_somewhere() -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py") if path.name != "config.py")
    assert [row.name for row in config.table() if f"settings.{row.name}" not in source] == []


HURRIED = re.compile(
    r"deadline=(?!None)"
    r"|\b(?:communicate|wait|run|result|create_connection)\((?:[^()\n]*, )?timeout=\d*[1-9]"
    r"|\.wait\(\d"
    r"|\bwait_for\([^\n]*, \d+\)"
    r"|asyncio\.timeout\(\d"
)
"""A busy machine may need any time: what hangs is ended by pytest's own timeout, and what cannot be an event waits as
`tests/timeouts.py` says."""


def test_the_chart_takes_every_setting_and_no_other() -> None:
    schema = json.loads((ROOT / "deploy" / "helm" / "tallystick" / "values.schema.json").read_text())
    assert schema["properties"]["settings"]["propertyNames"] == {"enum": [row.name for row in config.table()]}


def test_which_log_is_opened_is_said_in_one_place() -> None:
    """Its own package knows it by name; bench, torture and tests may."""
    sources = [path for path in SOURCE.rglob("*.py") if "FilesLog" in path.read_text()]
    assert {path.relative_to(SOURCE).parts[0] for path in sources if "cluster" not in path.parts} == {"app", "log"}


def test_who_reads_the_files_of_a_log_without_opening_it_is_on_the_map() -> None:
    """The audit log is made of such files itself; whoever else names one has its reason in `Who reads the log`."""
    beside = re.compile(r"from tallystick\.log\.(files|segments|head_file|proof|unopened|restore) import")
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if not path.relative_to(SOURCE).is_relative_to("extensions/cluster")
        and path.relative_to(SOURCE).parts[0] not in ("log", "audit")
        and beside.search(path.read_text("utf-8"))
    }
    assert found == {
        "app/logs.py", "cli/maintenance.py", "extensions/backup/capture.py", "extensions/backup/figures.py",
        "extensions/backup/follow.py", "extensions/backup/inspect.py", "extensions/backup/restore.py",
        "extensions/backup/run.py", "extensions/backup/status.py",
        "extensions/openlineage/registered.py",
        "extensions/proofs/checks.py", "operations/doctor.py", "extensions/web/reports/entity_report.py",
        "operations/forget.py",
        "operations/orphans.py", "operations/rule_scan.py", "operations/shared_logs.py",
        "operations/tenants.py", "operations/transfer.py", "operations/verify.py", "projections/blobs.py",
        "projections/registry.py",
    }  # fmt: skip


def test_no_test_fails_because_the_machine_is_busy() -> None:
    files = (each for each in (ROOT / "tests").rglob("*.py") if "node_modules" not in each.parts)
    hurried = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if HURRIED.search(line) and file != Path(__file__)
    ]
    assert hurried == []


def test_no_private_name_of_another_project_is_used() -> None:
    trees = {path: ast.parse(path.read_text("utf-8")) for path in sorted((ROOT / "src").rglob("*.py"))}
    nodes = [(path, node) for path, tree in trees.items() for node in ast.walk(tree)]
    ours = {name for _, node in nodes for name in _defined(node)}
    used = [(path.name, name) for path, node in nodes for name in _reached(node)]
    assert [each for each in used if each[1] not in ours | _PUBLISHED] == []


_PUBLISHED = {"_logs", "_log_exporter", "_exit"}
"""OpenTelemetry documents its logs under these names, and Python the end of a process, and has them under no others."""


_PRIVATE = re.compile(r"_[a-z]\w*")


def _defined(node: ast.AST) -> list[str]:
    """Private names that our own code gives to something."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
            return [name]
    return []


def _reached(node: ast.AST) -> list[str]:
    """Private names that are looked up in something else than `self`, and private modules that are imported."""
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls" | "super")):
            return []
        case ast.Attribute(attr=name) if _PRIVATE.fullmatch(name):
            return [name]
        case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr"), args=[_, ast.Constant(value=str(name)), *_]):
            return [name] if _PRIVATE.fullmatch(name) else []
        case ast.ImportFrom(module=str(module), names=names):
            return [part for part in (*module.split("."), *(each.name for each in names)) if _PRIVATE.fullmatch(part)]
        case ast.Import(names=names):
            return [part for each in names for part in each.name.split(".") if _PRIVATE.fullmatch(part)]
    return []


# -- sizes, which may only fall

LINES_OF_THE_CORE_MAX = 57_200
MODULES_LOADED_MAX = 270
FUNCTIONS_WITH_STATE_AND_FILTER_MAX = 217


def test_the_core_does_not_grow() -> None:
    texts = house.sources()
    assert house.lines({path: text for path, text in texts.items() if house.is_core(path)}) <= LINES_OF_THE_CORE_MAX
    assert len(house.functions_with_state_and_filter(texts)) <= FUNCTIONS_WITH_STATE_AND_FILTER_MAX
    assert len(house.modules_at_root()) <= 9


def test_nothing_outside_an_extension_names_it() -> None:
    assert {name: count for name, count in house.files_that_name(house.sources()).items() if count} == {}


def test_a_session_loads_few_modules(tmp_path: Path) -> None:
    assert house.modules_loaded(tmp_path / "base") <= MODULES_LOADED_MAX

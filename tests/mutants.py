"""Mutation testing: which small changes of the code that vouches for memories does no test notice? `make mutants`

    python -m tests.mutants                    all of it, module by module
    python -m tests.mutants tree signed_note   these modules
    python -m tests.mutants --again tree       what survived the last time, after the tests have changed
    python -m tests.mutants --rest tree        what was not asked yet: of a sample, or of functions that have changed
    python -m tests.mutants --show tree        what survived the last time, as differences

Each module is mutated in a directory of its own (`.mutants/<name>`) and asked only of the tests that are named here,
by mutmut, which forks for every mutant and runs those tests that reach the function. `tests/mutants.md` says why what
survives does. Leaves with 1 where fewer than 90 % of a module's mutants are killed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

HERE = Path(__file__).parents[1]
WORK = HERE / ".mutants"
ALONE = "verify_standalone.py"
"""It lies at the top of the repository, the others below `src`."""
KILLED_MIN = 0.9
MEMORY_BYTES_MAX = 4 << 30
"""Of a mutant that does not end."""

MODULES = {
    "reserved_attributes": ("commits/reserved_attributes.py", ["tests/commits/test_reserved_attributes.py"]),
    "commits": ("commits/__init__.py", ["tests/commits/test_commit.py"]),
    "tree": ("commits/tree.py", ["tests/commits/test_tree.py"]),
    "signed_note": (
        "commits/signed_note.py",
        ["tests/commits/test_signed_note.py", "tests/commits/test_quantum_signatures.py"],
    ),
    "witness_request": ("extensions/proofs/witness_request.py", ["tests/extensions/proofs/test_witness_request.py"]),
    "proof_file": (
        "extensions/proofs/proof_file.py",
        ["tests/extensions/proofs/test_proof_file.py", "tests/commits/test_quantum_signatures.py"],
    ),
    "dsse": ("commits/dsse.py", ["tests/commits/test_dsse.py"]),
    "receipt": ("extensions/proofs/receipt.py", ["tests/extensions/proofs/test_receipt.py"]),
    "payloads": ("commits/payloads.py", ["tests/commits/test_payloads.py"]),
    "canonical": ("commits/canonical.py", ["tests/commits/test_canonical.py"]),
    "mask": ("commits/mask.py", ["tests/commits/test_mask.py"]),
    "chain": ("commits/chain.py", ["tests/commits/test_chain.py"]),
    "verify_standalone": (
        ALONE,
        ["tests/test_standalone_parts.py", "tests/test_standalone_files.py"],
    ),
    "log_proof": ("log/proof.py", ["tests/log/test_proof.py"]),
    "proofs": ("extensions/proofs/prove.py", ["tests/extensions/proofs/test_proof_parts.py"]),
    "receipts": ("extensions/proofs/receipts.py", ["tests/extensions/proofs/test_receipt_parts.py"]),
}

SETTINGS = """
[tool.mutmut]
source_paths = ["src", "verify_standalone.py"]
only_mutate = ["{source}"]
pytest_add_cli_args_test_selection = {tests}
pytest_add_cli_args = {options}
timeout_constant = 2.0
timeout_multiplier = 15.0
use_git_change_detection = false
track_dependencies = false
use_setproctitle = false
"""

OPTIONS = [
    *("-p", "tests.mutants", "-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0"),
    *(word for name in ("cacheprovider", "unraisableexception", "threadexception") for word in ("-p", f"no:{name}")),
]
"""For every mutant pytest starts anew."""

ENDED = {1: "killed", 3: "killed", 33: "not reached"} | dict.fromkeys((-24, 24, 36, 152, 255), "without end")
"""By the exit code that mutmut keeps; the others survived."""
NOT_ASKED = 35


class Counts(msgspec.Struct, frozen=True):
    mutants: int
    killed: int
    timeout: int
    """They did not end, which is noticed too."""
    survived: int
    unreached: int

    @property
    def share(self) -> float:
        return (self.killed + self.timeout) / self.mutants if self.mutants else 1.0


def path_of(source: str) -> str:
    return source if source == ALONE else f"src/tallystick/{source}"


def prepare(name: str, *, again: bool) -> Path:
    """With `again` what was found out stays, but about functions that have changed."""
    source, tests = MODULES[name]
    directory = WORK / name
    if not again:
        shutil.rmtree(directory, ignore_errors=True)
    for part in ("src", "tests"):
        ignored = shutil.ignore_patterns("node_modules", "__pycache__")
        shutil.copytree(HERE / part, directory / part, ignore=ignored, dirs_exist_ok=True)
    shutil.copy(HERE / ALONE, directory / ALONE)
    settings = SETTINGS.format(source=path_of(source), tests=json.dumps(tests), options=json.dumps(OPTIONS))
    (directory / "pyproject.toml").write_text((HERE / "pyproject.toml").read_text("utf-8") + settings, "utf-8")
    (directory / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
    return directory


def run(directory: Path, workers: int, mutants: Sequence[str] = ()) -> None:
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(workers), *mutants]
    with (directory / "output.txt").open("wb") as output:
        environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        ran = subprocess.run(
            command, cwd=directory, env=environment, stdout=output, stderr=output, check=False, preexec_fn=_limited
        )
    if ran.returncode:
        sys.exit((directory / "output.txt").read_text("utf-8", "replace").rpartition("Generating mutants")[2])


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))


def results(name: str) -> dict[str, str]:
    """How each mutant ended."""
    meta = WORK / name / "mutants" / f"{path_of(MODULES[name][0])}.meta"
    codes: dict[str, int | None] = json.loads(meta.read_bytes())["exit_code_by_key"]
    return {mutant: ENDED.get(code, "survived") for mutant, code in codes.items() if code is not None}


def counts(name: str) -> Counts:
    ended = list(results(name).values())
    killed, timeout, unreached = (ended.count(each) for each in ("killed", "without end", "not reached"))
    return Counts(len(ended), killed, timeout, len(ended) - killed - timeout - unreached, unreached)


def alive(name: str) -> list[str]:
    return [mutant for mutant, ended in results(name).items() if ended not in ("killed", "without end")]


def show(name: str) -> None:
    from mutmut.configuration import reset_config
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    os.chdir(WORK / name)
    reset_config()
    for mutant in alive(name):
        lines: list[str] = get_diff_for_mutant(mutant, path=path_of(MODULES[name][0])).splitlines()
        changed = [line for line in lines if line[:1] in ("+", "-") and line[:3] not in ("+++", "---")]
        print(mutant.removeprefix("tallystick."), *changed, sep="\n", end="\n\n")


def sampled(name: str, size: int) -> list[str]:
    """Always the same ones, as long as the code is the same; those of a smaller sample are in a larger one."""
    from mutmut.mutation.file_mutation import mutate_file_contents

    source = MODULES[name][0]
    text = (HERE / path_of(source)).read_text("utf-8")
    names = sorted(mutate_file_contents(source, text).mutant_names)
    random.Random(20).shuffle(names)
    module = path_of(source).removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return [f"{module}.{each}" for each in names[:size]]


def pytest_configure() -> None:
    """This module is a plugin of the runs as well."""
    # mutmut asks for a name that pytest 9.2 no longer has.
    if not hasattr(pytest.Item, "_nodeid"):
        setattr(pytest.Item, "_nodeid", property(lambda item: item.nodeid))  # noqa: B010
    # What does not end is to be told from what waits for a busy machine: much time, little of the processor's.
    soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if soft != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_CPU, (soft // 12, hard))


def pytest_sessionfinish(exitstatus: int) -> None:
    """A test that is not found would be taken for one that failed (pytest escapes a list of `ids` again each time)."""
    if exitstatus == pytest.ExitCode.USAGE_ERROR and "." in os.environ["MUTANT_UNDER_TEST"]:
        os._exit(NOT_ASKED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", choices=[[], *MODULES], metavar="MODULE")
    parser.add_argument("--again", action="store_true", help="ask again only of what survived")
    parser.add_argument("--rest", action="store_true", help="ask only of what was not asked yet")
    parser.add_argument("--show", action="store_true", help="print what survived, and run nothing")
    parser.add_argument("--sample", type=int, metavar="N", help="of each module only so many")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    worst = 1.0
    for name in asked.modules or MODULES:
        if asked.show:
            show(name)
            continue
        if asked.rest:
            run(prepare(name, again=True), asked.workers)
        elif not asked.again:
            run(prepare(name, again=False), asked.workers, sampled(name, asked.sample) if asked.sample else ())
        elif left := alive(name):
            run(prepare(name, again=True), asked.workers, left)
        found = counts(name)
        worst = min(worst, found.share)
        print(
            f"{name:<20} {found.mutants:>5} mutants {found.killed:>5} killed {found.timeout:>4} without end "
            f"{found.survived:>4} survived {found.unreached:>4} not reached {found.share:>8.1%}",
            flush=True,
        )
    return 0 if worst >= KILLED_MIN else 1


if __name__ == "__main__":
    sys.exit(main())

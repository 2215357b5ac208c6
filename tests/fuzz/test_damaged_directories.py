"""Whatever is done to the files of a base: verify, doctor and a writer end, tell, and make nothing worse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.budget import SECONDS_MAX, TIMES
from tests.promises import promise

ROOT = Path(__file__).parents[2]
CASES = 96
PARTS = 4


@promise("L55, directories", "whatever is done to the files of a base, everything ends and nothing is made worse")
@pytest.mark.timeout(SECONDS_MAX)
@pytest.mark.parametrize("part", range(PARTS * TIMES))
def test_a_base_with_harmed_files_is_refused_or_settled_and_nothing_hangs(tmp_path: Path, part: int) -> None:
    """The program ends itself, with a traceback, where one case takes a minute."""
    size = CASES // PARTS
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.damaged_bases",
        str(tmp_path),
        str(part * size),
        str((part + 1) * size),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]

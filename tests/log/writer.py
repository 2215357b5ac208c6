"""Appends commits to a files log and prints each lamport once it is acknowledged. Run as a process, to be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from tallystick.errors import HeadMoved, TallystickError
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft, node


def main(system: str, name: str, count: str, segment_bytes_max: str = "4000") -> None:
    log = FilesLog(Path(system), segment_bytes_max=int(segment_bytes_max))
    for number in range(int(count)):
        while True:
            try:
                made = append(log, draft(node(f"{name}-{number}-a"), node(f"{name}-{number}-b", text="x" * 200)))
            except HeadMoved:
                continue
            except TallystickError as error:
                print(error.code, flush=True)
                break
            print(made[-1].commit.lamport, f"{name}-{number}", flush=True)
            break


if __name__ == "__main__":
    main(*sys.argv[1:])

"""python -m torture [--minutes N] [--only NAME] [--seed S] [--json FILE] [--quick] [--docs]"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from torture import arena as arenas
from torture import clocks, cluster, faults, flips, kills, powercuts, report
from torture.arena import Arena, Skipped, Tally

SCENARIOS: dict[str, tuple[str, Callable[[Arena, Tally], None]]] = {
    "kill-commits": ("kill -9 during group commits", kills.killed("commits")),
    "kill-http": ("kill -9 of an HTTP server under eight clients", kills.http),
    "kill-rolls": ("kill -9 while segments roll", kills.killed("commits", segment_bytes_max=2_000)),
    "kill-redactions": ("kill -9 during redactions", kills.killed("redactions", clients=4, segment_bytes_max=20_000)),
    "kill-views": ("kill -9 while views are written", kills.killed("pages", clients=4)),
    "kill-tenants": ("kill -9 while tenants close and open", kills.killed("tenants", clients=8)),
    "kill-snapshots": ("kill -9 of whoever takes a snapshot", kills.snapshots),
    "kill-imports": ("kill -9 during imports", kills.imports),
    "crowd": ("four write, a fifth is killed again and again", kills.crowd),
    "segments": ("several processes and workers start thousands of segments", kills.rolls),
    "inject-errors": ("calls that fail with EIO, ENOSPC, EDQUOT, EMFILE", faults.injected),
    "inject-kills": ("SIGKILL inside a system call", faults.killed_in_call),
    "short-writes": ("RLIMIT_FSIZE: short writes, then EFBIG", faults.limited),
    "full-disk": ("a small disk fills up and is freed again", faults.full),
    "read-only": ("the disk is made read-only and writable again", faults.read_only),
    "power-ext4": ("power cuts on ext4", powercuts.cut("ext4")),
    "power-xfs": ("power cuts on XFS", powercuts.cut("xfs")),
    "power-control": ("power cuts where nothing is synced: must lose", powercuts.control),
    "flips": ("a byte flipped in each kind of file", flips.flipped),
    "clocks": ("the clock jumps backwards", clocks.jumping),
    "cluster-kill-leader": ("three machines: kill -9 of the leader", cluster.suffering(cluster.kill_leader)),
    "cluster-kill-follower": ("three machines: kill -9 of a follower", cluster.suffering(cluster.kill_follower)),
    "cluster-kill-all": ("three machines: kill -9 of all servers", cluster.suffering(cluster.kill_all)),
    "cluster-kill-writer": ("three machines: kill -9 of our process", cluster.suffering(cluster.kill_writer)),
    "cluster-kill-adopting": ("three machines: SIGKILL between publish and adopt", cluster.kill_before_adopting),
    "cluster-stale-leader": ("three machines: the leader stands still", cluster.suffering(cluster.stale_leader)),
    "cluster-cut-minority": ("three machines: leader and writer cut off", cluster.suffering(cluster.cut_minority)),
    "cluster-cut-ring": ("three machines: one link cut", cluster.suffering(cluster.cut_in_ring)),
    "cluster-cut-all": ("three machines: every link cut", cluster.suffering(cluster.cut_all)),
    "cluster-slow": ("three machines: slow and lossy links", cluster.suffering(cluster.slow_and_lossy)),
    "cluster-full-disk": ("three machines: a server's disk is full", cluster.full_disk),
    "cluster-power": ("three machines: power cut of one", cluster.power_cut),
    "cluster-clocks": ("three machines: clocks apart by minutes", cluster.clocks_apart),
    "cluster-damage": ("three machines: a damaged stream file", cluster.suffering(cluster.damaged_stream)),
}


def main() -> int:
    chosen = _arguments()
    logging.disable(logging.CRITICAL)
    names = [name for name in SCENARIOS if not chosen.only or any(word in name for word in chosen.only)]
    tallies: list[Tally] = []
    print(f"seed {chosen.seed}, {len(names)} scenarios, about {chosen.minutes:g} minutes", file=sys.stderr)
    try:
        with arenas.opened(chosen.seed) as arena:
            arena.quick = chosen.quick
            ends = time.monotonic() + chosen.minutes * 60
            for number, name in enumerate(names):
                # What one scenario leaves of its time, the others have.
                arena.until = time.monotonic() + (ends - time.monotonic()) / (len(names) - number)
                tallies.append(suffer(arena, name))
    except KeyboardInterrupt:
        print("interrupted; everything was cleaned up", file=sys.stderr)
        return 130
    print(report.drawn(tallies))
    if chosen.json:
        Path(chosen.json).write_bytes(msgspec.json.format(msgspec.json.encode(tallies), indent=2) + b"\n")
    if chosen.docs:
        report.publish(tallies, minutes=chosen.minutes, seed=chosen.seed)
    return int(any(tally.lost or tally.wrong for tally in tallies))


def suffer(arena: Arena, name: str) -> Tally:
    what, run = SCENARIOS[name]
    tally = Tally(name, what)
    arena.random = random.Random(f"{arena.seed} {name}")
    started = time.monotonic()
    try:
        run(arena, tally)
    except Skipped as reason:
        tally.skipped = str(reason)
    except Exception as error:
        tally.wrong += 1
        tally.problems.append("".join(traceback.format_exception(error)[-3:]))
    finally:
        arena.end_all()
    tally.seconds = round(time.monotonic() - started, 1)
    print(report.line(tally), file=sys.stderr, flush=True)
    return tally


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make torture", description="Real faults on real processes; nothing is lost.")
    parser.add_argument("--minutes", type=float, default=5.0, help="about how long (default: 5)")
    parser.add_argument("--only", action="append", metavar="NAME", help=f"a part of a name: {', '.join(SCENARIOS)}")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of what is chosen at random")
    parser.add_argument("--json", metavar="FILE", help="write the results there as well")
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    parser.add_argument("--docs", action="store_true", help="put the results into docs/reliability.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

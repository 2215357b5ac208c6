"""Torture: real faults on real processes, round after round, and a close look after each.

A round makes a base, lets writers work on it, does something terrible to them, and then opens
the base as anybody would. `writer` is the process that suffers; it notes on a file of its own
whatever was acknowledged to it (`journal`). `checker` holds the base against those notes.
`arena` starts, kills and cleans up; `disks` makes file systems that can be filled or cut off.
The scenarios are in `kills`, `faults`, `powercuts`, `flips` and `clocks`; those of several
machines in `cluster`, on `hosts` whose links can be cut, with clients (`sharing`) whose history is
judged by `linearizability`.
"""

from __future__ import annotations

"""Runs in an environment of its own: other people's verifiers, asked a question a line, answering with a line."""

import contextlib
import io
import json
import sys
import warnings

from aics_tlog.cli import main as aics_tlog
from pymerkle import InmemoryTree

warnings.simplefilter("ignore")


def accepts(argv):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return aics_tlog(argv) == 0
        except SystemExit as left:
            return left.code == 0


def root(entries):
    tree = InmemoryTree(algorithm="sha256")
    for entry in entries:
        tree.append_entry(bytes.fromhex(entry))
    return tree.get_state().hex()


ASKED = {"aics-tlog": accepts, "pymerkle": root}

for line in sys.stdin:
    who, question = json.loads(line)
    print(json.dumps(ASKED[who](question)), flush=True)

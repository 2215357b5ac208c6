"""How long to try: a fixed number of examples, the same in every run; TALLYSTICK_FUZZ=10 tries ten times as many."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

TIMES = max(1, int(os.environ.get("TALLYSTICK_FUZZ", "1")))
SECONDS_MAX = 1800 * TIMES
"""For pytest's timeout, which is for what hangs."""


def tries(count: int) -> settings:
    """Not shrunk: the server remembers what earlier examples did to it, so a smaller one may fall elsewhere."""
    return settings(
        max_examples=count * TIMES,
        derandomize=TIMES == 1,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )

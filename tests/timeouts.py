"""How long a test waits for what cannot be an event: longer than the busiest machine needs, so only for what hangs."""

from __future__ import annotations

SECONDS = 600.0

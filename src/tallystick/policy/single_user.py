"""The policy of one person on one machine: whoever can start the process may do everything."""

from __future__ import annotations

from tallystick.policy import Decision, Request

VERSION = "single-user@1"


class SingleUser:
    def decide(self, request: Request) -> Decision:
        return Decision(allowed=True, reason="single local user", policy_version=VERSION)

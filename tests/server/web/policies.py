"""Policies for pages: what they deny must not be seen anywhere."""

from __future__ import annotations

from pathlib import Path

_OWNERS = """package tallystick.owners

import rego.v1

policy_version := "owners@2"

decision := {"result": allow, "reason": reason, "policy_version": policy_version}

default allow := true

allow := false if private

allow := false if sealed

private if {
	input.action in {"READ", "DELETE"}
	input.resource_owner == "eve"
	input.actor != "eve"
}

sealed if input.written_type == "Sealed"

reason := "what eve made is hers" if {
	private
} else := "nobody writes what is sealed" if {
	sealed
} else := "all others share"
"""


_SEALED = """package tallystick.sealed

import rego.v1

decision := {"result": allow, "reason": reason, "policy_version": "sealed@1", "narrows": changes}

changes := input.action in {"WRITE", "DELETE"}

default allow := true

allow := false if input.written_type == "Sealed"

reason := "nobody writes what is sealed" if not allow else := "all share"
"""


def owners_policy(directory: Path) -> str:
    """What eve made is for her alone, and nobody writes anything of the type Sealed."""
    path = directory / "owners.rego"
    path.write_text(_OWNERS)
    return str(path)


def sealed_policy(directory: Path) -> str:
    """Nobody writes anything of the type Sealed; everything may be read, and it says so."""
    path = directory / "sealed.rego"
    path.write_text(_SEALED)
    return str(path)

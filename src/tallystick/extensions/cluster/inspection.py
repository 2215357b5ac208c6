"""A look at a stream: who keeps it, who follows it, and how far each is. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from tallystick.config import Settings
from tallystick.errors import TallystickError
from tallystick.extensions.cluster.client import NoAnswer
from tallystick.extensions.cluster.membership import Place
from tallystick.extensions.cluster.messages import MachineStatus
from tallystick.extensions.cluster.migration import connected
from tallystick.extensions.cluster.places import place_of
from tallystick.operations import counted
from tallystick.operations.doctor import Finding

_SILENT_SECONDS = 60.0


class Inspection(msgspec.Struct, frozen=True):
    stream: str
    replicas: int
    leader: str
    lagging: list[str]
    """Servers that do not have all of it."""
    last: int
    """The newest sequence."""
    machines: list[MachineStatus]
    at: float

    def ago(self, machine: MachineStatus) -> float:
        """How long ago it was heard of, by the clocks of two machines."""
        return max(0.0, self.at - machine.at)


def inspect(place: Place) -> Inspection:
    """Raises StorageRefused, InvalidArgument or NoAnswer where the stream cannot be looked at or trusted."""
    with connected(place, create=False) as stream:
        info = stream.info() or {}
        cluster = info.get("cluster") or {}
        machines = []
        for message in stream.machines():
            with suppress(msgspec.MsgspecError):
                machines.append(msgspec.json.decode(message.data, type=MachineStatus))
        return Inspection(
            stream=stream.name,
            replicas=info["config"]["num_replicas"],
            leader=cluster.get("leader") or "its only server",
            lagging=[each["name"] for each in cluster.get("replicas") or () if not each.get("current")],
            last=info["state"]["last_seq"],
            machines=sorted(machines, key=lambda each: each.machine),
            at=time.time(),
        )


def check_stream(settings: Settings) -> Iterator[Finding]:
    """The servers that keep the log for several machines, and how far those machines are."""
    if not (settings.has_log and settings.log_url):
        return
    try:
        seen = inspect(place_of(settings))
    except (TallystickError, NoAnswer) as error:
        hint = error.hint if isinstance(error, TallystickError) else None
        yield Finding("stream", str(error), "bad", hint or "look at the NATS servers")
        return
    yield Finding("stream", f"'{seen.stream}', kept by {counted(seen.replicas, 'server')}, led by {seen.leader}")
    for server in seen.lagging:
        yield Finding("server", f"{server} does not have all of the stream", "odd", "look at that NATS server")
    for machine in seen.machines:
        said = (
            f"{machine.machine}, {seen.last - machine.adopted} messages behind, heard of {seen.ago(machine):.0f} s ago"
        )
        is_well = not machine.troubled and seen.ago(machine) < _SILENT_SECONDS
        advice = f"its log says why {', '.join(machine.troubled)} is behind" if machine.troubled else "is it running?"
        yield Finding("machine", said, "good" if is_well else "odd", None if is_well else advice)
    yield from _foreign(seen.machines)


def _foreign(machines: Sequence[MachineStatus]) -> Iterator[Finding]:
    """Messages that other programs published to the subjects of a log, which every machine skips."""
    for subject in sorted({subject for machine in machines for subject in machine.foreign}):
        count, last = max(machine.foreign.get(subject, (0, 0)) for machine in machines)
        yield Finding(
            "foreign",
            f"{counted(count, 'message')} of another program on {subject} skipped, the last is message {last}",
            "odd",
            "let no other user publish there: docs/guides/several-machines.md names the permissions",
        )

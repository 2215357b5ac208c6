"""A look at a stream: who keeps it, who follows it, and how far each is. Changes nothing."""

from __future__ import annotations

import time
from contextlib import suppress

import msgspec

from tallystick.extensions.cluster.membership import Place
from tallystick.extensions.cluster.messages import MachineStatus
from tallystick.extensions.cluster.migration import connected


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

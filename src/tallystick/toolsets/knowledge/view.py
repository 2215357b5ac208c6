"""The view of knowledge: what one call may read of it, at the head or at the moment of its question."""

from __future__ import annotations

from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State


class View:
    def __init__(self, state: State, read_filter: ReadFilter) -> None:
        self.state = state
        self.read_filter = read_filter
        # Asked of everything that is shown, so not by way of another method.
        self.narrows, self.allows, self.readable = read_filter.narrows, read_filter.allows, read_filter.readable
        self.warned, self.reference = read_filter.warned, read_filter.reference

    @property
    def knowledge(self) -> Knowledge:
        """Asked for anew each time: a question that pauses may go on after a redaction has dropped the old one."""
        return self.state.derived(Knowledge)

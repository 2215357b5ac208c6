"""The engine: the writer of a tenant, the gate in front of it, and what outlives a call."""

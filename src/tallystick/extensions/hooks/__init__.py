"""Hooks: what `tallystick-hook EVENT` adds to the context of a coding agent.

Clients start it at every prompt and tool call, so it is quick, bounded and silent: it reads the SQL mirror, the text
index and the end of the log, loads no state and imports no protocol. If anything fails, the client continues as if
there were no memory.
"""

"""The wiring: everything is built from Settings here, and nowhere else."""

from __future__ import annotations

from tallystick.app.callers import claims_of, local_user, open_sessions, system_user
from tallystick.app.logs import checkpoint_keys, open_log
from tallystick.app.proving import all_proofs, proofs
from tallystick.app.serving import serve_http, serve_stdio, served
from tallystick.app.stores import erase, opened, operation_context
from tallystick.app.vocabularies import knowledge_context, toolsets

__all__ = [
    "all_proofs",
    "checkpoint_keys",
    "claims_of",
    "erase",
    "knowledge_context",
    "local_user",
    "open_log",
    "open_sessions",
    "opened",
    "operation_context",
    "proofs",
    "serve_http",
    "serve_stdio",
    "served",
    "system_user",
    "toolsets",
]

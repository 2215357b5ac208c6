"""The error shape of the ontology and files toolsets: {code, message, details?}."""

from __future__ import annotations

from typing import Any

from tallystick.errors import InvalidArgument, TallystickError


def error_shape(error: TallystickError) -> dict[str, Any]:
    details = dict(error.details)
    if error.hint:
        details["hint"] = error.hint
    if isinstance(error, InvalidArgument) and error.problems != [error.message]:
        details["problems"] = error.problems
    return {"code": error.code, "message": error.message, **({"details": details} if details else {})}

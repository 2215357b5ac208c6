"""The contributions of this extension."""

from __future__ import annotations

from tallystick.extension import Extension

EXTENSION = Extension(name="web", site="tallystick.extensions.web.wiring:web_pages")

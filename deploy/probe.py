"""Whether the server in this container is ready, for HEALTHCHECK: exit status 0 or 1, and why in one line."""

import os
import ssl
import sys
import urllib.request

# Addressed as this machine, so no certificate of ours bears the name: it is asked whether it answers, not who it is.
UNCHECKED = ssl.create_default_context()
UNCHECKED.check_hostname = False
UNCHECKED.verify_mode = ssl.CERT_NONE

port = os.environ.get("TALLYSTICK_HTTP", ":8765").rpartition(":")[2]
scheme = "https" if os.environ.get("TALLYSTICK_TLS_CERT") else "http"
try:
    with urllib.request.urlopen(f"{scheme}://127.0.0.1:{port}/health/ready", timeout=4, context=UNCHECKED):
        print("ready")
except OSError as error:
    sys.exit(f"not ready: {error}")

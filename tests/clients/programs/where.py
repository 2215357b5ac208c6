"""What every program is told: how to reach the server (a command, or a URL), the model, and what to call."""

import json
import os

COMMAND: list[str] = json.loads(os.environ.get("SERVER_COMMAND", "[]"))
URL = os.environ.get("SERVER_URL", "")
MODEL_URL = os.environ.get("OPENAI_BASE_URL", "")
BAD, GOOD = json.loads(os.environ["CALLS"])
PROMPT = "Remember the plan."


def show(**found: object) -> None:
    print(json.dumps(found))

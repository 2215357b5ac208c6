"""How many tokens a text costs the models that most agents use, by their own tokenizer (o200k_base)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

_HOME = Path(__file__).parent / "conformance"
_NODE = _HOME / "node_modules/.bin/node"
_COUNT = """
import { getEncoding } from "js-tiktoken";
const texts = JSON.parse(await new Response(process.stdin).text());
const encoding = getEncoding("o200k_base");
console.log(JSON.stringify(texts.map((text) => encoding.encode(text).length)));
"""

IS_INSTALLED = _NODE.exists() and (_HOME / "node_modules/js-tiktoken").exists()


def count_tokens(texts: Sequence[str]) -> list[int]:
    done = subprocess.run(
        [str(_NODE), "--input-type=module", "-e", _COUNT],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        cwd=_HOME,
    )
    counts: list[int] = json.loads(done.stdout)
    return counts

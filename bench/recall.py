"""How much of what a question is about is found by one call: LoCoMo's conversations, a memory for each turn.

The data set (snap-research/locomo) is not part of this project: `--locomo FILE` says where it lies, in its own form.
Turns are written by memory.write with their speaker, date, text and the caption of their picture; each question is
asked as it stands by memory.search. R@k is the share of a question's evidence among the first k, the mean over
questions; adversarial questions, which have no answer, are left out.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import Row
from bench.processes import tallystick
from bench.talking import Lines
from tests.tokens import IS_INSTALLED, count_tokens

DATA: Path | None = None
VECTORS = False
HITS = 20
_TARGETS = {5: 68.0, 10: 75.0, 20: 82.0}
_TARGET_ALL = 73.0
_TARGET_TOKENS = 950.0
_ADVERSARIAL = 5
_TURN = re.compile(r"D\d+:\d+")


class Question(NamedTuple):
    words: str
    evidence: frozenset[str]


class Conversation(NamedTuple):
    turns: list[dict[str, Any]]
    questions: list[Question]


def run(quick: bool = False) -> list[Row]:
    if DATA is None:
        return []
    conversations = [_read(number, each) for number, each in enumerate(json.loads(DATA.read_text("utf-8")))]
    if quick:
        conversations = conversations[:1]
    apart = [asked for each in conversations for asked in _asked([each])]
    rows = [
        Row(f"a memory for each conversation: R@{k}", _mean(apart, k), "%", target, "more")
        for k, target in _TARGETS.items()
    ]
    together = _asked(conversations)
    rows += [
        Row(
            f"all conversations in one memory: R@{k}", _mean(together, k), "%", _TARGET_ALL if k == 10 else None, "more"
        )
        for k in _TARGETS
    ]
    tokens = [each.tokens for each in apart]
    said = "o200k" if IS_INSTALLED else "estimated as a quarter of the bytes"
    return [*rows, Row(f"tokens of {HITS} hits ({said}), mean", sum(tokens) / len(tokens), "tokens", _TARGET_TOKENS)]


class Asked(NamedTuple):
    found: list[str]
    evidence: frozenset[str]
    tokens: int


def _asked(conversations: Sequence[Conversation]) -> list[Asked]:
    questions = [question for each in conversations for question in each.questions]
    with (
        tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder,
        tallystick(Path(folder), **({"vectors": "true"} if VECTORS else {})) as server,
    ):
        client = Lines(server)
        client.begin()
        for each in conversations:
            for turn in each.turns:
                client.call("memory.write", {"op": "UPSERT_NODE", "node": turn})
        if VECTORS:
            server.settle()
        answers = [client.result("memory.search", {"query": each.words, "limit": HITS}) for each in questions]
    found = [[entity["id"] for entity in answer["structuredContent"]["entities"]] for answer in answers]
    tokens = _tokens(["".join(part["text"] for part in answer["content"]) for answer in answers])
    return [Asked(ids, question.evidence, size) for ids, question, size in zip(found, questions, tokens, strict=True)]


def _mean(asked: Sequence[Asked], k: int) -> float:
    return 100 * sum(len(each.evidence & set(each.found[:k])) / len(each.evidence) for each in asked) / len(asked)


def _tokens(texts: list[str]) -> list[int]:
    return count_tokens(texts) if IS_INSTALLED else [len(text.encode()) // 4 for text in texts]


# -- the data set's own form


def _read(number: int, said: dict[str, Any]) -> Conversation:
    questions = [
        Question(each["question"], frozenset(_id(number, turn) for turn in _TURN.findall(" ".join(each["evidence"]))))
        for each in said["qa"]
        if each["category"] != _ADVERSARIAL
    ]
    return Conversation(list(_turns(number, said["conversation"])), [each for each in questions if each.evidence])


def _turns(number: int, said: dict[str, Any]) -> Iterator[dict[str, Any]]:
    sessions = sorted(int(name.split("_")[1]) for name in said if re.fullmatch(r"session_\d+", name))
    for session in sessions:
        for turn in said[f"session_{session}"]:
            attrs = {"speaker": turn["speaker"], "date": said[f"session_{session}_date_time"], "text": turn["text"]}
            if turn.get("blip_caption"):
                attrs["caption"] = turn["blip_caption"]
            yield {"id": _id(number, turn["dia_id"]), "type": "turn", "attrs": attrs}


def _id(number: int, turn: str) -> str:
    return f"{number}-{turn}"

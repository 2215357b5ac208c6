"""Secrets that nobody meant to remember: found in a draft before it is sealed, and refused or masked.

A log that never forgets is the worst place for a key. Each draft's texts are looked at once, by one automaton for all
detectors; only a draft that has something is looked at more closely. What is found is named by its kind and its place,
and never quoted: not in the error, not in a log, not in the audit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import log2
from typing import Any, Literal

import msgspec

from tallystick.commits import FILE_EDIT, Draft, Operation
from tallystick.errors import InvalidArgument
from tallystick.state.patterns import PatternSet
from tallystick.telemetry import metrics

Mode = Literal["off", "refuse", "mask"]
Screen = Callable[[Draft], Draft]
TextScreen = Callable[[str, str, bool], str]
"""Of a text, its place, and whether it may be masked there: the text to store. Raises InvalidArgument."""
_MASKABLE = ("attrs", "content", "reason", "run_context")
MASK = "[SECRET]"

_KINDS = {
    "AWS access key": r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{60,255})\b",
    "GitLab token": r"\bgl(?:pat|dt|rt|cbt|ptt|soat)-[A-Za-z0-9_-]{20,}",
    "Slack token": r"\bxox[abeoprs]-(?:[A-Za-z0-9]+-)*[A-Za-z0-9]{12,}",
    "Slack webhook": r"hooks\.slack\.com/services/T[A-Z0-9]{7,}/B[A-Z0-9]{7,}/[A-Za-z0-9]{20,}",
    "Stripe key": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{20,}",
    "Google API key": r"\bAIza[A-Za-z0-9_-]{35}",
    "Anthropic key": r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{24,}",
    "OpenAI key": r"\bsk-[A-Za-z0-9_-]{10,}T3BlbkFJ[A-Za-z0-9_-]{10,}",
    "PyPI token": r"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "npm token": r"\bnpm_[A-Za-z0-9]{36}\b",
    "Hugging Face token": r"\bhf_[A-Za-z]{34}\b",
    "SendGrid key": r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "DigitalOcean token": r"\bdo[opr]_v1_[0-9a-f]{64}\b",
    "private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,.]|-[A-Za-z0-9]){40,}",
    "JSON Web Token": r"\beyJ[A-Za-z0-9_-]{16,}\.eyJ[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{20,}",
    "password in an address": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'<>{}$]{1,64}:[^\s/:@\"'<>{}$*]{8,128}@[A-Za-z0-9\[]",
    "assigned secret": r"(?i)(?:secret|token|passw(?:or)?d|api[_-]?key|access[_-]?key|private[_-]?key)"
    r"[a-z0-9_-]{0,20}[\\\"']{0,2}\s{0,3}[:=]\s{0,3}[\\\"']{1,2}[A-Za-z0-9+/_=.~-]{20,200}[\\\"']",
    "secret in a variable": r"\b[A-Z0-9_]*(?:SECRET|TOKEN|PASSW(?:OR)?D|API_?KEY|ACCESS_KEY|PRIVATE_KEY)[A-Z0-9_]*="
    r"[A-Za-z0-9][A-Za-z0-9+/_=.~-]{19,199}(?:[\s\"'`]|$)",
}
_ENTROPY_MIN = {"assigned secret": 4.0, "password in an address": 3.0, "secret in a variable": 3.5}
"""Bits a character of what stands for the secret; words and placeholders have fewer."""
_WORDS_BITS = 0.3
"""More than that where there is no digit: names of things have capital letters, too."""
_NO_SECRETS = ("_FILE", "_PATH", "_DIR", "_NAME", "_ID")
"""How variables end that say where a secret is, or whose."""
_NAMES = tuple(_KINDS)


class Finding(msgspec.Struct, frozen=True):
    kind: str
    place: str


def screen_of(mode: Mode) -> Screen | None:
    """None where nothing is looked at: it costs nothing then."""
    if mode == "off":
        return None
    patterns = PatternSet(_KINDS.values())
    return lambda draft: _screen(patterns, draft, masks=mode == "mask")


def text_screen_of(mode: Mode) -> TextScreen:
    """For texts that no draft carries: plain files, their names, and contents that the log only names."""
    if mode == "off":
        return lambda text, place, may_mask: text
    patterns = PatternSet(_KINDS.values())
    return lambda text, place, may_mask: _screen_text(patterns, text, place, masks=mode == "mask", may_mask=may_mask)


def _screen_text(patterns: PatternSet, text: str, place: str, *, masks: bool, may_mask: bool) -> str:
    texts = [(text, place)]
    findings = _findings(patterns, texts) if _may_have_one(patterns, texts) else []
    if not findings:
        return text
    if not (masks and may_mask):
        raise _refusal(findings[0], masks=masks)
    masked: str = _masked(patterns, text)
    return masked


def find_secrets(patterns: PatternSet, text: str) -> list[tuple[str, int, int]]:
    """The kind and the place of each; of two that overlap, the one that begins first."""
    found: list[tuple[str, int, int]] = []
    for number, start, end in sorted(patterns.spans(text), key=lambda span: span[1]):
        if (not found or start >= found[-1][2]) and _is_one(_NAMES[number], text[start:end]):
            found.append((_NAMES[number], start, start + len(text[start:end].rstrip())))
    return found


def _is_one(kind: str, text: str) -> bool:
    """Examples in documentation say that they are, or leave something out."""
    if any(sign in text.upper() for sign in ("EXAMPLE", "XXXXXX", "...")):
        return False
    least = _ENTROPY_MIN.get(kind)
    if least is None:
        return True
    if kind == "secret in a variable":
        return _is_variable(text, least)
    value = text[:-1].rpartition(":")[2].partition("@")[0] if kind.startswith("password") else _assigned(text)
    has_digits = any(map(str.isdigit, value))
    is_mixed = any(map(str.islower, value)) and any(map(str.isupper, value))
    return (has_digits or is_mixed) and _entropy(value) >= least + (0 if has_digits else _WORDS_BITS)


def _is_variable(text: str, least: float) -> bool:
    name, _, value = text.rstrip("\"'` \t\r\n").partition("=")
    return not name.endswith(_NO_SECRETS) and any(map(str.isdigit, value)) and _entropy(value) >= least


def _assigned(text: str) -> str:
    quote = text[-1]
    return text.rstrip("\\\"'").rpartition(quote)[2]


def _entropy(text: str) -> float:
    return -sum(count / len(text) * log2(count / len(text)) for count in Counter(text).values()) if text else 0.0


def _screen(patterns: PatternSet, draft: Draft, *, masks: bool) -> Draft:
    texts = [found for value, place in _said(draft) for found in _texts(value, place)]
    if not _may_have_one(patterns, texts):
        return draft
    findings = _findings(patterns, texts)
    if not findings:
        return draft
    outside = [each for each in findings if not each.place.startswith(_MASKABLE)]
    if not masks or outside or _is_kept_elsewhere(draft):
        raise _refusal((outside or findings)[0], masks=masks)
    return msgspec.structs.replace(
        draft,
        operations=tuple(_masked_operation(patterns, each) for each in draft.operations),
        reason=_masked(patterns, draft.reason),
        run_context=_masked(patterns, draft.run_context),
    )


def _findings(patterns: PatternSet, texts: list[tuple[str, str]]) -> list[Finding]:
    findings = [Finding(kind, place) for text, place in texts for kind, _, _ in find_secrets(patterns, text)]
    for finding in findings:
        metrics.SECRETS.add((finding.kind,))
    return findings


def _is_kept_elsewhere(draft: Draft) -> bool:
    """What a nonce is asked for again, and the file that a person edited, would differ from what is stored for ever."""
    return draft.tool == FILE_EDIT or any(operation.nonce is not None for operation in draft.operations)


def _said(draft: Draft) -> Iterator[tuple[Any, str]]:
    """All that will be in the log, with its place. A redaction may name what it takes away."""
    yield from ((draft.reason, "reason"), (draft.run_context, "run_context"), (draft.actor, "agent"))
    for operation in draft.operations:
        yield from ((operation.reason, "reason"), (operation.nonce, "nonce"))
        if operation.redacts is None:
            yield from ((value, name) for name, value in operation.payload.items())


def _may_have_one(patterns: PatternSet, texts: list[tuple[str, str]]) -> bool:
    """One pass over all of them as they were said: in JSON a line's end is a letter, and hides where a word begins."""
    try:
        return patterns.may_match("\n".join(text for text, _ in texts).encode())
    except UnicodeEncodeError:
        return False  # It is refused when it is sealed.


def _texts(value: Any, place: str, name: str = "") -> Iterator[tuple[str, str]]:
    """Each text with its place; what has a name is looked at with it, as `name="text"`."""
    if isinstance(value, str):
        yield f'{name}="{value}"' if name else value, place
    elif isinstance(value, dict):
        for number, (key, member) in enumerate(value.items()):
            yield str(key), f"name {number + 1} of {place}"
            below = f"{place}.{key}" if str(key).isidentifier() and len(str(key)) <= _SHOWN else f"{place}[{number}]"
            yield from _texts(member, below, str(key))
    elif isinstance(value, list | tuple):
        for number, member in enumerate(value):
            yield from _texts(member, f"{place}[{number}]", name)


_SHOWN = 40


def _masked_operation(patterns: PatternSet, operation: Operation) -> Operation:
    reason, payload = _masked(patterns, operation.reason), operation.payload
    if operation.redacts is None:
        payload = {name: _masked(patterns, value) for name, value in payload.items()}
    return msgspec.structs.replace(operation, payload=payload, reason=reason)


def _masked(patterns: PatternSet, value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        if name and find_secrets(patterns, f'{name}="{value}"') and not find_secrets(patterns, value):
            return MASK
        for _, start, end in sorted(find_secrets(patterns, value), key=lambda each: -each[1]):
            value = value[:start] + MASK + value[end:]
        return value
    if isinstance(value, dict):
        return {key: _masked(patterns, member, str(key)) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(patterns, member, name) for member in value]
    return value


def _refusal(finding: Finding, *, masks: bool) -> InvalidArgument:
    why = "; it stands where it cannot be masked" if masks else ""
    return InvalidArgument(
        f"there is a secret in what is to be written ({finding.kind}, in {finding.place}){why}",
        code="SECRET_FOUND",
        hint="write where the secret is kept instead; if it is none, spell it otherwise, or have 'secrets' set to off",
        details={"kind": finding.kind, "place": finding.place},
    )

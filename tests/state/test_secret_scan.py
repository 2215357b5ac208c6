"""Secrets in what is to be written: found, named by kind and place, never quoted; and nothing else taken for one."""

from __future__ import annotations

import base64
import random
import string
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick.commits import FILE_EDIT, Draft, Operation, Verb
from tallystick.errors import InvalidArgument
from tallystick.state.patterns import PatternSet
from tallystick.state.secret_scan import _KINDS, MASK, Screen, find_secrets, screen_of

ROOT = Path(__file__).parents[2]
PATTERNS = PatternSet(_KINDS.values())
SEED = random.Random(18)
LETTERS = string.ascii_letters + string.digits


def some(length: int, alphabet: str = LETTERS) -> str:
    return "".join(SEED.choices(alphabet, k=length))


def encoded(length: int) -> str:
    return base64.urlsafe_b64encode(SEED.randbytes(length)).decode().rstrip("=")


def pem(kind: str, length: int = 300, headers: str = "") -> str:
    body = base64.b64encode(SEED.randbytes(length)).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{headers}{lines}\n-----END {kind}PRIVATE KEY-----"


def jwt() -> str:
    head, claims = ('{"alg":"RS256","typ":"JWT"}', '{"sub":"agent","exp":1900000000}')
    parts = [base64.urlsafe_b64encode(each.encode()).decode().rstrip("=") for each in (head, claims)]
    return ".".join([*parts, encoded(64)])


# Put together here, so that no scanner of repositories takes this file for a leak.
MADE: dict[str, list[Callable[[], str]]] = {
    "AWS access key": [lambda: "AKIA" + some(16, string.ascii_uppercase + "234567")],
    "GitHub token": [lambda: "ghp" + "_" + some(36), lambda: "github" + "_pat_" + some(22) + "_" + some(59)],
    "GitLab token": [lambda: "glpat" + "-" + some(20)],
    "Slack token": [lambda: "xoxb" + f"-{SEED.randrange(10**11)}-{SEED.randrange(10**12)}-{some(24)}"],
    "Slack webhook": [
        lambda: "https://hooks.slack" + f".com/services/T{some(8).upper()}/B{some(8).upper()}/{some(24)}"
    ],
    "Stripe key": [lambda: "sk" + "_live_" + some(24), lambda: "rk" + "_test_" + some(99)],
    "Google API key": [lambda: "AIza" + some(35)],
    "Anthropic key": [lambda: "sk-" + "ant-api03-" + some(93)],
    "OpenAI key": [lambda: "sk-" + "proj-" + some(40) + "T3Blbk" + "FJ" + some(40)],
    "PyPI token": [lambda: "pypi" + "-AgEIcHlwaS5vcmc" + some(120)],
    "npm token": [lambda: "npm" + "_" + some(36)],
    "Hugging Face token": [lambda: "hf" + "_" + some(34, string.ascii_letters)],
    "SendGrid key": [lambda: "SG" + f".{some(22)}.{some(43)}"],
    "DigitalOcean token": [lambda: "dop" + "_v1_" + some(64, "0123456789abcdef")],
    "private key": [
        lambda: pem("", 48),
        lambda: pem("ENCRYPTED "),
        lambda: pem(
            "RSA ", headers="Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n"
        ),
        lambda: pem("RSA "),
        lambda: pem("OPENSSH "),
        lambda: pem("EC "),
    ],
    "JSON Web Token": [jwt],
    "password in an address": [lambda: f"postgres://app:{some(15)}7@db.internal:5432/app"],
    "secret in a variable": [
        lambda: f"AWS_SECRET_ACCESS_KEY={some(39)}7",
        lambda: f"DB_PASSWORD={some(23)}7",
    ],
    "assigned secret": [lambda: f'client_secret = "{some(39)}7"', lambda: f"{{'api-key': '7{encoded(30)}'}}"],
}


def test_every_kind_is_made_here() -> None:
    assert MADE.keys() == _KINDS.keys()


@pytest.mark.parametrize("kind", MADE)
def test_a_key_is_found_in_prose_in_code_and_in_json_and_is_named_but_never_quoted(kind: str) -> None:
    refuse = screen("refuse")
    for make in MADE[kind]:
        for _ in range(50):
            secret = make()
            for text in (
                secret,
                f"The deploy uses {secret} since May.",
                f"export X={secret}\nmake",
                f'see "{secret}"',
                f"as it was:\n{secret}\n",
                f"staging\t{secret}",
            ):
                with pytest.raises(InvalidArgument) as caught:
                    refuse(drafted({"notes": {"list": ["first", text]}}))
                error = caught.value
                assert error.code == "SECRET_FOUND"
                assert error.details == {"kind": kind, "place": "attrs.notes.list[1]"}
                assert secret not in f"{error.message} {error.hint} {error.details}"


@pytest.mark.parametrize("name", ["api_key", "client_secret", "accessToken", "db-password"])
def test_a_value_without_a_form_is_found_by_the_name_of_its_attribute(name: str) -> None:
    for _ in range(200):
        with pytest.raises(InvalidArgument, match="assigned secret"):
            screen("refuse")(drafted({name: some(39) + "7"}))


def test_what_is_listed_under_a_name_is_found_by_it() -> None:
    given = drafted({"tokens": ["first", some(39) + "7"]})
    with pytest.raises(InvalidArgument) as caught:
        screen("refuse")(given)
    assert caught.value.details == {"kind": "assigned secret", "place": "attrs.tokens[1]"}
    assert screen("mask")(given).operations[0].payload["attrs"] == {"tokens": ["first", MASK]}


def test_what_is_no_text_at_all_is_left_to_be_refused_as_that() -> None:
    given = drafted({"text": "\ud800"})
    assert screen("refuse")(given) is given


def test_what_is_masked_leaves_the_rest_and_the_draft_goes_on() -> None:
    secret = MADE["GitHub token"][0]()
    given = drafted({"text": f"use {secret} twice: {secret}.", "api_key": some(39) + "7", "kept": [1, None, "plain"]})
    masked = screen("mask")(given)
    assert masked.operations[0].payload["attrs"] == {
        "text": f"use {MASK} twice: {MASK}.",
        "api_key": MASK,
        "kept": [1, None, "plain"],
    }
    assert secret in str(given)


@pytest.mark.parametrize("kind", MADE)
def test_what_is_masked_leaves_the_lines_around_it(kind: str) -> None:
    masked = screen("mask")(drafted({"text": f"before\n{MADE[kind][0]()}\nbehind"}))
    left = masked.operations[0].payload["attrs"]["text"]
    assert (left[:7], left[-7:], MASK in left) == ("before\n", "\nbehind", True)


def test_what_cannot_be_masked_without_becoming_another_write_is_refused() -> None:
    secret = MADE["npm token"][0]()
    mask = screen("mask")
    with pytest.raises(InvalidArgument, match="in id"):
        mask(Draft((Operation(Verb.UPSERT_NODE, {"id": secret, "type": "Note", "attrs": {}}),), actor="a", tool="t"))
    with pytest.raises(InvalidArgument, match="cannot be masked"):
        mask(drafted({"text": secret}, nonce="once"))
    with pytest.raises(InvalidArgument, match="cannot be masked"):
        mask(msgspec.structs.replace(drafted({"text": secret}), tool=FILE_EDIT))
    with pytest.raises(InvalidArgument) as caught:
        mask(drafted({secret: {secret: "x"}}))
    assert secret not in str(caught.value.details)


def test_reasons_are_looked_at_too() -> None:
    secret = MADE["Stripe key"][0]()
    given = Draft((Operation(Verb.DELETE_NODE, {"node_id": "n"}),), actor="a", tool="t", reason=f"leaked {secret}")
    assert screen("mask")(given).reason == f"leaked {MASK}"


def test_a_redaction_may_name_the_secret_that_it_takes_away_but_not_in_its_reason() -> None:
    secret = MADE["Stripe key"][0]()
    given = Operation(Verb.REDACT_NODE, {"node_id": secret, "fields": None}, redacts={"1": "digest"})
    refuse = screen("refuse")
    assert refuse(Draft((given,), actor="a", tool="t")).operations == (given,)
    with pytest.raises(InvalidArgument, match="in reason"):
        refuse(Draft((given,), actor="a", tool="t", reason=secret))
    masked = screen("mask")(Draft((given,), actor="a", tool="t", reason=secret))
    assert (masked.operations, masked.reason) == ((given,), MASK)


def test_off_looks_at_nothing() -> None:
    assert screen_of("off") is None


def test_examples_hashes_ids_and_placeholders_are_no_secrets() -> None:
    for text in (
        "AKIAIOSFODNN7" + "EXAMPLE",
        "the commit 6ecf0ef2c2dffb796033e5a02219af86ec6584e5 of sha256:" + "ab" * 32,
        'password = "correct horse battery staple"',
        'token: "your-token-goes-here-please"',
        "postgres://user:password@host/db",
        "https://${USER}:${PASSWORD}@registry/",
        'api_key = os.environ["API_KEY_OF_THE_SERVICE"]',
        "API_TOKEN_FILE=secrets/token-2026-01-v2.txt\nSECRET_NAME=memory-checkpoint-keys-v1-2026",
        "API_TOKEN=your-token-goes-here-please\nSECRET_KEY=/run/secrets/openssl-keys-v3.pem",
        "-----BEGIN PRIVATE KEY----- stands at the top of the file",
        "-----BEGIN PRIVATE KEY-----\nXXXX\nXXXX\n-----END PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1c7+9z5Pad7OejecsQ0buKwz...\n-----END RSA PRIVATE KEY-----",
        '"token": "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9..."',
        "-----BEGIN CERTIFICATE-----\n" + "MIIB" * 40,
        "data:image/png;base64," + encoded(600),
    ):
        assert find_secrets(PATTERNS, text) == [], text


@pytest.mark.parametrize("place", ["src", "docs", "tests"])
def test_there_is_no_false_alarm_in_our_own_code_and_prose(place: str) -> None:
    assert alarms(path for kind in ("*.py", "*.md") for path in (ROOT / place).rglob(kind)) == []


def test_there_is_no_false_alarm_in_the_standard_library() -> None:
    library = Path(sysconfig.get_paths()["stdlib"])
    assert alarms(path for path in library.rglob("*.py") if "site-packages" not in path.parts) == []


def test_a_long_text_made_to_be_slow_is_not() -> None:
    """Linear, by RE2: a backtracking engine would take hours."""
    for text in ("eyJ" * 60_000, "-----BEGIN " + "A " * 90_000, "secret" * 40_000, "a://" * 60_000):
        assert find_secrets(PATTERNS, text) == []


def alarms(paths: Iterable[Path]) -> list[tuple[str, str]]:
    found = []
    for path in paths:
        if "node_modules" not in path.parts:
            text = path.read_text("utf-8", errors="replace")
            found += [(path.name, kind) for kind, _, _ in find_secrets(PATTERNS, text)]
    return found


def screen(mode: Any) -> Screen:
    made = screen_of(mode)
    assert made is not None
    return made


def drafted(attrs: dict[str, Any], nonce: str | None = None) -> Draft:
    payload = {"id": "n", "type": "Note", "attrs": attrs}
    return Draft((Operation(Verb.UPSERT_NODE, payload, nonce=nonce),), actor="a", tool="t")

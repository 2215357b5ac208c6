"""The issuer as seen from here: keys that come, change and go away, and tokens taken back."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.server.oauth.guard import Admission
from tallystick.server.oauth.http_client import ANSWER_BYTES_MAX, HttpClient, Unreachable
from tallystick.server.oauth.introspection import Client, find_client
from tallystick.server.oauth.keys import metadata_urls, read_key
from tallystick.server.oauth.tokens import TOKEN_BYTES_MAX
from tests.promises import promise
from tests.server.issuing import HERE, ISSUER, NOW, Issuer, ec_key, encoded, public, rsa_key

CLIENT = Client("tallystick", "s3:cret %")


async def admit(admission: Admission, token: str) -> str:
    """ "ok", or the code of the refusal."""
    try:
        await admission.admit([(b"authorization", f"Bearer {token}".encode())])
    except TallystickError as error:
        return error.code
    return "ok"


def token(issuer: Issuer, number: int = 0, **header: Any) -> str:
    """Never the same twice, so that none is remembered."""
    return issuer.token(issuer.claims(jti=str(number), exp=NOW + 1_000_000), **header)


async def test_keys_are_asked_for_once_and_again_when_they_are_no_longer_fresh() -> None:
    issuer = Issuer()
    admission = issuer.admission(jwks_seconds=300)
    for number in range(5):
        assert await admit(admission, token(issuer, number)) == "ok"
    assert issuer.times_asked("/jwks") == 1
    issuer.now += 301
    assert await admit(admission, token(issuer, 6)) == "ok"
    assert issuer.times_asked("/jwks") == 2


async def test_a_new_key_is_found_at_its_first_token() -> None:
    issuer = Issuer()
    admission = issuer.admission()
    assert await admit(admission, token(issuer)) == "ok"
    issuer.now += 60
    issuer.keys.append(public(rsa_key("rsa-2")))
    assert await admit(admission, token(issuer, key=rsa_key("rsa-2"))) == "ok"


async def test_a_key_that_was_withdrawn_counts_no_more_once_keys_are_asked_for_again() -> None:
    issuer = Issuer()
    admission = issuer.admission(jwks_seconds=300)
    assert await admit(admission, token(issuer, 1)) == "ok"
    issuer.keys = [public(issuer.ec)]
    issuer.now += 301
    assert await admit(admission, token(issuer, 2)) == "INVALID_SIGNATURE"


async def test_unknown_keys_do_not_make_us_a_flood() -> None:
    issuer = Issuer()
    admission = issuer.admission()
    codes = {await admit(admission, token(issuer, number, kid=f"guess-{number}")) for number in range(50)}
    assert codes == {"INVALID_SIGNATURE"}
    assert issuer.times_asked("/jwks") == 1


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS512", None, ["RS256"]])
async def test_an_algorithm_that_is_never_taken_is_no_reason_to_ask_anybody(algorithm: Any) -> None:
    issuer = Issuer()
    assert await admit(issuer.admission(), token(issuer, alg=algorithm)) == "INVALID_SIGNATURE"
    assert issuer.asked == []


async def test_many_at_once_ask_once() -> None:
    issuer = Issuer()
    admission = issuer.admission()
    assert set(await asyncio.gather(*(admit(admission, token(issuer, number)) for number in range(20)))) == {"ok"}
    assert issuer.times_asked("/jwks") == 1


async def test_a_caller_who_hangs_up_does_not_spoil_it_for_the_others() -> None:
    issuer = Issuer()
    admission = issuer.admission()
    first = asyncio.ensure_future(admit(admission, token(issuer, 1)))
    second = asyncio.ensure_future(admit(admission, token(issuer, 2)))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "ok"


async def test_keys_serve_on_while_the_issuer_is_away_but_not_forever() -> None:
    issuer = Issuer()
    admission = issuer.admission(jwks_seconds=300, jwks_stale_seconds=3600)
    assert await admit(admission, token(issuer, 1)) == "ok"
    issuer.is_down = True
    issuer.now += 3000
    assert await admit(admission, token(issuer, 2)) == "ok"
    assert await admit(admission, token(issuer, 3, key=rsa_key("rsa-2"))) == "ISSUER_UNREACHABLE"
    issuer.now += 1000
    assert await admit(admission, token(issuer, 4)) == "ISSUER_UNREACHABLE"
    issuer.is_down = False
    issuer.now += 11
    assert await admit(admission, token(issuer, 5)) == "ok"


async def test_an_issuer_that_was_never_there_is_not_asked_at_every_call() -> None:
    issuer = Issuer()
    issuer.is_down = True
    admission = issuer.admission()
    assert {await admit(admission, token(issuer, number)) for number in range(10)} == {"ISSUER_UNREACHABLE"}
    assert len(issuer.asked) == 1


async def test_an_unreachable_issuer_is_a_503_that_says_when_to_come_again() -> None:
    issuer = Issuer()
    issuer.is_down = True
    async with issuer.client() as http:
        answer = await http.get("/v1/tools", headers={"authorization": f"Bearer {token(issuer)}"})
    assert (answer.status_code, answer.json()["error"]) == (503, "ISSUER_UNREACHABLE")
    assert answer.headers["retry-after"] == str(answer.json()["retry_after"]) == "10"
    assert "www-authenticate" not in answer.headers


BROKEN: dict[str, Callable[[Issuer], None]] = {
    "metadata of another issuer": lambda i: i.metadata.update(issuer="https://evil.example"),
    "metadata with a slash more": lambda i: i.metadata.update(issuer=f"{ISSUER}/"),
    "no place for keys": lambda i: i.metadata.pop("jwks_uri"),
    "keys without TLS": lambda i: i.metadata.update(jwks_uri="http://issuer.example/jwks"),
    "keys in a file": lambda i: i.metadata.update(jwks_uri="file:///etc/passwd"),
    "no keys there": lambda i: i.metadata.update(jwks_uri=f"{ISSUER}/nowhere"),
    "an empty list of keys": lambda i: i.keys.clear(),
    "keys that are none": lambda i: i.keys.__setitem__(slice(None), [None, 7, {}]),  # type: ignore[list-item]
}


@promise("OWASP API10, issuers", "a lying or broken issuer lets nobody in")
@pytest.mark.parametrize("spoil", BROKEN.values(), ids=BROKEN)
async def test_a_lying_or_broken_issuer_is_told_in_the_log_and_nobody_gets_in(
    spoil: Callable[[Issuer], None], caplog: pytest.LogCaptureFixture
) -> None:
    issuer = Issuer()
    spoil(issuer)
    assert await admit(issuer.admission(), token(issuer)) == "ISSUER_UNREACHABLE"
    assert f"the keys of issuer {ISSUER} could not be renewed" in caplog.text


async def test_a_broken_answer_does_not_replace_good_keys() -> None:
    issuer = Issuer()
    admission = issuer.admission(jwks_seconds=300)
    assert await admit(admission, token(issuer, 1)) == "ok"
    issuer.keys = []
    issuer.now += 301
    assert await admit(admission, token(issuer, 2)) == "ok"


async def test_the_issuer_is_asked_before_the_first_caller_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    issuer, asked = Issuer(), asyncio.Event()
    usual = issuer.answer

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/jwks":
            asked.set()
        return usual(request)

    monkeypatch.setattr(issuer, "answer", answer)
    app = issuer.app()
    async with app.run():
        await asked.wait()


async def test_an_issuer_that_keeps_silent_does_not_hold_up_the_end() -> None:
    asked = asyncio.Event()

    async def silence(request: httpx2.Request) -> httpx2.Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    admission = Issuer().admission_over(httpx2.MockTransport(silence))
    async with admission.run():
        await asked.wait()


def _key(**changes: Any) -> dict[str, Any]:
    return {**public(rsa_key("rsa-1")), **changes}


KEYS: dict[str, tuple[Any, str | None]] = {
    "RSA": (_key(), "RS256"),
    "RSA for RS256": (_key(alg="RS256", use="sig", key_ops=["verify"]), "RS256"),
    "EC": (public(ec_key("ec-1")), "ES256"),
    "RSA for another algorithm": (_key(alg="PS256"), None),
    "RSA for encryption": (_key(use="enc"), None),
    "RSA for wrapping": (_key(key_ops=["wrapKey"]), None),
    "RSA, small": (_key(n=encoded(b"\xff" * 128)), None),
    "RSA without a modulus": ({"kty": "RSA", "e": "AQAB"}, None),
    "RSA of nonsense": (_key(n="!!"), None),
    "EC of another curve": (public(ec_key("p384", "P-384")), None),
    "EC off the curve": ({**public(ec_key("ec-1")), "x": public(ec_key("ec-2"))["x"]}, None),
    "a shared secret": ({"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}, None),
    "a key id that is no text": (_key(kid=7), None),
    "no object": ("RSA", None),
}


@pytest.mark.parametrize(("jwk", "algorithm"), KEYS.values(), ids=KEYS)
def test_only_strong_public_signing_keys_are_read(jwk: Any, algorithm: str | None) -> None:
    key = read_key(jwk)
    assert (key.algorithm if key else None) == algorithm


def test_metadata_is_looked_for_where_both_standards_put_it() -> None:
    assert metadata_urls("https://a.example/") == [
        "https://a.example/.well-known/openid-configuration",
        "https://a.example/.well-known/oauth-authorization-server",
    ]
    assert metadata_urls("https://a.example/realms/team") == [
        "https://a.example/realms/team/.well-known/openid-configuration",
        "https://a.example/.well-known/oauth-authorization-server/realms/team",
        "https://a.example/.well-known/openid-configuration/realms/team",
    ]


ANSWERS: dict[str, tuple[httpx2.Response, bool]] = {
    "nothing there": (httpx2.Response(404), True),
    "elsewhere": (httpx2.Response(302, headers={"location": "https://evil.example/"}), True),
    "broken": (httpx2.Response(500), False),
    "too much": (httpx2.Response(200, content=b"[" + b"1," * ANSWER_BYTES_MAX), False),
    "no JSON": (httpx2.Response(200, content=b"<html>"), False),
    "no object": (httpx2.Response(200, json=[]), False),
}


@promise("OWASP API7, outside", "what we fetch from issuers is bounded, and redirects are not followed")
@pytest.mark.parametrize(("answer", "is_absent"), ANSWERS.values(), ids=ANSWERS)
async def test_answers_from_outside_are_bounded_and_redirects_are_not_followed(
    answer: httpx2.Response, is_absent: bool
) -> None:
    http_client = HttpClient(ISSUER, transport=httpx2.MockTransport(lambda request: answer))
    if is_absent:
        assert await http_client.find_json(f"{ISSUER}/x") is None
    else:
        with pytest.raises(Unreachable):
            await http_client.find_json(f"{ISSUER}/x")
    await http_client.close()


# -- introspection


@promise("OWASP API2, revoked", "a token that was taken back is refused soon")
async def test_the_issuer_is_asked_whether_a_token_was_taken_back_and_its_word_is_kept() -> None:
    issuer = Issuer()
    admission = issuer.admission(introspect_as=CLIENT, introspection_seconds=60)
    kept = token(issuer)
    for _ in range(3):
        assert await admit(admission, kept) == "ok"
    assert issuer.times_asked("/introspect") == 1
    issuer.revoked.add(kept)
    issuer.now += 59
    assert await admit(admission, kept) == "ok"
    issuer.now += 2
    assert [await admit(admission, kept) for _ in range(3)] == ["INVALID_TOKEN"] * 3
    assert issuer.times_asked("/introspect") == 2


async def test_we_ask_under_our_own_name_and_nothing_of_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    issuer = Issuer()
    asked = token(issuer)
    await admit(issuer.admission(introspect_as=CLIENT), asked)
    scheme, _, credentials = issuer.asked[-1].headers["authorization"].partition(" ")
    assert (scheme, b64decode(credentials)) == ("Basic", b"tallystick:s3%3Acret+%25")
    assert not any(secret in caplog.text for secret in (asked, credentials, CLIENT.secret))
    assert CLIENT.secret not in repr(CLIENT)


async def test_only_genuine_tokens_are_introspected() -> None:
    issuer = Issuer()
    admission = issuer.admission(introspect_as=CLIENT)
    assert await admit(admission, token(issuer, key=rsa_key("stranger"), kid="rsa-1")) == "INVALID_SIGNATURE"
    assert issuer.times_asked("/introspect") == 0


async def test_an_issuer_that_cannot_be_asked_means_no_once_its_word_is_old() -> None:
    issuer = Issuer()
    admission = issuer.admission(introspect_as=CLIENT, introspection_seconds=60)
    kept = token(issuer)
    assert await admit(admission, kept) == "ok"
    issuer.is_down = True
    issuer.now += 59
    assert await admit(admission, kept) == "ok"
    issuer.now += 2
    assert await admit(admission, kept) == "ISSUER_UNREACHABLE"


async def test_many_at_once_introspect_once() -> None:
    issuer = Issuer()
    admission = issuer.admission(introspect_as=CLIENT)
    same = token(issuer)
    assert set(await asyncio.gather(*(admit(admission, same) for _ in range(20)))) == {"ok"}
    assert issuer.times_asked("/introspect") == 1


class Saying(Issuer):
    """Whatever it is asked about."""

    def __init__(self, said: Any) -> None:
        super().__init__()
        self.said = said

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        usual = super().answer(request)
        return httpx2.Response(200, json=self.said) if request.url.path == "/introspect" else usual


@pytest.mark.parametrize("active", ["true", 1, None, {}])
async def test_only_a_plain_yes_is_a_yes(active: Any) -> None:
    issuer = Saying({"active": active})
    assert await admit(issuer.admission(introspect_as=CLIENT), token(issuer)) == "INVALID_TOKEN"


SAID_OF_AN_OPAQUE_TOKEN: dict[str, tuple[dict[str, Any], str]] = {
    "all that is needed": ({}, "ok"),
    "no issuer, which is its own business": ({"iss": None}, "ok"),
    "as others spell it": ({"token_type": "bearer", "token_use": "access_token"}, "ok"),
    "not active": ({"active": False}, "INVALID_TOKEN"),
    "of another issuer": ({"iss": "https://second.example"}, "UNTRUSTED_ISSUER"),
    "for another audience": ({"aud": "https://other.example"}, "INVALID_TOKEN"),
    "for no audience": ({"aud": None}, "INVALID_TOKEN"),
    "expired": ({"exp": NOW - 60}, "TOKEN_EXPIRED"),
    "not yet valid": ({"nbf": NOW + 60}, "INVALID_TOKEN"),
    "without an end": ({"exp": None}, "INVALID_TOKEN"),
    "of nobody": ({"sub": None}, "INVALID_TOKEN"),
    "bound to a key": ({"token_type": "DPoP"}, "INVALID_TOKEN"),
    "bound to a key it names": ({"cnf": {"jkt": "x"}}, "INVALID_TOKEN"),
    "issued later than now": ({"iat": NOW + 60}, "INVALID_TOKEN"),
    "a refresh token": ({"typ": "Refresh"}, "INVALID_TOKEN"),
    "of a tenant like a path": ({"tenant_id": "../acme"}, "INVALID_TOKEN"),
}


@pytest.mark.parametrize(("said", "outcome"), SAID_OF_AN_OPAQUE_TOKEN.values(), ids=SAID_OF_AN_OPAQUE_TOKEN)
async def test_what_the_issuer_says_of_an_opaque_token_is_checked_like_claims(
    said: dict[str, Any], outcome: str
) -> None:
    issuer = Saying(None)
    issuer.said = issuer.claims(**{"active": True, **said})
    assert await admit(issuer.admission(introspect_as=CLIENT), "opaque-token") == outcome


@promise("L26, bound", "a token that is bound to a key is no bearer token, whoever says so")
@pytest.mark.parametrize("bound", [{"cnf": {"jkt": "x"}}, {"token_type": "DPoP"}], ids=str)
async def test_a_signed_token_that_the_issuer_says_is_bound_is_no_bearer(bound: dict[str, Any]) -> None:
    issuer = Saying({"active": True, **bound})
    assert await admit(issuer.admission(introspect_as=CLIENT), token(issuer)) == "INVALID_TOKEN"


async def test_an_answer_with_a_key_twice_is_no_answer() -> None:
    issuer = Saying(None)
    usual = issuer.answer

    def answer(request: httpx2.Request) -> httpx2.Response:
        twice = b'{"active":false,"active":true}'
        return httpx2.Response(200, content=twice) if request.url.path == "/introspect" else usual(request)

    issuer.answer = answer  # type: ignore[method-assign]  # this one issuer
    assert await admit(issuer.admission(introspect_as=CLIENT), token(issuer)) == "ISSUER_UNREACHABLE"


@pytest.mark.parametrize(
    "opaque", ["a b", "a,b", "caf\u00e9", "=", "x" * (TOKEN_BYTES_MAX + 1)], ids=lambda text: text[:9]
)
async def test_nobody_is_asked_about_what_cannot_be_a_token(opaque: str) -> None:
    issuer = Issuer()
    assert await admit(issuer.admission(introspect_as=CLIENT), opaque) == "INVALID_TOKEN"
    assert issuer.times_asked("/introspect") == 0


async def test_a_token_that_is_none_is_asked_about_once() -> None:
    issuer = Saying({"active": False})
    admission = issuer.admission(introspect_as=CLIENT)
    assert [await admit(admission, "made-up") for _ in range(5)] == ["INVALID_TOKEN"] * 5
    assert issuer.times_asked("/introspect") == 1


def test_a_secret_for_one_issuer_is_not_told_to_another() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        Issuer().admission(issuers=[ISSUER, "https://second.example"], introspect_as=CLIENT)
    assert refusal.value.code == "INTROSPECTION_AMBIGUOUS"


async def test_each_issuer_answers_for_its_own_tokens_only() -> None:
    """A key of one issuer must not open the door in the name of another."""
    first, second = Issuer(), Issuer()
    second.keys = [public(rsa_key("rsa-2"))]
    second.metadata = {"issuer": "https://second.example", "jwks_uri": "https://second.example/jwks"}

    def answer(request: httpx2.Request) -> httpx2.Response:
        return (second if request.url.host == "second.example" else first).answer(request)

    admission = first.admission_over(httpx2.MockTransport(answer), issuers=[ISSUER, "https://second.example"])
    of_second = first.claims(iss="https://second.example", aud=HERE)
    assert await admit(admission, first.token(of_second, key=rsa_key("rsa-2"))) == "ok"
    assert await admit(admission, first.token(of_second)) == "INVALID_SIGNATURE"
    assert await admit(admission, first.token(key=rsa_key("rsa-2"))) == "INVALID_SIGNATURE"


def test_the_secret_is_read_from_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    assert find_client("tallystick", str(tmp_path / "secret")) == Client("tallystick", "s3cret")
    assert find_client("", "") is None
    with pytest.raises(InvalidArgument) as refusal:
        find_client("tallystick", str(tmp_path / "missing"))
    assert refusal.value.code == "SECRET_UNREADABLE"

"""An OPA server asked over HTTP: `POST /v1/data/<path>` with `{"input": …}`.

Whatever is not a plain yes within `timeout_ms` is a no: silence, errors, an answer without a
result, an endless one. The server is reached directly, never through a proxy of the
environment, and redirects are not followed: the answer decides who may.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import httpx2
import msgspec

from tallystick.errors import InvalidArgument
from tallystick.formats import strict_json
from tallystick.policy import Decision, Fault, Request, denial
from tallystick.policy.breaker import Breaker
from tallystick.policy.rego_codec import decision_of, input_of

PATH = "tallystick/rbac/decision"
TIMEOUT_MS = 250.0
ANSWER_BYTES_MAX = 64 << 10
UNVERSIONED = "unversioned"
"""For answers that name no policy_version."""


class Remote:
    def __init__(
        self,
        url: str,
        *,
        path: str = PATH,
        timeout_ms: float = TIMEOUT_MS,
        token: str | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        """`url` is http://…, https://… or unix:/path/of/a/socket; `path` is the rule, with slashes."""
        base, transport = _transport(url)
        self._client = httpx2.AsyncClient(
            transport=transport,
            headers={"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})},
            timeout=None,
            trust_env=False,
        )
        # Read once: that takes a good part of a question's time.
        self._url = httpx2.URL(f"{base}/v1/data/{path.strip('/')}")
        self._timeout_seconds = timeout_ms / 1000
        self._breaker = breaker or Breaker()

    async def ask(self, request: Request) -> Decision:
        try:
            question = msgspec.json.encode({"input": input_of(request)})
        except ValueError as error:
            return _no("error", f"the question cannot be put: {error}")
        if not self._breaker.admits():
            return _no("breaker", "the policy server keeps failing and is not asked for now")
        decision = await self._asked(question)
        # Only silence counts: an error is answered at once, and one caller's errors may not deny all others.
        if decision.fault in ("timeout", "unreachable"):
            self._breaker.failed()
        else:
            self._breaker.succeeded()
        return decision

    async def close(self) -> None:
        await self._client.aclose()

    async def __aenter__(self) -> Remote:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _asked(self, question: bytes) -> Decision:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                status, body = await self._post(question)
        except TimeoutError:
            return _no("timeout", f"the policy server did not answer within {self._timeout_seconds * 1000:g} ms")
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            return _no("unreachable", f"the policy server cannot be reached: {type(error).__name__}")
        if status != 200:
            return _no("error", f"the policy server answered with status {status}")
        if body is None:
            return _no("malformed", "the policy server's answer is too long")
        return _read(body)

    async def _post(self, question: bytes) -> tuple[int, bytes | None]:
        """Status and body; None for a body that does not end where an answer would."""
        async with self._client.stream("POST", self._url, content=question) as response:
            body = b""
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > ANSWER_BYTES_MAX:
                    return response.status_code, None
            return response.status_code, body


def _read(body: bytes) -> Decision:
    """OPA's envelope {"result": value}, or the flat {"result": bool, "reason": …} (L29)."""
    try:
        envelope: Any = strict_json.parse(body)
    except strict_json.JsonFault as fault:
        return _no("malformed", f"the policy server's answer is not JSON: {fault}")
    if not isinstance(envelope, dict):
        return _no("malformed", "the policy server's answer is not an object")
    result = envelope.get("result")
    return decision_of(envelope if isinstance(result, bool) else result, UNVERSIONED)


def _no(fault: Fault, reason: str) -> Decision:
    return denial(fault, reason, UNVERSIONED)


def _transport(url: str) -> tuple[str, httpx2.AsyncHTTPTransport]:
    if url.startswith("unix:"):
        return "http://opa", httpx2.AsyncHTTPTransport(uds=url.removeprefix("unix:"), verify=False)
    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(
            f"'{url}' is not the address of a policy server", hint="http://HOST:PORT, https://… or unix:/path"
        )
    # Certificates are read only where they will be looked at: that takes longer than many decisions.
    return url.rstrip("/"), httpx2.AsyncHTTPTransport(verify=url.startswith("https:"), trust_env=False)

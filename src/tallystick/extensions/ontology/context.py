"""What the ontology tools share: contents, the text index, ids, and how they write."""

from __future__ import annotations

import asyncio
import binascii
import secrets
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec

from tallystick.commits import Draft, Operation
from tallystick.commits.canonical import canonical_bytes
from tallystick.engine.partition import Receipt
from tallystick.errors import InvalidArgument
from tallystick.policy import Action, Principal
from tallystick.projections.content import Contents, Kind, Prepared
from tallystick.projections.text import TextIndex
from tallystick.state import Edge, Node
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.drafts import Drawn, Outdated, after_commit, write_drawn, write_prepared

if TYPE_CHECKING:
    from tallystick.engine.store import Look, Store

T = TypeVar("T")
CONTENT_BYTES_MAX = 100_000_000
PROPERTIES_BYTES_MAX = 1 << 20
ENCODINGS = ("utf-8", "base64")
DEFAULT_FORMAT = "markdown"


_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_AT_ONCE = 64 << 10
"""Content of so few bytes is decoded where it is; more in a thread, so that others can go on."""


class Published(Protocol):
    def __call__(self, tenant: str, position: int) -> Awaitable[object]: ...


class Adopt(Protocol):
    def __call__(self, tenant: str, kind: Kind, entity_id: str) -> Awaitable[object]: ...


class ToolContext(msgspec.Struct, frozen=True):
    contents: Callable[[str], Contents] | None
    """By tenant; None for a toolset that is only shown."""
    text: Callable[[str], TextIndex] | None
    published: Published | None = None
    """Awaited after a write: until the views show it, or it is not worth waiting for."""
    adopt: Adopt | None = None
    """Awaited before a content is read, replaced or deleted: what a person wrote into its file comes first."""
    content_bytes_max: int = CONTENT_BYTES_MAX


class Call(msgspec.Struct, frozen=True):
    """One call of a tool: with what it is answered, and who makes it."""

    context: ToolContext
    store: Store
    principal: Principal
    tool: str

    async def read(self, action: Action, look: Look[T], *, resource: str | None = None, is_entity: bool = True) -> T:
        return await self.store.read(self.principal, action, look, resource=resource, is_entity=is_entity)

    async def adopt_edit(self, kind: Kind, entity_id: str) -> None:
        if self.context.adopt is not None:
            await self.context.adopt(self.principal.tenant, kind, entity_id)

    def contents(self) -> Contents:
        if self.context.contents is None:
            raise RuntimeError("this toolset was made without a place for contents")
        return self.context.contents(self.principal.tenant)

    def text(self) -> TextIndex:
        if self.context.text is None:
            raise RuntimeError("this toolset was made without a text index")
        return self.context.text(self.principal.tenant)


# -- writing


class Writing(msgspec.Struct, frozen=True):
    """One tool call that writes."""

    call: Call
    action: Action = Action.WRITE
    written_type: str | None = None
    """Of what it makes."""

    async def look(self, judge: Callable[[State, ReadFilter], Any], resource: str) -> Any:
        """Judge before anything is prepared on disk, by the right to write: a refusal must cost nothing."""
        call = self.call
        return await call.store.read(
            call.principal, self.action, judge, resource=resource, written_type=self.written_type
        )

    async def prepare(self, kind: Kind, entity_id: str, format: str, encoding: str, data: bytes) -> Prepared:
        def prepare() -> Prepared:
            text = self.call.store.screened(data.decode(), "content").encode() if encoding == "utf-8" else data
            return self.call.contents().prepare(kind, entity_id, format, encoding, text)

        return await asyncio.to_thread(prepare)

    async def commit(
        self,
        propose: Callable[[State, ReadFilter], tuple[Operation, ...]],
        resource: str,
        prepared: Prepared | None = None,
    ) -> None:
        """All the operations or none; what was prepared goes with them."""

        def draft(state: State, read_filter: ReadFilter) -> Draft:
            return Draft(propose(state, read_filter), actor=self.call.principal.actor, tool=self.call.tool)

        receipt = await write_prepared(
            self.call.store,
            self.call.principal,
            self.action,
            draft,
            prepared,
            resource=resource,
            written_type=self.written_type,
        )
        await self._publish(receipt)

    async def draw(self, draw: Callable[[State, ReadFilter], Drawn[T]], resource: str) -> tuple[T, Receipt | None]:
        """As `write_drawn`."""
        call = self.call
        answer, receipt = await write_drawn(
            call.store, call.principal, call.tool, draw, action=self.action, resource=resource
        )
        if receipt is not None:
            await self._publish(receipt)
        return answer, receipt

    async def _publish(self, receipt: Receipt) -> None:
        if self.call.context.published is not None:
            position = receipt.commits[-1].lamport
            await after_commit(self.call.context.published(self.call.principal.tenant, position))


def done(call: Call) -> Answer:
    return Answer({"ok": True}, text=f"{call.tool} completed successfully")


def fresh_id(prefix: Literal["mem", "conn"]) -> str:
    first, second = ("".join(secrets.choice(_LETTERS) for _ in range(6)) for _ in range(2))
    return f"{prefix}_{first}_{second}"


def check_free(state: State, entity_id: str) -> None:
    if state.knows(entity_id):
        raise Outdated


# -- contents


def check_encoding(encoding: str | None) -> str:
    if encoding not in ENCODINGS:
        said = "is missing" if encoding is None else f"'{encoding[:100]}' is unknown"
        raise InvalidArgument(
            f"encoding {said}: content comes with encoding utf-8 or base64",
            code="INVALID_ENCODING",
            details={"valid_encodings": list(ENCODINGS)},
        )
    return encoding


async def decoded(call: Call, content: str, encoding: str) -> bytes:
    """The bytes that the content stands for. Raises InvalidArgument, for too many of them too."""
    most = call.context.content_bytes_max
    if encoding == "base64" and len(content) > 4 * (most // 3 + 1):
        raise _too_large(len(content) // 4 * 3, most)
    decode = _from_base64 if encoding == "base64" else _from_text
    data = decode(content) if len(content) <= _AT_ONCE else await asyncio.to_thread(decode, content)
    if len(data) > most:
        raise _too_large(len(data), most)
    return data


async def encoded(data: bytes, encoding: str) -> str:
    encode = _to_base64 if encoding == "base64" else bytes.decode
    return encode(data) if len(data) <= _AT_ONCE else await asyncio.to_thread(encode, data)


def format_of(entity: Node | Edge) -> str | None:
    """None for what another toolset wrote without content."""
    return entity.content.get("format") if entity.content else None


def content_after(entity: Node | Edge, format: str | None, prepared: Prepared | None) -> dict[str, Any] | None:
    """What an update leaves of it. Raises Outdated where another gave it a format since this was prepared."""
    if prepared is not None:
        if format is None and prepared.content["format"] != (format_of(entity) or DEFAULT_FORMAT):
            raise Outdated
        return prepared.content
    return entity.content if format is None else {**(entity.content or _EMPTY), "format": format}


_EMPTY = {"encoding": "utf-8", "text": ""}


def check_size(properties: dict[str, Any]) -> None:
    size = len(canonical_bytes(properties))
    if size > PROPERTIES_BYTES_MAX:
        raise InvalidArgument(
            f"the properties have {size:,} bytes, the limit is {PROPERTIES_BYTES_MAX:,}",
            hint="keep long texts in the content",
            details={"bytes": size, "bytes_max": PROPERTIES_BYTES_MAX},
        )


def _from_text(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            "content holds half of a surrogate pair, which is not text", code="INVALID_ENCODING"
        ) from None


def _from_base64(content: str) -> bytes:
    # binascii reads the string where it is; base64.b64decode would copy it first.
    try:
        data = binascii.a2b_base64(content, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise _not_base64(str(error)) from None
    # Loose bits behind the last byte would not come back.
    if content[-4:] != _to_base64(data[len(data) - ((len(data) - 1) % 3 + 1) :]):
        raise _not_base64("its end is not canonical")
    return data


def _to_base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _not_base64(why: str) -> InvalidArgument:
    return InvalidArgument(
        f"content is not valid base64: {why}",
        code="INVALID_ENCODING",
        hint="send it without line breaks and with its padding, or as utf-8",
    )


def _too_large(size: int, most: int) -> InvalidArgument:
    return InvalidArgument(
        f"the content has {size:,} bytes, the limit is {most:,}", details={"bytes": size, "bytes_max": most}
    )

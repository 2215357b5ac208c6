"""Forms as browsers send them: fields, and files as text."""

from __future__ import annotations

from collections.abc import Mapping
from email.message import EmailMessage, MIMEPart
from email.parser import BytesParser
from email.policy import HTTP
from urllib.parse import parse_qsl

from tallystick.errors import InvalidArgument

FIELDS_MAX = 100
REASON_CHARACTERS_MAX = 500
_WITH_FILES = "multipart/form-data"
_FIELD = b"\nContent-Disposition:"


def read_form(content_type: str, body: bytes) -> dict[str, str]:
    """Of a field given twice, the last. Raises ValueError."""
    if content_type.partition(";")[0].strip().lower() != _WITH_FILES:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    if not (content_type.isascii() and content_type.isprintable()) or body.count(_FIELD) > FIELDS_MAX:
        raise ValueError("no form of ours")
    head = b"Content-Type: %b\r\n\r\n" % content_type.encode()
    message = BytesParser(EmailMessage, policy=HTTP).parsebytes(head + body)
    if not message.is_multipart():
        raise ValueError("a form without parts")
    return dict(_field(part) for part in message.iter_parts())


def number_of(text: str, most: int) -> int | None:
    """None for what is no number up to `most`. A text of thousands of digits is not even read."""
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return int(text) if is_number and int(text) <= most else None


def confirmed_reason(form: Mapping[str, str]) -> str:
    """What every act that cannot be undone asks for. Raises InvalidArgument; nothing was changed then."""
    reason = form.get("reason", "").strip()
    if not reason or len(reason) > REASON_CHARACTERS_MAX:
        raise InvalidArgument(f"a reason is needed, of at most {REASON_CHARACTERS_MAX} characters")
    if form.get("confirmed") != "yes":
        raise InvalidArgument("it was not confirmed: nothing was changed", hint="tick the box above the button")
    return reason


def _field(part: MIMEPart) -> tuple[str, str]:
    name = part.get_param("name", header="content-disposition")
    content = part.get_payload(decode=True)
    if not isinstance(name, str) or not isinstance(content, bytes):
        raise ValueError("a part without a name")
    return name, content.decode()

"""The stream as machines see it: publishing on a condition, reading by place, and what it must be to be trusted.

Readers may be served by any server that keeps a copy, which may lag; whoever has to know asks the leader.
"""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec

from tallystick.errors import InvalidArgument, StorageRefused
from tallystick.extensions.cluster.client import Client, NoAnswer
from tallystick.extensions.cluster.durability import find_lazy, find_unsynced, peers_of
from tallystick.extensions.cluster.messages import (
    FORMAT,
    Group,
    Layout,
    Message,
    contents_stream,
    group_of,
    is_foreign,
    read_group,
)

LEAST_SERVER = (2, 11)
"""The first that hands out messages in batches without a consumer."""
PAYLOAD_BYTES_MIN = 16 << 20
ASK_SECONDS = 5.0
_BATCH_MESSAGES = 256
_BATCH_BYTES = 8 << 20
_WRONG_SEQUENCE = {10071, 10164}
_NOT_FOUND = 404
_UNAVAILABLE = 503
_STREAM_NOT_FOUND = 10059
_STREAM_EXISTS = 10058
_FORMAT_KEY, _MEMORY_KEY = "tallystick-format", "tallystick-memory"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
ROLLUP = {"Nats-Rollup": "sub"}
"""What is published so replaces what was on its subject."""


class Trust(msgspec.Struct, frozen=True):
    """What a stream must be to be written to."""

    replicas: int = 3
    sync: Literal["always", "unchecked"] = "always"
    monitors: tuple[str, ...] = ()
    """Where the servers' monitoring is, if they do not tell us themselves whether they sync every write."""


class WrongSequence(Exception):
    """The condition of a message did not hold: nothing was stored of it."""


class Refused(Exception):
    """The servers did not store it and say why."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class Stream:
    """One stream over one connection. Raises NoAnswer wherever no answer came."""

    def __init__(self, client: Client, name: str, *, stored: Sequence[str] = ()) -> None:
        """`stored` are the subjects of one that holds no log."""
        self.client = client
        self.layout = Layout(name)
        self.trust = Trust()
        self.memory = ""
        """Which memory it holds; known once it is open."""
        self._stored = sorted(stored or self.layout.stored)
        self._is_log = not stored
        self.filler = stored[0].replace("*", "filler") if stored else self.layout.machine("filler")
        """A subject for what only takes room."""

    @cached_property
    def contents(self) -> Stream:
        """The one that keeps the blobs which commits of this one name. Made when the first is stored."""
        name, stored = contents_stream(self.name)
        return Stream(self.client, name, stored=stored)

    @property
    def name(self) -> str:
        return self.layout.stream

    # -- opening

    def open(self, trust: Trust, *, create: bool = True, memory: str = "") -> None:
        """Make the stream where there is none; with `memory` it must be that one's. Raises InvalidArgument for one
        that cannot be trusted with a memory."""
        if self.client.server_version < LEAST_SERVER:
            raise _unsuitable("the NATS servers are too old", f"this needs {'.'.join(map(str, LEAST_SERVER))} or newer")
        if self.client.payload_bytes_max < PAYLOAD_BYTES_MIN:
            raise _unsuitable(
                f"the NATS servers take messages of at most {self.client.payload_bytes_max} bytes",
                f"set max_payload: {PAYLOAD_BYTES_MIN >> 20}MB in the configuration of each server",
            )
        info = self.info()
        if info is None:
            if not create:
                raise _unsuitable(f"there is no stream '{self.name}' yet", "'tallystick serve' makes it")
            info = self._create(trust, memory or uuid.uuid4().hex)
        self._check(info, trust)
        found = info["config"]["metadata"][_MEMORY_KEY]
        if memory and found != memory:
            raise _unsuitable(
                f"the stream '{self.name}' holds contents of memory {found}, not of {memory}",
                "it was left by a stream that was deleted: delete it too, or name another with log_stream",
            )
        self.memory, self.trust = found, trust
        if trust.sync == "always":
            self.check_synced(info, trust)

    def info(self) -> dict[str, Any] | None:
        answer = self._api(f"STREAM.INFO.{self.name}", {})
        return None if answer.get("error", {}).get("err_code") == _STREAM_NOT_FOUND else _ok(answer)

    def check_synced(self, info: dict[str, Any], trust: Trust) -> None:
        """Raises InvalidArgument, and NoAnswer while too few of the servers answer."""
        problem = find_unsynced(self.client, peers_of(info), trust.monitors)
        if problem is not None:
            raise _unsuitable(problem[0], problem[1])

    def check_synced_still(self) -> None:
        """Once it is open. Raises InvalidArgument where a server was set up otherwise since, NoAnswer, Refused."""
        problem = find_lazy(self.client, peers_of(self.info() or {}), self.trust.monitors)
        if problem is not None:
            raise _unsuitable(problem[0], problem[1])

    def tenants(self) -> list[str]:
        """All that have a log in it."""
        return sorted(tenant for each in self._subjects(self.layout.logs) if (tenant := self.layout.tenant_of(each)))

    # -- writing

    def publish(
        self, subject: str, data: bytes, headers: Mapping[str, str], *, seconds: float, expected: int | None = None
    ) -> int:
        """The sequence that it was stored as, by a quorum. Raises WrongSequence, Refused, NoAnswer."""
        # Never Nats-Expected-Last-Msg-Id: a rejected one stops a replicated stream.
        condition = {} if expected is None else {EXPECTED: str(expected)}
        answer = self.client.request(subject, data, headers={**headers, **condition}, seconds=seconds)
        said = _decoded(answer.data)
        error = said.get("error")
        if error is None:
            return int(said["seq"])
        if error.get("err_code") in _WRONG_SEQUENCE:
            raise WrongSequence(error.get("description", ""))
        raise Refused(int(error.get("err_code", 0)), str(error.get("description", "")))

    def erase(self, sequence: int) -> None:
        """Delete a message and overwrite its bytes, unless it is gone already. Raises NoAnswer, Refused."""
        answer = self._api(f"STREAM.MSG.DELETE.{self.name}", {"seq": sequence, "no_erase": False})
        if not answer.get("success") and self._from_leader({"seq": sequence}) is not None:
            _ok(answer)
            raise NoAnswer(f"message {sequence} was not deleted", was_sent=True)

    # -- reading

    def groups(self, tenant: str, after: int) -> Iterator[Group]:
        """Those stored behind a sequence, in order, as far as the server that is asked has them."""
        for message in self.messages(self.layout.log(tenant), after):
            if is_foreign(message):
                continue
            if (group := group_of(message)) is None:
                return
            yield group

    def messages(self, subject: str, after: int, *, through: int | None = None) -> Iterator[Message]:
        """Of a subject or a pattern, in order; with `through` asked for again until one with that sequence was seen."""
        deadline = time.monotonic() + ASK_SECONDS * 5
        while True:
            found = self.batch(subject, after)
            yield from found
            after = found[-1].sequence if found else after
            if after >= through if through is not None else not found:
                return
            if not found:
                if time.monotonic() > deadline:
                    raise NoAnswer(f"no server has message {through} yet", was_sent=True)
                time.sleep(0.02)

    def batch(self, subject: str, after: int) -> list[Message]:
        """The next of them; none where the server that is asked has no more."""
        asked = {"seq": after + 1, "next_by_subj": subject, "batch": _BATCH_MESSAGES, "max_bytes": _BATCH_BYTES}
        return self.client.gather(f"$JS.API.DIRECT.GET.{self.name}", msgspec.json.encode(asked), seconds=ASK_SECONDS)

    def last(self, subject: str) -> Message | None:
        """The newest of a subject, as the leader knows it."""
        return self._from_leader({"last_by_subj": subject})

    def next(self, subject: str, after: int) -> Message | None:
        """The first of a subject behind a sequence, as the leader knows it."""
        return self._from_leader({"seq": after + 1, "next_by_subj": subject})

    def last_group(self, subject: str) -> Message | None:
        """Like `last`, but skip messages of other programs. It bears the sequence of the newest message of all, since
        that is the one to publish on and to read on from."""
        newest = self.last(subject)
        if newest is None or not is_foreign(newest):
            return newest
        found, low, high = None, 0, newest.sequence
        while low < high:
            middle = (low + high) // 2
            later = self.next_group(subject, middle, until=high)
            if later is None:
                high = middle
            else:
                found, low = later, later.sequence
        return None if found is None else msgspec.structs.replace(found, sequence=newest.sequence)

    def next_group(self, subject: str, after: int, *, until: int | None = None) -> Message | None:
        """Like `next`, but skip messages of other programs, and stop after the sequence `until`."""
        found = self.next(subject, after)
        while found is not None and (until is None or found.sequence <= until):
            if not is_foreign(found):
                return found
            found = self.next(subject, found.sequence)
        return None

    def patch(self, tenant: str, after: int) -> Group | None:
        found = self.last_group(self.layout.patch(tenant, after))
        return None if found is None else read_group(found)

    def machines(self) -> list[Message]:
        """What each machine last said of itself, as the leader knows it."""
        return [found for subject in self._subjects(self.layout.machines) if (found := self.last(subject)) is not None]

    # -- below

    def _create(self, trust: Trust, memory: str) -> dict[str, Any]:
        asked = {
            "name": self.name,
            "subjects": self._stored,
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "num_replicas": trust.replicas,
            "max_msgs": -1,
            "max_bytes": -1,
            "max_age": 0,
            "max_msg_size": -1,
            "allow_direct": True,
            "allow_rollup_hdrs": True,
            **({"republish": {"src": ">", "dest": self.layout.new}} if self._is_log else {}),
            "metadata": {_FORMAT_KEY: FORMAT, _MEMORY_KEY: memory},
        }
        answer = self._api(f"STREAM.CREATE.{self.name}", asked, seconds=ASK_SECONDS * 5)
        if answer.get("error", {}).get("err_code") == _STREAM_EXISTS:
            # Another machine was faster.
            return _ok(self._api(f"STREAM.INFO.{self.name}", {}))
        if answer.get("error", {}).get("code") == _UNAVAILABLE:
            # The servers elect a leader, or one of them is starting.
            _ok(answer)
        if "error" in answer:
            raise _unsuitable(
                f"the stream '{self.name}' cannot be made with {trust.replicas} replicas:"
                f" {answer['error'].get('description')}",
                "start as many NATS servers in one cluster, or set log_replicas = 1 for one that may lose everything",
            )
        return answer

    def _check(self, info: Mapping[str, Any], trust: Trust) -> None:
        config = info["config"]
        metadata = config.get("metadata") or {}
        if metadata.get(_FORMAT_KEY) != FORMAT or sorted(config["subjects"]) != self._stored:
            raise _unsuitable(
                f"the stream '{self.name}' is not laid out as this version does it: format"
                f" {metadata.get(_FORMAT_KEY, 'none')}, subjects {', '.join(config['subjects'])}",
                "it is another program's, or another version's: name another with log_stream; nothing was changed",
            )
        wanted = {"retention": "limits", "storage": "file", "allow_direct": True, "allow_rollup_hdrs": True}
        wrong = [f"{name} is {config.get(name)}" for name, value in wanted.items() if config.get(name) != value]
        bounds = [name for name in ("max_msgs", "max_bytes", "max_age") if config.get(name, 0) > 0]
        wrong += [f"{name} would drop commits" for name in bounds]
        if wrong:
            raise _unsuitable(
                f"the stream '{self.name}' was changed: {', '.join(wrong)}",
                "put it back with 'nats stream edit'; nothing was changed",
            )
        if config["num_replicas"] < trust.replicas:
            raise _unsuitable(
                f"the stream '{self.name}' is kept by {config['num_replicas']} server(s), not by {trust.replicas}",
                f"'nats stream edit {self.name} --replicas {trust.replicas}' adds copies; or set log_replicas ="
                f" {config['num_replicas']} if that many are enough for you",
            )

    def _subjects(self, pattern: str) -> list[str]:
        """Those that have a message, as the leader knows it."""
        found: list[str] = []
        while True:
            asked = {"subjects_filter": pattern, "offset": len(found)}
            subjects = _ok(self._api(f"STREAM.INFO.{self.name}", asked))["state"].get("subjects") or {}
            found += subjects
            if len(subjects) < 100_000:
                return found

    def _from_leader(self, asked: Mapping[str, Any]) -> Message | None:
        answer = self._api(f"STREAM.MSG.GET.{self.name}", asked)
        if answer.get("error", {}).get("code") == _NOT_FOUND:
            return None
        said = _ok(answer)["message"]
        return Message(
            subject=said["subject"],
            sequence=said["seq"],
            headers=_headers(base64.b64decode(said.get("hdrs") or "")),
            data=base64.b64decode(said.get("data") or ""),
        )

    def _api(self, what: str, asked: Mapping[str, Any], *, seconds: float = ASK_SECONDS) -> dict[str, Any]:
        return _decoded(self.client.request(f"$JS.API.{what}", msgspec.json.encode(asked), seconds=seconds).data)


def unreachable(stream: str, why: object) -> StorageRefused:
    return StorageRefused(
        f"the stream '{stream}' cannot be reached, and nothing was written: {why}",
        code="LOG_UNREACHABLE",
        hint="reads go on with what this machine has; writes go on by themselves when a quorum of the NATS servers"
        " can be reached again",
    )


def _unsuitable(what: str, hint: str) -> InvalidArgument:
    return InvalidArgument(what, code="LOG_UNSUITABLE", hint=hint)


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise NoAnswer("what answers is no JetStream", was_sent=True) from None


def _ok(answer: dict[str, Any]) -> dict[str, Any]:
    error = answer.get("error")
    if error is None:
        return answer
    if error.get("code") == _UNAVAILABLE:
        raise NoAnswer(str(error.get("description")), was_sent=False)
    raise Refused(int(error.get("err_code", 0)), str(error.get("description", "")))


def _headers(raw: bytes) -> dict[str, str]:
    lines = raw.decode("utf-8", "replace").split("\r\n")[1:]
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines) if name}

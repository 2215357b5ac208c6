"""The law of backups: whatever was written, redacted and backed up in whatever order, what is restored is the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.commits import Operation, Verb, chain
from tallystick.config import Settings
from tallystick.errors import Conflict
from tallystick.extensions.backup.capture import capture_tenant
from tallystick.extensions.backup.encryption import BackupKey, BackupKeys
from tallystick.extensions.backup.manifest import FORMAT, Manifest, TenantBackup
from tallystick.extensions.backup.object_store import DirectoryStore
from tallystick.extensions.backup.repository import Repository
from tallystick.extensions.backup.restore import AsOf, restore
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.log.proof import prove
from tallystick.log.unopened import unopened
from tallystick.projections.content import Contents
from tests.commits_by_hand import draft, entries, node

TENANTS = ("default", "acme")
KEYS = BackupKeys((BackupKey(bytes(32)),))

_tenants = st.sampled_from(TENANTS)
_steps = st.one_of(
    st.tuples(st.just("write"), _tenants, st.lists(st.text(max_size=40), min_size=1, max_size=4)),
    st.tuples(st.just("blob"), _tenants, st.binary(max_size=50)),
    st.tuples(st.just("redact"), _tenants, st.integers(0, 30)),
    st.tuples(st.just("back up"), st.none(), st.none()),
)


class _Memory:
    def __init__(self, root: Path, keys: BackupKeys) -> None:
        self.root = root
        self.repository = Repository(DirectoryStore(root / "store"), keys)
        self.base: Manifest | None = None

    def of(self, tenant: str, base: str = "memory") -> Settings:
        return Settings(base=self.root / base, tenant=tenant)

    def append(self, tenant: str, *operations: Operation) -> None:
        log = FilesLog(self.of(tenant).system, segment_bytes_max=600)
        head = log.head()
        log.append(entries(head, draft(*operations), tenant=tenant), expected=head)
        log.close()

    def step(self, kind: str, tenant: str, value: object) -> None:
        if kind == "write" and isinstance(value, list):
            self.append(tenant, *(node(f"n{number}", said=text) for number, text in enumerate(value)))
        elif kind == "blob" and isinstance(value, bytes):
            content = Contents(self.of(tenant).home).prepare("nodes", "big", "bin", "base64", value).content
            named = node("big")
            named.payload["content"] = content
            self.append(tenant, named)
        elif kind == "redact" and isinstance(value, int):
            self.redact(tenant, value)
        elif kind == "back up":
            self.back_up()

    def redact(self, tenant: str, number: int) -> None:
        log = FilesLog(self.of(tenant).system)
        found = list(log.read(Head()))
        log.close()
        nodes = [entry for entry in found if entry.commit.operation is Verb.UPSERT_NODE]
        if not nodes:
            return
        entry = nodes[number % len(nodes)]
        left = chain.redacted_payload(entry.line, None)
        if left is None:
            return
        said = entry.commit.document()
        redacts = {str(entry.commit.lamport): chain.content_hash(left)}
        self.append(tenant, Operation(Verb.REDACT_NODE, {"node_id": said["id"], "reason": "asked"}, redacts=redacts))

    def back_up(self) -> None:
        tenants: list[TenantBackup] = []
        for tenant in TENANTS:
            settings = self.of(tenant)
            if (settings.system / "log").is_dir():
                before = self.base.find(tenant) if self.base else None
                tenants.append(capture_tenant(settings, before, self.repository.put_piece, lambda done: None))
        if not tenants:
            return
        manifest = Manifest(
            format=FORMAT,
            number=self.base.number + 1 if self.base else 1,
            at="",
            memory="",
            epoch=0,
            host="",
            tallystick="",
            tenants=tenants,
        )
        assert self.repository.publish(manifest, ())
        self.base = manifest

    def bytes_of(self, tenant: str, base: str) -> bytes:
        with unopened(self.of(tenant, base).system) as log:
            return b"".join(line + b"\n" for _, line, _ in log.segments.lines(0, log.end))


@settings(max_examples=60)
@given(st.lists(_steps, max_size=14), st.booleans(), st.integers(0, 20))
def test_what_is_backed_up_and_restored_is_the_same_memory(
    steps: list[tuple[str, str, object]], encrypts: bool, position: int
) -> None:
    with tempfile.TemporaryDirectory() as made:
        memory = _Memory(Path(made), KEYS if encrypts else BackupKeys())
        for step in steps:
            memory.step(*step)
        memory.back_up()
        if memory.base is None:
            return
        done = restore(memory.repository, memory.root / "restored", segment_bytes_max=1000)
        for tenant in done.tenants:
            assert memory.bytes_of(tenant.tenant, "restored") == memory.bytes_of(tenant.tenant, "memory")
            assert tenant.missing == []
        blobs = [sorted(Contents(memory.of("default", base).home).blobs()) for base in ("memory", "restored")]
        assert set(blobs[1]) <= set(blobs[0])
        _check_moment(memory, done.tenants[0].tenant, position)


def _check_moment(memory: _Memory, tenant: str, position: int) -> None:
    """A moment is restored as a beginning of the log that can be proven, or refused for a redaction."""
    try:
        restore(
            memory.repository,
            memory.root / "moment",
            tenant=tenant,
            as_of=AsOf(position=position),
            segment_bytes_max=1000,
        )
    except Conflict as refused:
        if refused.code == "REDACTED_SINCE":
            return
        raise
    proof = prove(memory.of(tenant, "moment").system)
    assert proof.sound
    assert proof.position <= position
    assert memory.bytes_of(tenant, "memory").startswith(memory.bytes_of(tenant, "moment"))

"""The settings: one table, read from flags, then the environment, then the base's `tallystick.toml`.

A field here is the whole definition of a setting: its type checks it, its description and
its variables are what `docs/reference/settings.md` is generated from.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from tallystick.errors import InvalidArgument
from tallystick.formats.plain_formats import NotPlain, read_plain_toml
from tallystick.system.approvals import digest, is_approved
from tallystick.system.regular_files import read_bounded
from tallystick.system.repository import find_link, find_memory, lies_in_repository

FILE_NAME = "tallystick.toml"
FILE_BYTES_MAX = 64 << 10
DEFAULT_TENANT = "default"
CHECKPOINT_KEY_VARIABLE = "TALLYSTICK_CHECKPOINT_PRIVATE_KEY"
"""The keys themselves that checkpoints are signed with: in no file and in no setting."""
TENANT_PATTERN = r"^[a-z0-9][a-z0-9_-]{0,62}$"


def _meaning(text: str, *variables: str, **bounds: Any) -> Meta:
    """Without `variables` it is read from `TALLYSTICK_` and its name."""
    return Meta(description=text, extra={"variables": variables}, **bounds)


def _place(text: str, *, unless: tuple[str, ...] = ()) -> Meta:
    """Of a setting that names a file or a directory, unless it is an address or one of these words. No tool reaches
    what it names (`named_paths`)."""
    return Meta(description=text, extra={"variables": (), "unless": unless})


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    base: Annotated[
        Path,
        _meaning(
            "The directory that holds everything; a relative path counts from the working directory. By default the"
            " directory `tallystick` in the `.git` that all work trees of the repository around it share, where"
            " `tallystick init` made one, else your data directory.",
            "BASE_PATH",
        ),
    ]
    tenant: Annotated[str, _meaning("Whose memory: each tenant has a log of its own.", pattern=TENANT_PATTERN)] = (
        DEFAULT_TENANT
    )
    agent_identity: Annotated[
        str,
        _meaning(
            "Who writes, where no token and no argument says so; by default what the client calls itself.",
            "TALLYSTICK_AGENT",
            "GRAPH_AGENT",
            pattern=".",
        ),
    ] = "default-agent"

    toolsets: Annotated[tuple[str, ...], _meaning("Vocabularies offered to agents, or `all`.")] = (
        "memory",
        "work",
        "knowledge",
    )
    tools: Annotated[tuple[str, ...], _meaning("Only these tools of the chosen toolsets; empty means every one.")] = ()
    read_only: Annotated[bool, _meaning("Offer only tools that change nothing.")] = False
    tool_names: Annotated[
        Literal["auto", "dotted", "underscore"],
        _meaning("How tools are listed; `auto` shows underscores to clients known to refuse dots."),
    ] = "auto"
    validation_errors: Annotated[
        Literal["auto", "rpc", "result"],
        _meaning(
            "How malformed arguments are answered: JSON-RPC error, result, or (`auto`) as the toolset and the"
            " protocol's version say."
        ),
    ] = "auto"
    confirm_redactions: Annotated[
        bool,
        _meaning(
            "Ask the person at the client before a redaction, where the client can ask; off for agents that work alone."
        ),
    ] = True
    max_hops: Annotated[
        int,
        _meaning(
            "The longest traversal; a longer one is delegated to the engine at `cypher_url`, or cut short and says so.",
            ge=1,
            le=10,
        ),
    ] = 3
    cypher_url: Annotated[
        str,
        _meaning(
            "An engine that follows the log for walks that exceed the memory's limits, and for `tallystick cypher`:"
            " `falkor://host:6379`, `bolt://host:7687` or `neo4j://…`, with TLS `falkors`, `bolt+s` or `neo4j+s`; empty"
            " means none. Needs `tallystick[cypher]`."
        ),
    ] = ""
    cypher_user: Annotated[str, _meaning("The account there that writes; empty means none.")] = ""
    cypher_password_file: Annotated[str, _place("The file that holds its password.")] = ""
    cypher_reader: Annotated[
        str, _meaning("Another account there, which may only read, for questions; empty means the same.")
    ] = ""
    cypher_reader_password_file: Annotated[str, _place("The file that holds that one's password.")] = ""
    cypher_graph: Annotated[
        str,
        _meaning(
            "What the graphs there begin with: each memory needs one of its own, each tenant gets one.",
            pattern="^[a-z][a-z0-9]{0,30}$",
        ),
    ] = "tallystick"
    walk_nodes_max: Annotated[
        int, _meaning("Entities that a delegated walk may come to; one that would come to more is refused.", ge=100)
    ] = 10_000
    walk_ms_max: Annotated[float, _meaning("Milliseconds that a delegated walk may take.", gt=0)] = 1_000.0

    http: Annotated[str, _meaning("HOST:PORT to serve HTTP on; empty means stdio.")] = ""
    workers: Annotated[
        int,
        _meaning(
            "Processes that serve HTTP on the one address, each with the whole index in its memory; more than one serve"
            " no SSE.",
            ge=1,
            le=64,
        ),
    ] = 1
    http_hosts: Annotated[
        tuple[str, ...], _meaning("Names that HTTP clients may call this server by, besides this machine's own.")
    ] = ()
    http_origins: Annotated[
        tuple[str, ...],
        _meaning("Origins of web pages that may call, besides this server's own, as `http://localhost:6274`."),
    ] = ()
    web: Annotated[
        bool,
        _meaning(
            "Whether pages are served at `/`. With issuers, people log in by `web_client_id`; programs have tokens."
        ),
    ] = True
    web_actor: Annotated[
        str,
        _meaning(
            "Who looks at pages and acts there, where nobody logs in; empty means the user that the server runs as."
        ),
    ] = ""
    body_bytes_max: Annotated[int, _meaning("The largest HTTP request that is read.", ge=1024)] = 8 << 20
    http_connections_max: Annotated[
        int,
        _meaning(
            "HTTP connections at a time, fewer if the limit of open files leaves fewer; one more takes the place of one"
            " that waits for its client, and is refused with 503 if none does.",
            ge=1,
        ),
    ] = 512
    http_head_seconds: Annotated[float, _meaning("How long the head of an HTTP request may take to arrive.", gt=0)] = (
        10.0
    )
    http_body_seconds: Annotated[
        float, _meaning("The same for its body, and for a client to take its answer.", gt=0)
    ] = 60.0
    drain_seconds: Annotated[
        float,
        _meaning(
            "How long an HTTP server that is asked to end waits for open connections, each of which is answered once"
            " more.",
            ge=0,
        ),
    ] = 1.0
    session_seconds: Annotated[
        float, _meaning("How long an MCP session over HTTP lasts at most; then the client begins a new one.", gt=0)
    ] = 86_400.0
    sessions_per_subject: Annotated[
        int,
        _meaning(
            "MCP sessions over HTTP that one caller may begin with a server; past that its own idle ones end.", ge=1
        ),
    ] = 1_000
    sessions_per_tenant: Annotated[int, _meaning("The same for all callers of a tenant together.", ge=1)] = 10_000
    tls_cert: Annotated[str, _place("PEM file with the certificate to serve HTTPS with; empty means HTTP.")] = ""
    tls_key: Annotated[str, _place("PEM file with the certificate's key, if it is not in the same file.")] = ""

    refuse_root: Annotated[
        bool, _meaning("Do not serve as root: images set it, since nothing here needs what root may do.")
    ] = False

    issuers: Annotated[
        tuple[str, ...],
        _meaning(
            "Whose access tokens are asked for over HTTP, spelled as in the tokens; none means this machine only."
        ),
    ] = ()
    public_url: Annotated[
        str, _meaning("Where clients find this server, without `/mcp`; empty means the address it listens on.")
    ] = ""
    audience: Annotated[
        tuple[str, ...],
        _meaning("What tokens must be issued for; empty means `public_url`, with or without `/mcp` or `/sse`."),
    ] = ()
    scopes: Annotated[tuple[str, ...], _meaning("Scopes that every token must have.")] = ()
    tenant_claim: Annotated[
        str,
        _meaning(
            "The claim, or the path to it, that names the tenant; without it the tenant is `default`.", pattern="."
        ),
    ] = "tenant_id"
    roles_claim: Annotated[str, _meaning("The claim, or the path to it, that lists roles.", pattern=".")] = "roles"
    clock_skew_seconds: Annotated[int, _meaning("How far the issuer's clock may be off ours.", ge=0, le=300)] = 10
    token_cache_seconds: Annotated[
        int, _meaning("How long a token that was checked is not checked again.", ge=0, le=3600)
    ] = 60
    jwks_seconds: Annotated[
        int, _meaning("How long an issuer's keys are used before they are asked for again.", ge=1)
    ] = 300
    jwks_stale_seconds: Annotated[
        int, _meaning("How much longer they are used if the issuer does not answer.", ge=0)
    ] = 3600
    introspection_client: Annotated[
        str, _meaning("The client id to ask the issuer with whether a token was revoked; empty means not to ask.")
    ] = ""
    introspection_secret_file: Annotated[str, _place("The file that holds that client's secret.")] = ""
    introspection_seconds: Annotated[
        int, _meaning("How long an introspected token is not introspected again.", ge=0, le=3600)
    ] = 60
    web_client_id: Annotated[
        str,
        _meaning(
            "As which client people log in at the first issuer, to see pages; empty means that pages need a token."
        ),
    ] = ""
    web_client_secret_file: Annotated[
        str, _place("The file that holds that client's secret; empty means that it has none.")
    ] = ""
    web_idle_seconds: Annotated[
        int, _meaning("After how long without a visit a person has to log in again.", ge=60, le=86_400)
    ] = 1_800
    web_session_seconds: Annotated[
        int, _meaning("After how long a person has to log in again in any case.", ge=60, le=86_400)
    ] = 43_200
    quota_writes: Annotated[
        int,
        _meaning(
            "Calls a minute that may write, for each tenant, where tokens are asked for; 0 means any number.", ge=0
        ),
    ] = 1000
    quota_reads: Annotated[
        int,
        _meaning(
            "The same for calls that only read. In both, a call counts once, and once more per 10 ms of work and per"
            " 64 KiB of its answer.",
            ge=0,
        ),
    ] = 10_000
    quota_overrides: Annotated[
        tuple[str, ...], _meaning("Other quotas for some tenants, as `tenant=writes/reads`.")
    ] = ()

    long_reads_max: Annotated[
        int,
        _meaning(
            "Reads of one tenant that take longer than some milliseconds and run at a time, in each process; further"
            " ones wait.",
            ge=1,
        ),
    ] = 4
    long_reads_waiting_max: Annotated[
        int, _meaning("How many of them may wait; one more gets `RATE_LIMITED`.", ge=1)
    ] = 256
    answer_bytes_max: Annotated[
        int,
        _meaning(
            "The most bytes of lists in an answer for a program: over REST, on the command line, on pages. A longer"
            " page is cut, with `truncated` and `next_offset`. Agents get less, exports get all.",
            ge=65_536,
        ),
    ] = 16 << 20

    tenant_idle_seconds: Annotated[
        float,
        _meaning(
            "After so long without a call a tenant's memory is closed, until the next call; never the own `tenant`.",
            gt=0,
        ),
    ] = 600.0
    tenants_open_max: Annotated[int, _meaning("How many are open at once; more only while they are in use.", ge=1)] = (
        100
    )

    content_bytes_max: Annotated[
        int,
        _meaning(
            "The largest content of a node or connection. Stdio carries all of it, HTTP what fits `body_bytes_max`.",
            ge=1024,
        ),
    ] = 100_000_000
    secrets: Annotated[
        Literal["off", "refuse", "mask"],
        _meaning(
            "What becomes of keys, tokens and passwords in what is to be written: nothing, the write is refused, or"
            " they are replaced by `[SECRET]`."
        ),
    ] = "off"
    repo: Annotated[
        str,
        _meaning(
            "The directory that paths of knowledge are relative to, in a git work tree; empty means the root of the one"
            " around the working directory, or none where tokens are asked for."
        ),
    ] = ""
    pin_knowledge: Annotated[
        bool, _meaning("Whether knowledge is pinned to the files it is about without being asked to.")
    ] = False
    stale_makes_work: Annotated[
        bool,
        _meaning("Whether what is found to be stale, of any vocabulary, gets a work node to verify it again."),
    ] = False
    vectors: Annotated[
        bool,
        _meaning(
            "Whether a search by words also finds what means the same in other words. Needs `tallystick[vectors]` and"
            " 300 MB of memory."
        ),
    ] = False
    adopt_file_edits: Annotated[
        Literal["auto", "on", "off"],
        _meaning(
            "Whether content files that people edit become commits by `file-edit`; `auto`: on stdio. Where they do not,"
            " they are put right at the start."
        ),
    ] = "auto"

    policy: Annotated[
        str,
        _place(
            "Who may: `single-user`, `rbac`, `closed`, or a Rego file or directory; empty means `single-user`, and"
            " `closed` where tokens are asked for.",
            unless=("single-user", "rbac", "closed"),
        ),
    ] = ""
    policy_url: Annotated[
        str, _place("An OPA server that decides instead: http://…, https://… or unix:/path/of/a/socket.")
    ] = ""
    policy_path: Annotated[str, _meaning("The rule that the OPA server is asked for.", pattern=".")] = (
        "tallystick/decision"
    )
    policy_slo_ms: Annotated[float, _meaning("A decision that takes longer is worth a warning.", gt=0)] = 5.0
    policy_timeout_ms: Annotated[float, _meaning("A decision that takes longer is a denial.", gt=0)] = 250.0
    policy_cache_seconds: Annotated[float, _meaning("How long a decision is relied upon; 0 asks each time.", ge=0)] = (
        300.0
    )
    audit_retention_days: Annotated[
        int, _meaning("Days that decisions are kept in the audit log; 0 keeps all.", ge=0)
    ] = 90
    audit_archive: Annotated[str, _place("Where older files of it are moved to; empty means they are removed.")] = ""
    lineage_to: Annotated[
        str,
        _place(
            "Where a server hands lineage on as OpenLineage events: a file, or an address that takes POST; empty"
            " means nowhere."
        ),
    ] = ""
    audit_strict: Annotated[bool, _meaning("Deny everything while decisions cannot be written down.")] = False

    checkpoint_key: Annotated[
        str,
        _place(
            "The file with the keys that checkpoints are signed with, outside the base; empty means that none are."
            " `TALLYSTICK_CHECKPOINT_PRIVATE_KEY` may hold the keys themselves instead."
        ),
    ] = ""
    checkpoint_key_command: Annotated[
        str, _meaning("A command that prints those keys instead, such as one that asks a secret store.")
    ] = ""
    receipts: Annotated[
        str,
        _place(
            "The directory that `graph_update` with `receipt: true` writes receipts to, for agents on this machine;"
            " empty means that they are in its answer. With an issuer they always are."
        ),
    ] = ""
    witnesses: Annotated[
        tuple[str, ...],
        _meaning("Who is asked to cosign checkpoints: for each its verifier key, a space, and its address."),
    ] = ()
    witness_quorum: Annotated[
        int, _meaning("How many of them must cosign for `tallystick checkpoint` to leave with 0.", ge=0)
    ] = 0
    tlog: Annotated[
        Literal["off", "guarded", "open"],
        _meaning(
            "Who may read checkpoints and tiles at `/tlog/<tenant>/`: `guarded`, where tokens are asked for, those with"
            " a token of that tenant; `open`, anybody."
        ),
    ] = "off"

    log_url: Annotated[
        str,
        _meaning(
            "The NATS servers that keep the log for several machines: `nats://host:4222` or `tls://…`, several with"
            " commas; empty means files of this base alone. Needs `tallystick[cluster]`."
        ),
    ] = ""
    log_stream: Annotated[
        str, _meaning("The stream of those servers that holds this memory.", pattern="^[A-Za-z0-9_-]{1,32}$")
    ] = "tally-0"
    log_streams: Annotated[
        tuple[str, ...],
        _meaning("Other streams for some tenants, as `tenant=stream`; the same on every machine."),
    ] = ()
    log_replicas: Annotated[
        int,
        _meaning("How many servers keep each commit. Fewer than three lose commits with one server.", ge=1, le=5),
    ] = 3
    log_sync: Annotated[
        Literal["always", "unchecked"],
        _meaning(
            "Whether to start only if the servers sync every write: `unchecked` is for those whose power never fails."
        ),
    ] = "always"
    log_monitor: Annotated[
        tuple[str, ...],
        _meaning("The servers' monitoring, as `http://host:8222`, where they say whether they sync every write."),
    ] = ()
    log_credentials: Annotated[
        str, _place("The credentials file (`.creds`) to show to the NATS servers; empty means none.")
    ] = ""
    log_nkey: Annotated[str, _place("A file with the seed of an NKey to show to them instead. Needs `nkeys`.")] = ""
    log_tls_ca: Annotated[
        str, _place("PEM file with the authorities of their certificates; empty means the system's.")
    ] = ""
    log_tls_cert: Annotated[str, _place("PEM file with our certificate, where they ask for one.")] = ""
    log_tls_key: Annotated[str, _place("PEM file with its key, if it is not in the same file.")] = ""
    backup_to: Annotated[
        str,
        _place(
            "Where `tallystick backup` and servers back up to: file:///…, s3://…, gs://… or az://…; empty means"
            " nowhere. All but files need `tallystick[backup]`; credentials come from the environment."
        ),
    ] = ""
    backup_every: Annotated[
        float, _meaning("Seconds between two backups by a server, where `backup_to` says where to.", ge=1)
    ] = 3_600.0
    backup_keep: Annotated[int, _meaning("How many backups are kept; 0 keeps any number.", ge=0)] = 30
    backup_keep_days: Annotated[
        float, _meaning("Days that a backup is kept; 0 keeps it for ever. The newest always stays.", ge=0)
    ] = 0.0
    backup_key: Annotated[
        str,
        _place(
            "The file with the keys that backups are encrypted with, outside the base; empty means that they are not."
        ),
    ] = ""
    backup_key_command: Annotated[str, _meaning("A command that prints those keys instead.")] = ""
    backup_files: Annotated[
        bool, _meaning("Whether plain files in the base, which the log does not hold, are backed up as well.")
    ] = True

    segment_bytes_max: Annotated[
        int, _meaning("A file of the log that has grown past this is followed by a new one.", ge=1024)
    ] = 64 << 20
    group_drafts_max: Annotated[int, _meaning("Drafts made durable by one sync at most.", ge=1)] = 256
    group_bytes_max: Annotated[int, _meaning("Bytes made durable by one sync, about.", ge=1024)] = 8 << 20
    snapshot_every: Annotated[
        int,
        _meaning(
            "Commits between two snapshots of the state, while it is busy; one is also taken at the end and when nobody"
            " asks. 0 takes none.",
            ge=0,
        ),
    ] = 100_000
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        _meaning("How much is logged on standard error, and to a collector of logs."),
    ] = "warning"
    log_format: Annotated[
        Literal["text", "json"], _meaning("How it is logged: lines to read, or a JSON object in each line.")
    ] = "text"
    metrics: Annotated[
        Literal["guarded", "open", "off"],
        _meaning(
            "Who may read `/metrics` where tokens are asked for: `guarded`, those with a token of our own `tenant`;"
            " `open`, anybody."
        ),
    ] = "guarded"
    metrics_tenants: Annotated[
        tuple[str, ...], _meaning("Tenants that metrics may name; without an issuer our own `tenant` is named.")
    ] = ()

    @property
    def home(self) -> Path:
        """The tenant's part of the base."""
        return self.base if self.tenant == DEFAULT_TENANT else self.base / "tenants" / self.tenant

    @property
    def system(self) -> Path:
        return self.home / "_system"

    @property
    def has_log(self) -> bool:
        """Or had one, as the position says that is kept beside it: then it is for whoever opens it to miss it."""
        return (self.system / "log").is_dir() or (self.system / "head").exists()


def read_streams(told: Sequence[str]) -> dict[str, str]:
    """Tenant → stream, of those that are not kept in `log_stream`. Raises InvalidArgument."""
    found: dict[str, str] = {}
    for said in told:
        tenant, is_there, stream = said.partition("=")
        if not (is_there and re.fullmatch(TENANT_PATTERN, tenant) and re.fullmatch(r"[A-Za-z0-9_-]{1,32}", stream)):
            raise InvalidArgument(
                f"log_streams has {said!r}, which is not a tenant, '=' and the name of a stream", code="SETTING_INVALID"
            )
        found[tenant] = stream
    return found


class Setting(msgspec.Struct, frozen=True):
    """A row of the table."""

    name: str
    type: Any
    variables: tuple[str, ...]
    default: Any
    meaning: str


def table() -> list[Setting]:
    hints = get_type_hints(Settings, include_extras=True)
    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    return [_row(name, hints[name], defaults[name]) for name in Settings.__struct_fields__]


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    working: Path | None = None,
) -> Settings:
    """The first that speaks wins: a flag, the environment, the base's file, the default. None is silence."""
    environ = os.environ if environ is None else environ
    rows = {row.name: row for row in table()}
    found: dict[str, Any] = {}
    for name, value, source in _spoken(rows, flags or {}, environ, ("base",)):
        found.setdefault(name, _converted(rows[name], value, source))
    working = working or Path.cwd()
    base = Path(os.path.normpath(working / usable_base(found.get("base") or default_base(working))))
    require_own_files(base)
    others = tuple(name for name in rows if name != "base")
    for name, value, source in _spoken(rows, flags or {}, environ, others):
        found.setdefault(name, _converted(rows[name], value, source))
    file = read_file(base)
    for name in file.withheld:
        if name in _INDISPENSABLE and name not in found:
            raise _unconfirmed(name, file.path)
    for name, value in file.taken.items():
        found.setdefault(name, _converted(rows[name], value, str(file.path)))
    return Settings(**{**found, "base": base})


def usable_base(said: Path) -> Path:
    """Raises InvalidArgument for what cannot be one, wherever it would lie."""
    try:
        # SQLite and JSON take paths as Unicode: a memory there could be written, and neither searched nor told of.
        str(said).encode()
        return said.expanduser()
    except UnicodeEncodeError as error:
        raise _unusable_base(said, "its name is not UTF-8") from error
    except RuntimeError as error:
        raise _unusable_base(said, _NO_HOME) from error


_NO_HOME = "nobody on this machine is called as it says behind '~'"


def _unusable_base(base: Path, because: str) -> InvalidArgument:
    return InvalidArgument(
        f"{base} cannot be the base: {because}",
        code="BASE_UNUSABLE",
        hint="--base names a directory, which is made where there is none",
    )


# -- a file that somebody else may have written

HARMLESS = frozenset({
    "tenant", "agent_identity", "toolsets", "tools", "read_only", "tool_names", "validation_errors", "max_hops",
    "pin_knowledge", "stale_makes_work", "secrets", "audit_strict", "log_level", "log_format",
})  # fmt: skip
"""Settings that name no address, no file and no command, and that let in no caller: they count wherever they stand."""

_INDISPENSABLE = frozenset({
    "issuers", "audience", "scopes", "tenant_claim", "roles_claim", "introspection_client", "policy", "policy_url",
    "policy_path", "tls_cert", "log_url", "log_stream", "log_streams",
})  # fmt: skip
"""Settings that cannot be ignored: without them a server would let in more callers, or write to another log."""

CONFIRM_HINT = "'tallystick trust-settings' shows the settings of this file and confirms them"


class SettingsFile(msgspec.Struct, frozen=True):
    path: Path
    sha256: str = ""
    """Empty if there is no file."""
    values: dict[str, Any] = {}
    withheld: tuple[str, ...] = ()
    """Names of the settings that do not count before the user confirms the file."""

    @property
    def taken(self) -> dict[str, Any]:
        return {name: value for name, value in self.values.items() if name not in self.withheld}


def read_file(base: Path) -> SettingsFile:
    """The base's settings file. Raises InvalidArgument for a file that cannot be read or names unknown settings."""
    path = base / FILE_NAME
    try:
        data = read_bounded(path, FILE_BYTES_MAX)
    except FileNotFoundError:
        return SettingsFile(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    return settings_file(path, data, _parsed(path, data), HARMLESS)


def settings_file(path: Path, data: bytes, values: dict[str, Any], harmless: Collection[str]) -> SettingsFile:
    """A file with these bytes, which hold these values; `harmless` are the names that count in any file."""
    rest = sorted(values.keys() - set(harmless))
    sha256 = digest(data)
    return SettingsFile(path, sha256, values, tuple(rest) if rest and not _is_trusted(path, sha256) else ())


def _is_trusted(path: Path, sha256: str) -> bool:
    """Whether every setting in a file counts: nobody else can have brought it, or the user confirmed it."""
    if not _may_be_shipped(path):
        return True
    with suppress(InvalidArgument):
        record = confirmations_file()
        return not _lies_beside(record, path) and is_approved(record, path, sha256)
    return False


def _may_be_shipped(path: Path) -> bool:
    """Whether a clone or an archive may have brought a file: it lies in a repository, and not in the user's data
    directory. That its directory was named on the command line changes nothing."""
    if not lies_in_repository(path):
        return False
    with suppress(InvalidArgument):
        return not Path(os.path.abspath(path)).is_relative_to(os.path.abspath(data_directory()))
    return True


def require_own_files(base: Path) -> None:
    """Raises InvalidArgument for a base in a repository whose files are links: what is written to them would be written
    to any file of the user that whoever packed it chose."""
    if _may_be_shipped(base / FILE_NAME) and (link := find_link(base)) is not None:
        raise InvalidArgument(
            f"{link} is a symbolic link in a memory that lies in a repository: it may lead to any file of yours",
            code="BASE_NOT_TRUSTED",
            hint="remove the link if you did not make it; a base outside of every repository may have links",
        )


def _lies_beside(record: Path, path: Path) -> bool:
    """Whether the record is in the same base: tools that write files there could confirm the file."""
    return Path(os.path.realpath(record)).is_relative_to(os.path.realpath(path.parent))


def confirmations_file() -> Path:
    """The record of confirmed settings files. Raises InvalidArgument if there is no home directory."""
    named = os.environ.get("XDG_STATE_HOME", "")
    state = Path(named) if os.path.isabs(named) else home_directory() / ".local" / "state"
    return state / "tallystick" / "confirmed-settings.json"


def _unconfirmed(name: str, path: Path) -> InvalidArgument:
    return InvalidArgument(
        f"{path} sets '{name}' and lies in a repository: it may not be yours, and without it more would be allowed",
        code="SETTINGS_NOT_TRUSTED",
        hint=f"{CONFIRM_HINT}; or set {_PREFIX}{name.upper()}",
    )


_NAMING_VARIABLES = re.compile(r"OTEL_.+_(CERTIFICATE|KEY)|SSL_CERT_(FILE|DIR)")
"""Of the environment, and read by libraries."""


def named_paths(settings: Settings, *, environ: Mapping[str, str] | None = None) -> list[Path]:
    """Every file and directory that the settings name, and those that they are read from; absolute, whether they are
    there or not. The base and `repo` are what tools are for, and are not among them."""
    environ = os.environ if environ is None else environ
    values = [value for name, value in environ.items() if _NAMING_VARIABLES.fullmatch(name)]
    for row in table():
        extra = get_args(row.type)[1].extra or {}
        said = getattr(settings, row.name)
        if "unless" in extra:
            values += [each for each in (said if isinstance(said, tuple) else (said,)) if each not in extra["unless"]]
    named = [value.removeprefix("unix:") for value in values if value and "://" not in value]
    spelled = dict.fromkeys(each for value in named for each in (value, os.path.expanduser(value)))
    return [settings.base / FILE_NAME, *(Path(each).absolute() for each in spelled)]


_IS_LINUX = sys.platform == "linux"


def default_base(working: Path | None = None) -> Path:
    """Without a flag or a variable that says: the memory of the repository around the working directory, where it has
    one; else the one in the user's data directory."""
    return find_memory(working or Path.cwd()) or data_directory()


def data_directory() -> Path:
    """Raises InvalidArgument where nobody says where the user is at home."""
    if _IS_LINUX:
        # As platformdirs has it, without its modules: hooks and other short processes ask this.
        data, home = os.environ.get("XDG_DATA_HOME", ""), os.environ.get("HOME", "")
        if os.path.isabs(data) or os.path.isabs(home):
            return Path(data if os.path.isabs(data) else f"{home}/.local/share") / "tallystick"
    import platformdirs

    try:
        return platformdirs.user_data_path("tallystick", appauthor=False)
    except RuntimeError as error:
        raise _homeless() from error


def home_directory() -> Path:
    """Raises InvalidArgument where nobody says where that is: in a container a user may be nothing but a number."""
    try:
        return Path.home()
    except RuntimeError as error:
        raise _homeless() from error


def _homeless() -> InvalidArgument:
    return InvalidArgument(
        "there is no home directory: HOME is not set, and this machine does not know the user",
        code="NO_HOME",
        hint="set HOME; most commands need none where --base or BASE_PATH names the memory",
    )


def why_this_base(base: Path, working: Path | None = None) -> str:
    """In a few words, for people who wonder."""
    if base == find_memory(working or Path.cwd()):
        return "the memory of this repository"
    with suppress(InvalidArgument):
        if base == data_directory():
            return "your data directory: the memory for everything without one of its own"
    return "as --base or BASE_PATH says"


def _row(name: str, hint: Any, default: Any) -> Setting:
    meta: Meta = get_args(hint)[1]
    variables = (meta.extra or {})["variables"] or (f"TALLYSTICK_{name.upper()}",)
    return Setting(name, hint, variables, default, meta.description or "")


def _spoken(
    rows: Mapping[str, Setting], flags: Mapping[str, Any], environ: Mapping[str, str], names: tuple[str, ...]
) -> Iterator[tuple[str, Any, str]]:
    for name in names:
        if flags.get(name) is not None:
            yield name, flags[name], f"--{name.replace('_', '-')}"
        for variable in rows[name].variables:
            if environ.get(variable):
                yield name, environ[variable], f"the environment variable {variable}"


def _unreadable(path: Path, error: OSError) -> InvalidArgument:
    # By the slash only a directory is meant.
    if not os.access(f"{path.parent}/", os.X_OK):
        return _unusable_base(path.parent, str(error.strerror))
    return InvalidArgument(
        f"{path} cannot be read: {error.strerror}",
        code="SETTINGS_UNREADABLE",
        hint="let this user read it; without it settings that restrict callers would be missing",
    )


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    """Raises InvalidArgument, naming the file, for everything but known names with flat values."""
    try:
        content = read_plain_toml(data)
    except NotPlain as error:
        raise InvalidArgument(f"{path} {error}", code="SETTING_INVALID") from error
    for name, value in content.items():
        if name not in Settings.__struct_fields__:
            raise unknown_setting(name, [each for each in Settings.__struct_fields__ if each != "base"], path)
        if name == "base":
            raise InvalidArgument(
                f"{path}: 'base' is where this file lies and cannot be set in it", code="SETTING_INVALID"
            )
        if any(isinstance(each, dict | list) for each in (value if isinstance(value, list) else [value])):
            raise InvalidArgument(f"{path}: '{name}' takes a value or a list of values", code="SETTING_INVALID")
    return content


def unknown_setting(name: str, known: Sequence[str], source: object) -> InvalidArgument:
    """A key that no file of ours has is a mistake of the person who wrote it: naming it, and those like it."""
    near = " or ".join(f"'{each}'" for each in get_close_matches(name, known, cutoff=0.5))
    hint = f"did you mean {near}?" if near else f"the settings are {', '.join(known)}"
    return InvalidArgument(f"{source}: there is no setting '{name}'", code="SETTING_UNKNOWN", hint=hint)


def misspelt_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """By name, what was probably meant. Others may be somebody else's: Kubernetes makes variables of services."""
    known = [variable for row in table() for variable in row.variables]
    ours = (name for name in environ if name.startswith(_PREFIX) and name not in (*known, *_NO_SETTINGS))
    near = ((name, get_close_matches(name.removeprefix(_PREFIX), _without_prefix(known), 1, 0.8)) for name in ours)
    return {name: _PREFIX + found[0] for name, found in near if found}


def _without_prefix(names: Sequence[str]) -> list[str]:
    return [name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)]


_PREFIX = "TALLYSTICK_"
_NO_SETTINGS = (CHECKPOINT_KEY_VARIABLE, *(_PREFIX + name for name in ("HOOK_DEBUG", "HOOK_SECONDS", "TOKEN", "URL")))


def _converted(row: Setting, value: Any, source: str) -> Any:
    if isinstance(value, str) and get_args(row.type)[0] == tuple[str, ...]:
        value = [part.strip() for part in value.split(",") if part.strip()]
    if row.name == "base":
        return Path(value)
    try:
        converted = msgspec.convert(value, row.type, strict=False)
        if "unless" in (get_args(row.type)[1].extra or {}) and isinstance(converted, str):
            Path(converted).expanduser()
        elif isinstance(converted, str):
            converted.encode()
    except (msgspec.ValidationError, RuntimeError, UnicodeEncodeError) as error:
        wanted = _wanted(row, error)
        raise InvalidArgument(
            f"{row.name} from {source} is {value!r}: {wanted}", code="SETTING_INVALID", hint=row.meaning
        ) from error
    return converted


def _wanted(row: Setting, error: Exception) -> str:
    if not isinstance(error, msgspec.ValidationError):
        return _NO_HOME if isinstance(error, RuntimeError) else "expected UTF-8"
    kind = get_args(row.type)[0]
    if get_origin(kind) is Literal:
        return f"expected one of {', '.join(get_args(kind))}"
    return f"{str(error)[:1].lower()}{str(error)[1:]}"

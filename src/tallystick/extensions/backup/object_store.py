"""Where backups go: objects by name, made once and never changed, in a directory or in any store that `obstore` knows.

A name that is taken is refused by the store itself (If-None-Match), so two machines never overwrite each other. A
directory needs nothing else installed: its objects are private to their owner and durable when `put` returns.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import msgspec

from tallystick.errors import Corrupt, InvalidArgument, NotFound, StorageRefused
from tallystick.system.private_files import make_directory, sync_directory, sync_file, write_all

REMOTE_SCHEMES = ("s3", "gs", "az", "https", "memory")
_UNFINISHED = ".new-"
_UNQUOTED = re.compile(r"[?#]|%(?!25|3F|23)")
_READ_BYTES = 1 << 20
_CONNECT_SECONDS = 10
_REQUEST_SECONDS = 300
_RETRY_SECONDS = 60


class Stored(msgspec.Struct, frozen=True):
    name: str
    bytes: int
    at: float
    """Seconds since 1970, by the store's clock."""


class ObjectStore(Protocol):
    """Every method raises StorageRefused, code STORE_REFUSED, where the store does not answer or says no."""

    url: str

    def put(self, name: str, data: bytes) -> bool:
        """Whole and durable on return, or not there. False where the name is taken: nothing was changed."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """The same, in place of what has the name."""
        ...

    def get(self, name: str, *, bytes_max: int) -> bytes:
        """Raises NotFound, code OBJECT_MISSING, and Corrupt for an object of more bytes: no more than those are held
        in memory."""
        ...

    def list(self, prefix: str) -> Iterator[Stored]:
        """Those below the directory `prefix`, in no order."""
        ...

    def delete(self, name: str) -> None:
        """One that is not there is no error."""
        ...


def open_object_store(url: str, *, must_exist: bool = False) -> ObjectStore:
    """Raises InvalidArgument for what is no address of a store, or needs a package that is not installed. Whoever
    comes to read says that it `must_exist`: a directory that is mistyped or not mounted is then no empty store."""
    parts = _split(url)
    if parts.scheme == "file":
        return DirectoryStore(_directory_of(url), must_exist=must_exist)
    if parts.scheme not in REMOTE_SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in ("file", *REMOTE_SCHEMES[:-1]))
        here = "" if parts.scheme else f"; a directory on this machine is {Path(url).absolute().as_uri()}"
        raise _invalid(f"'{shown(url)}' is no place for backups", f"it begins with one of {known}{here}")
    return _RemoteStore(url)


def shown(url: str) -> str:
    """Without what may be secret in it."""
    parts = _split(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def address_of(url: str) -> str:
    """As the store that it opens is called. Never raises: what is no address is told by whoever opens it."""
    try:
        directory = local_directory(url)
    except InvalidArgument:
        return f"{url.partition('://')[0]}://…"
    return shown(url).rstrip("/") if directory is None else address_of_directory(str(directory))


def address_of_directory(path: str) -> str:
    """Read again, it is the same directory."""
    return f"file://{path}".replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def quoted_if_old(url: str) -> str:
    """Older versions kept the name of a directory as it is."""
    path = url.removeprefix("file://")
    return address_of_directory(path) if path != url and _UNQUOTED.search(path) else url


def local_directory(url: str) -> Path | None:
    return _directory_of(url) if _split(url).scheme == "file" else None


def _directory_of(url: str) -> Path:
    parts = _split(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.path.strip("/") == "":
        raise _invalid(f"'{shown(url)}' names no directory", "write three slashes and a path: file:///srv/backups")
    if parts.query or parts.fragment:
        raise _invalid(f"'{shown(url)}' is not all that was given", "in the name of a directory ? is %3F and # is %23")
    path = unquote(parts.path)
    if "\0" in path:
        raise _invalid(f"'{shown(url)}' names no directory", "no name on a disk has a NUL in it")
    return Path(os.path.normpath(path))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:
        raise _invalid(f"the address of the store cannot be read: {error}", "such as file:///srv/backups") from None


def _invalid(problem: str, hint: str) -> InvalidArgument:
    return InvalidArgument(problem, code="STORE_INVALID", hint=hint)


def _missing(name: str, url: str) -> NotFound:
    return NotFound(
        f"{name} is not in {url}", code="OBJECT_MISSING", hint="'tallystick backup list' tells what is there"
    )


def _bounded(chunks: Iterable[Any], name: str, bytes_max: int) -> bytes:
    """Stop at the first chunk past the bound, whatever size the store declares."""
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > bytes_max:
            raise Corrupt(
                f"{name} has more than {bytes_max} bytes: it is not what was stored under this name",
                code="BACKUP_DAMAGED",
                hint="nothing was changed; take another backup: 'tallystick backup list'",
            )
    return bytes(data)


# -- a directory


class DirectoryStore:
    def __init__(self, root: Path, *, must_exist: bool = False) -> None:
        self.url = address_of_directory(str(root))
        self._root = root
        self._must_exist = must_exist

    def put(self, name: str, data: bytes) -> bool:
        with self._refusals():
            path = self._path(name)
            if path.is_file():
                return False
            fresh = self._written(path, data)
            try:
                # A link, unlike a rename, does not take the place of what another process put there meanwhile.
                os.link(fresh, path)
            except FileExistsError:
                if not path.is_file():
                    raise FileExistsError(errno.EEXIST, f"{path} is in the way, and is no file") from None
                return False
            finally:
                fresh.unlink(missing_ok=True)
            sync_directory(path.parent)
        return True

    def replace(self, name: str, data: bytes) -> None:
        with self._refusals():
            path = self._path(name)
            os.rename(self._written(path, data), path)
            sync_directory(path.parent)

    def get(self, name: str, *, bytes_max: int) -> bytes:
        with self._refusals():
            path = self._path(name)
            try:
                # A pipe would keep whoever reads it waiting for ever.
                if path.is_file():
                    with path.open("rb") as file:
                        return _bounded(iter(lambda: file.read(_READ_BYTES), b""), name, bytes_max)
            except (FileNotFoundError, NotADirectoryError):
                pass
            raise _missing(name, self.url)

    def list(self, prefix: str) -> Iterator[Stored]:
        with self._refusals():
            if self._must_exist and not self._root.exists():
                raise FileNotFoundError(errno.ENOENT, "there is no such directory")
            for directory, _, names in os.walk(self._path(prefix), onerror=_raise_unless_missing):
                for name in names:
                    path = Path(directory, name)
                    # It may go while it is listed.
                    with suppress(FileNotFoundError):
                        seen = path.stat()
                        if _UNFINISHED not in name and stat.S_ISREG(seen.st_mode):
                            yield Stored(path.relative_to(self._root).as_posix(), seen.st_size, seen.st_mtime)

    def delete(self, name: str) -> None:
        with self._refusals():
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._root / name

    def _written(self, path: Path, data: bytes) -> Path:
        """Under another name, durable. A crash leaves it there, and nobody takes it for an object."""
        make_directory(path.parent)
        fresh = path.with_name(f"{path.name}{_UNFINISHED}{secrets.token_hex(4)}")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(fd, data)
            sync_file(fd)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
        finally:
            os.close(fd)
        return fresh

    def _refusals(self) -> _Refusals:
        return _Refusals(self.url, OSError)


def _raise_unless_missing(error: OSError) -> None:
    """What cannot be looked at must not be taken for empty."""
    if not isinstance(error, FileNotFoundError):
        raise error


# -- everything else


class _RemoteStore:
    def __init__(self, url: str) -> None:
        self.url = shown(url)
        self._obstore = _import_obstore()
        try:
            self._store = _opened(self._obstore, url)
        except (ValueError, self._obstore.exceptions.BaseError) as error:
            raise _invalid(f"{self.url} cannot be opened: {_said_by(error)}", _CREDENTIALS) from None

    def put(self, name: str, data: bytes) -> bool:
        with self._refusals():
            try:
                self._store.put(name, data, mode="create", use_multipart=False)
            except self._obstore.exceptions.AlreadyExistsError:
                return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        with self._refusals():
            self._store.put(name, data, mode="overwrite", use_multipart=False)

    def get(self, name: str, *, bytes_max: int) -> bytes:
        with self._refusals():
            try:
                return _bounded(self._store.get(name).stream(min_chunk_size=_READ_BYTES), name, bytes_max)
            except FileNotFoundError:
                raise _missing(name, self.url) from None

    def list(self, prefix: str) -> Iterator[Stored]:
        with self._refusals():
            for page in self._store.list(f"{prefix.rstrip('/')}/"):
                for each in page:
                    yield Stored(each["path"], each["size"], each["last_modified"].timestamp())

    def delete(self, name: str) -> None:
        with self._refusals(), suppress(FileNotFoundError):
            self._store.delete(name)

    def _refusals(self) -> _Refusals:
        return _Refusals(self.url, self._obstore.exceptions.BaseError, OSError)


_CREDENTIALS = (
    "name a bucket of S3, Azure or Google; credentials come from the environment, as the store's own tools read them: "
    "AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT_URL …, AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY …, "
    "GOOGLE_APPLICATION_CREDENTIALS"
)
_ENDPOINTS = (
    *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    *("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", "GOOGLE_BASE_URL"),
)


def _import_obstore() -> Any:
    try:
        import obstore.exceptions
        import obstore.store
    except ImportError:
        raise _invalid(
            "backups to such a store need a package that is not installed", "pip install 'tallystick[backup]'"
        ) from None
    return obstore


def _opened(obstore: Any, url: str) -> Any:
    if urlsplit(url).scheme == "memory":
        return obstore.store.MemoryStore()
    is_plain = any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
    store = obstore.store.from_url(
        url,
        client_options={
            "connect_timeout": timedelta(seconds=_CONNECT_SECONDS),
            "timeout": timedelta(seconds=_REQUEST_SECONDS),
            # Whoever names such an endpoint has said so.
            **({"allow_http": True} if is_plain else {}),
        },
        retry_config={"max_retries": 10, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
    )
    if isinstance(store, obstore.store.HTTPStore):
        raise ValueError("a plain web server cannot refuse a name that is taken")
    return store


class _Refusals:
    """What a store refuses, as one error. Its own words may be long, and are cut."""

    def __init__(self, url: str, *kinds: type[BaseException]) -> None:
        self._url, self._kinds = url, kinds

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._kinds):
            raise StorageRefused(
                f"{self._url} refused: {_said_by(error)}",
                code="STORE_REFUSED",
                hint="look at the address, the credentials and the network; nothing half-written counts, run it again",
            ) from None


def _said_by(error: BaseException) -> str:
    said = getattr(error, "strerror", None) or str(error).partition("\n\nDebug source:")[0]
    # Stores answer in XML, over several lines.
    return " ".join(re.sub(r"<[^<>]*>", " ", said).split())[:300] or type(error).__name__

"""What every object store promises, shown on a directory and on real servers of S3 and Azure."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tallystick.errors import Corrupt, InvalidArgument, NotFound, StorageRefused
from tallystick.extensions.backup.object_store import ObjectStore, open_object_store, shown
from tests import object_stores
from tests.object_stores import StoreServer
from tests.promises import promise

Open = Callable[[], ObjectStore]


@pytest.fixture(scope="module", params=["directory", *object_stores.SERVERS])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer | None]:
    """None where a directory is the store."""
    if request.param == "directory":
        yield None
        return
    with object_stores.RUNNING[request.param](tmp_path_factory.mktemp(request.param) / "server") as running:
        yield running


@pytest.fixture
def opened(server: StoreServer | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    """The same store each time, as another process would open it."""
    if server is None:
        return lambda: open_object_store(f"file://{tmp_path}/a store/of mine")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return lambda: open_object_store(server.url(tmp_path.name))


def test_what_was_put_is_there_for_whoever_opens_the_store(opened: Open) -> None:
    data = os.urandom(3_000_000)
    assert opened().put("objects/ab/abcd", data)
    assert opened().get("objects/ab/abcd", bytes_max=len(data)) == data
    assert opened().put("objects/ab/empty", b"")
    assert opened().get("objects/ab/empty", bytes_max=0) == b""


def test_an_object_of_more_bytes_than_are_wanted_is_refused(opened: Open) -> None:
    opened().put("objects/ab/abcd", os.urandom(3_000_000))
    with pytest.raises(Corrupt) as refused:
        opened().get("objects/ab/abcd", bytes_max=1_000)
    assert refused.value.code == "BACKUP_DAMAGED"


def test_a_name_that_is_taken_is_refused_and_keeps_what_it_has(opened: Open) -> None:
    store = opened()
    assert store.put("manifests/1", b"first")
    assert not store.put("manifests/1", b"second")
    assert store.get("manifests/1", bytes_max=100) == b"first"


@promise("§5.4, any store", "every store, in a directory, of S3 or of Azure, refuses a name that is taken")
def test_of_many_who_put_the_same_name_one_wins(opened: Open) -> None:
    stores = [opened() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(lambda each: each[1].put("manifests/7", b"%d" % each[0]), enumerate(stores)))
    assert won.count(True) == 1
    assert opened().get("manifests/7", bytes_max=100) == b"%d" % won.index(True)


def test_an_object_can_be_replaced_and_removed_and_removing_twice_is_no_error(opened: Open) -> None:
    store = opened()
    store.put("x/1", b"old")
    store.replace("x/1", b"new")
    assert store.get("x/1", bytes_max=100) == b"new"
    store.delete("x/1")
    store.delete("x/1")
    with pytest.raises(NotFound) as missing:
        store.get("x/1", bytes_max=100)
    assert missing.value.code == "OBJECT_MISSING"


def test_a_listing_has_what_lies_below_a_directory_with_sizes_and_nothing_else(opened: Open) -> None:
    store = opened()
    for name in ("objects/aa/1", "objects/bb/2", "objects-not/3", "other/4"):
        store.put(name, name.encode())
    found = {each.name: each.bytes for each in opened().list("objects")}
    assert found == {"objects/aa/1": 12, "objects/bb/2": 12}
    assert list(opened().list("nothing")) == []


def test_more_objects_than_fit_a_page_are_all_listed(opened: Open) -> None:
    store = opened()
    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(lambda number: store.put(f"many/{number:04d}", b"x"), range(1_050)))
    assert sorted(each.name for each in store.list("many")) == [f"many/{number:04d}" for number in range(1_050)]


def test_objects_in_a_directory_are_for_their_owner_alone(tmp_path: Path) -> None:
    open_object_store(f"file://{tmp_path}/store").put("a/b", b"x")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "store").rglob("*")}
    assert modes == {0o600, 0o700}


def test_a_store_that_cannot_be_reached_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageRefused) as refused:
        open_object_store(f"file://{tmp_path}/file/store").put("a", b"x")
    assert refused.value.code == "STORE_REFUSED"


def test_a_bucket_that_is_not_there_is_told_as_the_store_tells_it(
    server: StoreServer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server is None:
        pytest.skip("a directory is made")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    scheme = server.url("").partition("://")[0]
    with pytest.raises(StorageRefused) as refused:
        list(open_object_store(f"{scheme}://nowhere/a").list("objects"))
    assert re.search("NoSuchBucket|ContainerNotFound", refused.value.message)
    assert "<" not in refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/backups",
        "nowhere",
        "http://127.0.0.1/x",
        "ftp://host/x",
        "file://host/x",
        "file:///",
        "file:relative",
        "file:///srv/backups#2",
        "file:///srv/backups?2",
        "file:///srv/a%00b",
        "file://[bad",
        "s3://[bad",
        "",
    ],
)
def test_what_is_no_address_of_a_store_is_refused_with_what_would_be(url: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        open_object_store(url)
    assert refused.value.code == "STORE_INVALID"
    assert refused.value.hint


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("nowhere", path)])
def test_what_is_no_file_is_no_object_and_is_named_where_it_is_in_the_way(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    store = open_object_store(f"file://{tmp_path}")
    make(tmp_path / "a")
    assert list(store.list(".")) == []
    with pytest.raises(NotFound):
        store.get("a", bytes_max=100)
    with pytest.raises(StorageRefused, match=re.escape(f"{tmp_path}/a is in the way")):
        store.put("a", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_address_that_a_directory_gives_itself_leads_to_it(tmp_path: Path) -> None:
    store = open_object_store(f"file://{tmp_path}/50%25 of %23 %3F%2541")
    store.put("a", b"x")
    assert (tmp_path / "50% of # ?%41" / "a").exists()
    assert open_object_store(store.url).get("a", bytes_max=1) == b"x"


def test_without_the_package_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "obstore.exceptions", None)
    with pytest.raises(InvalidArgument) as refused:
        open_object_store("s3://bucket/path")
    assert refused.value.hint == "pip install 'tallystick[backup]'"


def test_an_address_is_shown_without_what_may_be_secret() -> None:
    assert shown("s3://user:word@bucket/path?token=1") == "s3://bucket/path"

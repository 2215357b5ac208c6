"""Async tests run on a fresh event loop each; no test fails because the machine is busy; a disk that is soon full."""

from __future__ import annotations

import asyncio
import inspect
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tallystick.app import tenant_projections
from tallystick.engine import partition
from tallystick.extensions.cluster import jetstream_log as jetstream
from tallystick.extensions.cluster import membership, stream
from tallystick.extensions.hooks import cited_files as hook_files
from tallystick.extensions.ontology import file_edits, views
from tallystick.extensions.vectors import index as vectors
from tallystick.extensions.web import actors, overview
from tallystick.extensions.web.reports import decisions, governance, kept_knowledge, policy_trial
from tallystick.extensions.why import git_history
from tallystick.policy import gate
from tallystick.projections import text, worker
from tallystick.toolsets import cited_files
from tallystick.toolsets.knowledge import freshness
from tallystick.toolsets.memory import word_search
from tests import nats_cluster, timeouts

_PASSED_OVER = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("tallystick", deadline=None, suppress_health_check=_PASSED_OVER)
settings.load_profile("tallystick")


def pytest_configure() -> None:
    """Limits that spare a caller from waiting: tests of them set their own, the others are not about them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what runs in the background; tests press Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for module, name in (
        (freshness, "SECONDS_MAX"),
        (gate, "PATIENCE_SECONDS"),
        (gate, "_WRITTEN_SECONDS_MAX"),
        (file_edits, "_PUBLISHED_SECONDS"),
        (tenant_projections, "ERASED_SECONDS"),
        (partition, "LOOK_SECONDS_MAX"),
        (partition, "_POSITION_WAIT_SECONDS"),
        (text, "SEARCH_SECONDS"),
        (vectors, "SEARCH_SECONDS"),
        (word_search, "PAST_SECONDS"),
        (cited_files, "COMPARED_SECONDS"),
        (cited_files, "SECONDS_MAX"),
        (hook_files, "_GIT_SECONDS"),
        (git_history, "SECONDS_MAX"),
        (kept_knowledge, "WAITED_SECONDS"),
        (kept_knowledge, "FIRST_WAITED_SECONDS"),
        (decisions, "INDEXING_SECONDS"),
        (governance, "INDEXING_SECONDS"),
        (governance, "SECONDS_MAX"),
        (policy_trial, "INDEXING_SECONDS"),
        (policy_trial, "_READING_SECONDS_MAX"),
        (overview, "COMMITS_SECONDS"),
        (overview, "DENIALS_SECONDS"),
        (actors, "READING_SECONDS"),
        (views, "CHEAP_SECONDS"),
        (worker, "_LAST_SECONDS"),
        (jetstream, "CONFIRM_SECONDS"),
        (membership, "START_SECONDS"),
        (stream, "ASK_SECONDS"),
    ):
        assert isinstance(getattr(module, name), float)
        setattr(module, name, timeouts.SECONDS)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nats_cluster.Cluster]:
    """One NATS server for all tests of a worker that need no more: each has a stream of its own in it."""
    with nats_cluster.running(tmp_path_factory.mktemp("nats")) as cluster:
        yield cluster


@contextmanager
def mounted_small(disk: Path) -> Iterator[Path]:
    """A new directory on a file system of its own, of 64 KiB."""
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def any_case_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system that takes capital and small letters for the same, as most on macOS do: exFAT, by FUSE."""
    image, disk = tmp_path / "image", tmp_path / "any-case"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    disk.mkdir()
    try:
        subprocess.run(["mkfs.exfat", image], check=True, capture_output=True)
        device = subprocess.run(["losetup", "-f", "--show", image], check=True, capture_output=True, text=True)
        subprocess.run(["mount.exfat-fuse", device.stdout.strip(), disk], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting such a file system needs root, exfatprogs and exfat-fuse")
    yield disk
    subprocess.run(["umount", disk], check=True)
    subprocess.run(["losetup", "-d", device.stdout.strip()], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted_small(tmp_path / "disk") as disk:
        yield disk

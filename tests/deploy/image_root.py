"""The image without Docker: what the Dockerfile says, done in a root of Debian's packages by the kernel's own means.

The stages are the very lines of `deploy/stages.sh`; user, environment, command and health check are read from the
Dockerfile. What differs is the base: Debian with its own Python, in place of the image that FROM names.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
BASE = ROOT / ".deploy" / "root"
"""What `make deployment` made with debootstrap; left as it is."""
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
MEMORY = "/var/lib/tallystick"
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CHROOT = shutil.which("chroot", path=_PATH)


def instruction(name: str) -> str:
    """Of the last stage: the last of that name."""
    return str(re.findall(rf"^{name} +(.*)$", DOCKERFILE, re.MULTILINE)[-1]).strip()


def environment() -> dict[str, str]:
    said = dict(part.split("=", 1) for part in shlex.split(instruction("ENV")))
    return {**said, "PATH": said["PATH"].replace("$PATH", _PATH)}


def copied() -> list[str]:
    """What the build stage is given."""
    lines = re.findall(r"^COPY (?!--)(.*)$", DOCKERFILE, re.MULTILINE)
    return [*dict.fromkeys(source for line in lines for source in line.split()[:-1])]


class Run(NamedTuple):
    """How to run something in it."""

    command: list[str]
    environ: dict[str, str]

    def finish(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command, env=self.environ, capture_output=True, text=True, check=False)


class Image:
    """Layers over `BASE` in a directory of ours; all that is mounted is gone with the process that mounted it."""

    def __init__(self, directory: Path) -> None:
        self._layer, self._work, self._root = (directory / name for name in ("layer", "work", "root"))
        self.memory = directory / "memory"
        for path in (self._layer, self._work, self._root, self.memory):
            path.mkdir()

    def build(self) -> None:
        source = self._layer / "source"
        for name in copied():
            _copy(ROOT / name, source / name)
        pip = Path("/etc/pip.conf")
        if pip.exists():
            _copy(pip, self._layer / "etc" / "pip.conf")
        for path in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
            _copy(Path(path).resolve(), self._layer / path[1:])
        for stage in ("build /source /opt/tallystick", "prepare"):
            stages = f"exec {_CHROOT} {self._root} sh /source/deploy/stages.sh {stage}"
            said = self._in_root([stages], {"PATH": _PATH, **_network()}).finish()
            assert said.returncode == 0, said.stdout + said.stderr
        shutil.rmtree(source)
        user = int(instruction("USER").partition(":")[0])
        os.chown(self.memory, user, user)
        self.memory.chmod(0o700)

    def command(self, *arguments: str, user: str | None = None, environ: Mapping[str, str] | None = None) -> Run:
        return self.run(*json.loads(instruction("ENTRYPOINT")), *arguments, user=user, environ=environ)

    def run(self, *program: str, user: str | None = None, environ: Mapping[str, str] | None = None) -> Run:
        """By the user of the image, on a root that cannot be written."""
        script = [
            f"mount -o remount,bind,ro {self._root}",
            f"mount -t tmpfs tmpfs {self._root}/tmp",
            f"mount --bind {self.memory} {self._root}{MEMORY}",
            f"mount -t proc proc {self._root}/proc",
            f"exec {_CHROOT} --userspec={user or instruction('USER')} {self._root} {shlex.join(program)}",
        ]
        return self._in_root(script, {**environment(), **(environ or {})})

    def _in_root(self, script: list[str], environ: Mapping[str, str]) -> Run:
        overlay = f"lowerdir={BASE},upperdir={self._layer},workdir={self._work}"
        mounted = f"mount -t overlay overlay -o {overlay} {self._root}"
        return Run(["unshare", "--mount", "sh", "-c", " && ".join([mounted, *script])], dict(environ))


def _network() -> dict[str, str]:
    """How this machine reaches its packages, if it was told."""
    names = [name for name in os.environ if name.startswith(("PIP_", "SSL_")) or "proxy" in name.lower()]
    return {name: os.environ[name] for name in names}


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)

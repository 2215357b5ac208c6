"""The bundle: the Rego files of one policy, the data beside them, and the tests."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import msgspec

from tallystick.errors import InvalidArgument, NotFound
from tallystick.system.regular_files import read_regular

RULES = Path(__file__).parent / "rules"
SHIPPED = {"single-user": "single_user", "rbac": "rbac", "closed": "closed"}
"""Names that need no path. Which of them is used when none is named is for the wiring to say."""


class Module(msgspec.Struct, frozen=True):
    name: str
    text: str


class Bundle(msgspec.Struct, frozen=True):
    name: str
    modules: tuple[Module, ...]
    tests: tuple[Module, ...] = ()
    data: tuple[Module, ...] = ()
    """JSON documents, merged into `data`."""
    files: tuple[Path, ...] = ()

    @property
    def version(self) -> str:
        """For policies that do not name theirs: the same files have the same version, wherever they lie."""
        hashed = sha256()
        for module in (*self.modules, *self.data):
            hashed.update(b"%d\n" % len(module.text.encode()) + module.text.encode())
        return f"sha256:{hashed.hexdigest()[:16]}"


def find_bundle(name: str) -> Bundle:
    """A shipped policy by its name, or a file or directory by its path. Tests are files called `*_test.rego`."""
    if name in SHIPPED:
        return read_bundle(RULES / f"{SHIPPED[name]}.rego")
    path = Path(name).expanduser()
    if not path.exists():
        raise NotFound(
            f"there is no policy '{name}'",
            code="POLICY_NOT_FOUND",
            hint=f"name a .rego file, a directory of them, or one of {', '.join(SHIPPED)}",
        )
    return read_bundle(path)


def read_bundle(path: Path) -> Bundle:
    if path.is_dir():
        found = sorted(path.rglob("*.rego"))
        data = sorted(path.rglob("*.json"))
    else:
        found = [path, *path.parent.glob(f"{path.stem}_test.rego")]
        data = []
    modules = [file for file in found if not file.stem.endswith("_test") or file == path]
    if not modules:
        raise NotFound(f"there is no .rego file in {path}", code="POLICY_NOT_FOUND")
    root = path if path.is_dir() else path.parent
    return Bundle(
        name=path.stem,
        modules=_read(modules, root, path),
        tests=_read([file for file in found if file not in modules], root, path),
        data=_read(data, root, path),
        files=(*modules, *data),
    )


def _read(files: list[Path], root: Path, named: Path) -> tuple[Module, ...]:
    return tuple(Module(str(file.relative_to(root)), _text(file, is_named=file == named)) for file in files)


def _text(file: Path, *, is_named: bool) -> str:
    try:
        # The one that was named may be a pipe.
        text = (file.read_bytes() if is_named else read_regular(file)).decode("utf-8-sig")
        if file.suffix == ".json" and not isinstance(json.loads(text), dict):
            raise InvalidArgument(f"{file} is not a JSON object", code="POLICY_INVALID")
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{file} cannot be read: {error}", code="POLICY_INVALID") from error
    return text

"""Builds what a release consists of into `dist/`, and holds each part against the program that will read it.

    python packaging/build.py        # wheel, bundle, bill of materials; checked, and used from elsewhere

The wheel has to be there already (`make wheel`). Every program comes from the pins beside this file.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import skillsaw

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PROGRAMS = Path(sys.executable).parent
MCPB = ROOT / "packaging" / "node_modules" / ".bin" / "mcpb"
BUNDLED = ("src/tallystick", "verify_standalone.py", "pyproject.toml", "README.md", "LICENSE")


def main() -> None:
    wheel = _only(DIST.glob("*.whl"))
    _run([PROGRAMS / "twine", "check", "--strict", wheel])
    check_registry_entry()
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    _run([PROGRAMS / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *workflows])
    bundle = build_bundle()
    write_bill_of_materials()
    with tempfile.TemporaryDirectory() as elsewhere:
        use_wheel(wheel, Path(elsewhere))
        use_bundle(bundle, Path(elsewhere))
    for path in sorted(DIST.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size:,} bytes")


def check_registry_entry() -> None:
    """`server.json` against the schema it names, which the linter carries, and against the package."""
    entry = json.loads((ROOT / "server.json").read_text("utf-8"))
    version = entry["$schema"].split("/")[-2].replace("-", "_")
    schemas = Path(skillsaw.__file__).parent / "schemas" / "mcp_registry"
    jsonschema.validate(entry, json.loads((schemas / f"v{version}" / "server.schema.json").read_text("utf-8")))
    if f"<!-- mcp-name: {entry['name']} -->" not in (ROOT / "README.md").read_text("utf-8"):
        sys.exit(f"README.md does not hold the mark that proves the ownership of {entry['name']}")


def build_bundle() -> Path:
    """The `.mcpb` for clients that install from a file: the sources, from which its host makes an environment."""
    manifest = json.loads((ROOT / "packaging" / "manifest.json").read_text("utf-8"))
    bundle = DIST / f"tallystick-{manifest['version']}.mcpb"
    with tempfile.TemporaryDirectory() as directory:
        stage = Path(directory)
        shutil.copy(ROOT / "packaging" / "manifest.json", stage)
        for name in BUNDLED:
            _copy(ROOT / name, stage / name)
        _run([MCPB, "validate", stage / "manifest.json"])
        _run([MCPB, "pack", stage, bundle])
    return bundle


def write_bill_of_materials() -> None:
    """What a release is made of, with versions and hashes, in the field's format (CycloneDX)."""
    target = DIST / "tallystick.cdx.json"
    _run(
        [
            *(PROGRAMS / "cyclonedx-py", "requirements", ROOT / "constraints.txt"),
            *("--pyproject", ROOT / "pyproject.toml", "--output-reproducible", "--output-file", target),
        ]
    )
    named = {part["name"] for part in json.loads(target.read_text("utf-8"))["components"]}
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    if not named or len(named) < len(wanted):
        sys.exit(f"the bill of materials names {len(named)} parts, the package needs at least {len(wanted)}")


def use_wheel(wheel: Path, elsewhere: Path) -> None:
    """`uvx` finds the command in the wheel, and it works away from this folder."""
    _run([PROGRAMS / "uvx", "--no-config", "--from", wheel, "tallystick", "--version"], cwd=elsewhere)


def use_bundle(bundle: Path, elsewhere: Path) -> None:
    """The command of the manifest, run as a host of the bundle runs it, answers a client."""
    unpacked, base = elsewhere / "bundle", elsewhere / "memory"
    _run([MCPB, "unpack", bundle, unpacked])
    manifest = json.loads((unpacked / "manifest.json").read_text("utf-8"))
    config = manifest["server"]["mcp_config"]
    filled = [
        each.replace("${__dirname}", str(unpacked)).replace("${user_config.base}", str(base)) for each in config["args"]
    ]
    hello: dict[str, Any] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "bundle-host", "version": "1"},
    }
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    answered = _run([PROGRAMS / config["command"], *filled], cwd=elsewhere, input_text=asked + "\n")
    if json.loads(answered.splitlines()[0])["result"]["serverInfo"]["name"] != "tallystick":
        sys.exit(f"the bundle's server answered something else: {answered}")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _run(command: Sequence[str | Path], *, cwd: Path = ROOT, input_text: str | None = None) -> str:
    """Its standard output; what it said is shown when it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        env=environment,
        input=input_text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{Path(command[0]).name} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def _only(paths: Any) -> Path:
    found = list(paths)
    if len(found) != 1:
        sys.exit(f"one wheel is wanted in dist/, found {len(found)}: make wheel")
    return Path(found[0])


if __name__ == "__main__":
    main()

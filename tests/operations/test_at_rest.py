"""Whether a base lies on an encrypted volume, by what the kernel tells of devices."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallystick.config import Settings
from tallystick.operations.at_rest import encryption_of
from tallystick.operations.doctor import examine


def device(directory: Path, name: str, uuid: str | None = None, *below: Path) -> Path:
    made = directory / name
    (made / "slaves").mkdir(parents=True)
    if uuid is not None:
        (made / "dm").mkdir()
        (made / "dm" / "uuid").write_text(f"{uuid}\n")
    for each in below:
        (made / "slaves" / each.name).symlink_to(each)
    return made


def number_of(path: Path) -> str:
    number = path.stat().st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def test_a_volume_is_encrypted_if_it_or_all_that_it_lies_on_is(tmp_path: Path) -> None:
    here = number_of(tmp_path)
    plain, secret = device(tmp_path, "sda"), device(tmp_path, "dm-0", "CRYPT-LUKS2-5f1e-memory")
    for number, (uuid, below, expected) in enumerate(
        [
            ("CRYPT-LUKS2-77aa-base", (), "dm-crypt"),
            ("LVM-abc", (secret,), "dm-crypt"),
            ("LVM-abc", (secret, plain), ""),
            (None, (), ""),
        ]
    ):
        devices = tmp_path / f"devices-{number}"
        device(devices, here, uuid, *below)
        assert encryption_of(tmp_path, devices) == expected


def test_where_the_kernel_names_no_device_nothing_is_claimed(tmp_path: Path) -> None:
    assert encryption_of(tmp_path, tmp_path / "none") is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "log for ever; audit 90 days, then removed"),
        ({"audit_archive": "/mnt/cold"}, "log for ever; audit 90 days, then moved to /mnt/cold"),
        ({"audit_retention_days": 0}, "log for ever; audit for ever"),
        (
            {"backup_to": "file:///mnt/b"},
            "log for ever; audit 90 days, then removed; backups the newest 30, for ever",
        ),
        (
            {"backup_to": "file:///mnt/b", "backup_keep": 0, "backup_keep_days": 35},
            "log for ever; audit 90 days, then removed; backups any number, for 35 days",
        ),
    ],
)
def test_the_doctor_tells_encryption_and_how_long_what_is_kept(
    tmp_path: Path, changed: dict[str, str | int], told: str
) -> None:
    found = {each.what: each.found for each in examine(Settings(base=tmp_path, **changed))}  # type: ignore[arg-type]
    assert found["retention"] == told
    assert found["encryption at rest"]

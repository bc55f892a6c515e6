from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from hpcmod.doctor import security
from hpcmod.doctor.security import check_directory, check_policy
from hpcmod.machine import machine


def found(directory: Path) -> dict[str, str]:
    """Return the problems of a directory by subject."""
    return {one.subject: one.found for one in check_directory(directory) if one.level != "ok"}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    directory = tmp_path / "shop"
    (directory / "images").mkdir(parents=True)
    for path in (directory, directory / "images"):
        path.chmod(0o2775)
    (directory / "images" / "a.sif").touch(mode=0o644)
    (directory / "latest").symlink_to("images/a.sif")
    return directory


def own(shop: Path) -> dict[str, str]:
    """Return the problems in the directory, ignoring its parents such as /tmp."""
    return {subject: what for subject, what in found(shop).items() if not subject.startswith("/")}


def test_a_new_catalogue_directory_has_no_findings(shop: Path) -> None:
    assert own(shop) == {}
    first = next(iter(check_directory(shop)))
    assert first.level == "ok"
    assert "mode 2775" in first.found


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every directory")
def test_reports_a_directory_that_cannot_be_entered(shop: Path) -> None:
    (shop / "closed").mkdir(mode=0)
    try:
        assert own(shop) == {"directory that you may not enter": "1 (its contents were not checked): closed"}
    finally:
        (shop / "closed").chmod(0o700)


def make_socket(shop: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(shop / "x"))
    (shop / "x").chmod(0o600)


def make_plain(shop: Path) -> None:
    (shop / "x").mkdir()
    (shop / "x").chmod(0o775)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda shop: (shop / "images/a.sif").chmod(0o666), "world-writable"),
        (lambda shop: (shop / "images/a.sif").chmod(0o4755), "set-user-ID or set-group-ID program"),
        (lambda shop: os.mkfifo(shop / "x", 0o600), "special file"),
        (make_socket, "special file"),
        (lambda shop: (shop / "x").symlink_to("/etc/passwd"), "link out of the directory"),
        (lambda shop: (shop / "x").symlink_to("../shopping"), "link out of the directory"),
        (make_plain, "group-writable directory without set-group-ID"),
    ],
)
def test_each_kind_of_problem_is_found(shop: Path, make: object, kind: str) -> None:
    make(shop)  # type: ignore[operator]
    assert list(own(shop)) == [kind]
    assert own(shop)[kind].startswith("1 (")


def test_files_of_others_and_of_other_groups_are_found(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shop / "images" / "a.sif").chmod(0o664)
    monkeypatch.setattr(security, "_members", lambda root: {0})
    assert set(own(shop)) == {"owner outside the group"}


def test_many_paths_are_counted_and_a_few_named(shop: Path) -> None:
    for number in range(20):
        (shop / f"x{number}").symlink_to("/etc")
    (what,) = own(shop).values()
    assert what.startswith("20 (")
    assert what.endswith(", ...")
    assert what.count("x") < 10


def test_a_directory_above_in_which_others_can_replace_it_is_found(tmp_path: Path, shop: Path) -> None:
    tmp_path.chmod(0o777)
    assert "others can replace" in found(shop)[str(tmp_path)]
    tmp_path.chmod(0o1777)
    assert str(tmp_path) not in found(shop)


def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, **environ: str) -> dict[str, str]:
    path = tmp_path / "site.toml"
    for module in (machine, security):
        monkeypatch.setattr(module, "SYSTEM_PROFILE", path)
    if text is not None:
        path.write_text(text)
    return {f"{one.level} {one.subject}": one.found for one in check_policy(environ)}


def test_the_policy_of_the_machine_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "every image is trusted" in policy(tmp_path, monkeypatch, None)["warn trust policy"]
    strict = 'name = "x"\n[trust]\nneeds = ["digest"]\n'
    told = policy(tmp_path, monkeypatch, strict)
    assert "by default it requires digest" in told["ok trust policy"]
    assert "users other than root" in told[f"fail {tmp_path}/site.toml"]
    told = policy(tmp_path, monkeypatch, strict, HPCMOD_SITE="generic")
    assert "but not weaker" in told["warn trust policy"]
    assert "fail trust policy" in policy(tmp_path, monkeypatch, "[trust")


def test_a_key_that_is_missing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = policy(tmp_path, monkeypatch, 'name = "x"\n[trust]\nneeds = ["signature"]\nkeys = ["/nowhere/key.pem"]\n')
    assert "cannot be read" in told["fail /nowhere/key.pem"]

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from hpcmod.compat.netstack import check_capture
from hpcmod.compat.values.netstack import RECORD
from hpcmod.core.values.finding import FAIL, OK, WARN
from tests.host_libraries import make_host, planned, plant, written


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_host(tmp_path)


@pytest.fixture
def directory(host: Path, tmp_path: Path) -> Path:
    return written(planned(host), tmp_path / "out")[0]


def verdicts(directory: Path) -> dict[str, str]:
    return {one.subject: one.level for one in check_capture(directory)}


def test_nothing_is_stale_right_after_the_capture(directory: Path) -> None:
    assert verdicts(directory) == {"copies": OK, "host": OK}


def test_a_path_is_found_again_from_elsewhere(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host)
    directory, _ = written(planned(host, "lib64/libfabric.so.?"), tmp_path / "out")
    monkeypatch.chdir("/")
    assert verdicts(directory) == {"copies": OK, "host": OK}


def test_a_library_that_the_host_replaced_is_stale(directory: Path, host: Path) -> None:
    plant(host / "cxi", "libcxi.so.1", release=".6.0", defines=["LIBCXI_1.5", "LIBCXI_1.9"])
    (found,) = [one for one in check_capture(directory) if one.level == FAIL]
    assert found.subject == "libcxi.so.1"
    assert f"{host}/cxi/libcxi.so.1.5.0, the host now has another {host}/cxi/libcxi.so.1.6.0" in found.found
    again = f"hpcmod site netstack capture --output {directory.parent} libfabric.so.1"
    assert found.cure == f"Capture again, with the modules loaded that set LD_LIBRARY_PATH: {again}"


def test_the_same_bytes_elsewhere_are_not_stale(directory: Path, host: Path) -> None:
    (host / "cxi/libcxi.so.1.5.0").rename(host / "lib64/libcxi.so.1")
    (host / "cxi/libcxi.so.1").unlink()
    (host / "lib64/libfabric.so.1.25.0").rename(host / "lib64/libfabric.so.1")
    assert verdicts(directory) == {"copies": OK, "host": OK}


def test_a_library_that_the_host_needs_in_addition_is_reported(directory: Path, host: Path) -> None:
    plant(host / "cxi", "libnl-3.so.200")
    plant(host / "cxi", "libcxi.so.1", release=".5.0", needed=["libnl-3.so.200"], defines=["LIBCXI_1.5"])
    assert verdicts(directory) == {"copies": OK, "libcxi.so.1": FAIL, "libnl-3.so.200": FAIL}


def test_one_that_it_no_longer_needs_is_only_worth_a_warning(directory: Path, host: Path) -> None:
    plant(host / "lib64", "libfabric.so.1", release=".25.0", defines=["FABRIC_1.7"])
    assert verdicts(directory) == {"copies": OK, "libfabric.so.1": FAIL, "libcxi.so.1": WARN}


def test_one_that_is_gone_from_the_host_fails(host: Path, tmp_path: Path) -> None:
    directory, _ = written(planned(host, f"{host}/lib64/libfabric.so.1"), tmp_path / "out")
    (host / "lib64/libfabric.so.1").unlink()
    assert verdicts(directory) == {"copies": OK, "host": FAIL}


def test_one_that_is_needed_and_gone_fails(directory: Path, host: Path) -> None:
    (host / "cxi/libcxi.so.1").unlink()
    assert verdicts(directory) == {"copies": OK, "libcxi.so.1": FAIL}


def test_libraries_left_out_on_request_are_not_missing(host: Path, tmp_path: Path) -> None:
    directory, _ = written(planned(host, leave_out=("libcxi.so.*",)), tmp_path / "out")
    assert verdicts(directory) == {"copies": OK, "host": OK}


def test_another_release_of_the_system_is_worth_a_warning(directory: Path) -> None:
    record = json.loads((directory / RECORD).read_text())
    (directory / RECORD).write_text(json.dumps({**record, "host": {"os": "SLES 15 SP5"}}))
    (found,) = [one for one in check_capture(directory) if one.level == WARN]
    assert "was SLES 15 SP5 when they were captured" in found.found


def test_a_damaged_copy_fails(directory: Path) -> None:
    (directory / "libcxi.so.1.5.0").write_bytes(b"")
    (directory / "libfabric.so.1.25.0").unlink()
    assert verdicts(directory) == {"libcxi.so.1.5.0": FAIL, "libfabric.so.1.25.0": FAIL, "host": OK}


def test_a_missing_or_wrong_link_fails(directory: Path) -> None:
    (directory / "libcxi.so.1").unlink()
    (directory / "libfabric.so.1").unlink()
    (directory / "libfabric.so.1").symlink_to("libcxi.so.1.5.0")
    assert verdicts(directory) == {"libcxi.so.1.5.0": FAIL, "libfabric.so.1.25.0": FAIL, "host": OK}


def test_the_cure_asks_for_the_same_in_words_that_a_shell_takes_as_they_are(host: Path, tmp_path: Path) -> None:
    plan = planned(host, f"{host}/*/libfabric.so.1", leave_out=("libnl-*",))
    directory, _ = written(plan, tmp_path / "a b")
    (directory / "libcxi.so.1.5.0").unlink()
    cure = next(one.cure for one in check_capture(directory) if one.level == FAIL)
    words = ["hpcmod", "site", "netstack", "capture", "--output", f"{tmp_path}/a b", "--leave-out", "libnl-*"]
    assert shlex.split(cure.partition(": ")[2]) == [*words, f"{host}/*/libfabric.so.1"]

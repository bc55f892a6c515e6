from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from hpcmod.machine import load_site
from tests.calls import hpcmod
from tests.host_libraries import make_host, plant


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_host(tmp_path)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(f'name = "x"\n[netstack]\ndirectory = ["{tmp_path}/netstack/*"]\nleave_out = ["libnl-*"]\n')
    return path


def call(host: Path, site: Path | None, *args: str) -> Result:
    env = {"LD_LIBRARY_PATH": f"{host}/cxi:{host}/lib64", "HPCMOD_SITE": str(site) if site else "generic"}
    return hpcmod("site", "netstack", *args, **env)


def test_capture_prints_the_new_directory_and_show_and_check_find_it(host: Path, site: Path, tmp_path: Path) -> None:
    done = call(host, site, "capture")
    (directory,) = (tmp_path / "netstack").glob("[0-9]*")
    assert (done.exit_code, done.stdout) == (0, f"{directory}\n")
    shown = call(host, site, "show")
    assert shown.stdout.splitlines()[0] == f"directory: {directory}"
    assert "libfabric.so.1.25.0\t" in shown.stdout
    assert call(host, site, "check").exit_code == 0
    again = call(host, site, "capture")
    assert (again.stdout, "nothing to do" in again.stderr) == (done.stdout, True)


def test_a_capture_is_used_by_the_users_own_profile(
    host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    own = tmp_path / "config/hpcmod/site.toml"
    own.parent.mkdir(parents=True)
    own.write_text('name = "frontier"\nextends = "frontier"\n')  # as `hpcmod site use` writes it
    words = ("site", "netstack", "capture", "--use", "-o", tmp_path / "stacks", "libfabric.so.1")
    env = {"LD_LIBRARY_PATH": f"{host}/cxi:{host}/lib64", "HPCMOD_SITE": ""}
    assert hpcmod(*words, **env).exit_code == 0
    site = load_site(None, {"XDG_CONFIG_HOME": str(tmp_path / "config")})
    places = [bind.source for bind in site.network.netstack.directory]
    assert (site.name, places) == ("frontier", [f"{tmp_path}/stacks/*", "/opt/cray/libfabric/*/lib64"])
    again = hpcmod(*words, **env)
    assert again.exit_code == 2 and f'directory=["{tmp_path}/stacks/*"' in "".join(again.stderr.split())


def test_a_dry_run_writes_nothing_and_prints_the_same(host: Path, site: Path, tmp_path: Path) -> None:
    done = call(host, site, "capture", "--dry-run", "--json")
    values = json.loads(done.stdout)
    assert (values["version"], values["directory"], values["glibc_needed"]) == (1, None, "2.17")
    assert [one["file"] for one in values["libraries"]] == ["libfabric.so.1.25.0", "libcxi.so.1.5.0"]
    assert not (tmp_path / "netstack").exists()


def test_json_of_a_capture_is_its_record(host: Path, site: Path) -> None:
    values = json.loads(call(host, site, "capture", "--json").stdout)
    assert Path(values["directory"]).is_dir()
    assert json.loads(call(host, site, "show", "--json").stdout) == values


def test_libraries_left_out_by_profile_and_option_are_not_captured(host: Path, site: Path) -> None:
    plant(host / "cxi", "libnl-3.so.200")
    plant(host / "cxi", "libcxi.so.1", release=".5.0", needed=["libnl-3.so.200"], defines=["LIBCXI_1.5"])
    both = json.loads(call(host, site, "capture", "--dry-run", "--json", "--leave-out", "libcxi*").stdout)
    assert [one["file"] for one in both["libraries"]] == ["libfabric.so.1.25.0"]
    one = json.loads(call(host, site, "capture", "--dry-run", "--json").stdout)
    assert "libnl-3.so.200" in one["left_out"]


def test_a_missing_library_is_an_error_unless_allowed(host: Path, site: Path) -> None:
    plant(host / "lib64", "libmpi.so.12", needed=["libpals.so.0"])
    done = call(host, site, "capture", "libmpi.so.12")
    assert done.exit_code == 1
    assert "libpals.so.0, needed by" in done.stderr
    assert call(host, site, "capture", "libmpi.so.12", "--allow-missing").exit_code == 0


def test_stale_libraries_give_exit_code_1(host: Path, site: Path) -> None:
    call(host, site, "capture")
    plant(host / "cxi", "libcxi.so.1", release=".6.0", defines=["LIBCXI_1.5", "LIBCXI_1.9"])
    done = call(host, site, "check", "--json")
    assert done.exit_code == 1
    assert [one["subject"] for one in json.loads(done.stdout)["findings"] if one["level"] == "fail"] == ["libcxi.so.1"]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("capture",), 3, "no directory for the libraries"),
        (("show",), 3, "has no directory in [netstack]"),
        (("check",), 3, "has no directory in [netstack]"),
        (("show", "/nonexistent"), 3, "was not created by"),
        (("capture", "libnowhere.so"), 3, "libnowhere.so: not found on this machine"),
    ],
)
def test_a_mistake_is_reported_with_its_code(host: Path, args: tuple[str, ...], code: int, said: str) -> None:
    done = call(host, None, *args)
    assert (done.exit_code, said in done.stderr) == (code, True), done.stderr

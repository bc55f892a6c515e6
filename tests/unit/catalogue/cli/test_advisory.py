from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hpcmod.catalogue.values.advisory_schema import parse_advisory
from hpcmod.core.cli.main import main
from tests.catalogues import make_catalogue, make_record

RECORD = make_record("PyTorch/2.7")


ADVISORY = f"""
title = "It hangs"
text = "on two nodes"
source = "https://example.org/1"
issued = 2026-01-01
expires = 2099-01-01
[match]
digests = ["sha256:{RECORD.sha256}"]
[match.environment]
NCCL_NET_GDR_LEVEL = "*"
[cure]
unset = ["NCCL_NET_GDR_LEVEL"]
set = {{ FI_MR_CACHE_MONITOR = "it's $(touch pwned)" }}
"""

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call `hpcmod` with a module loaded; one advisory is about its image, the others are not relevant."""
    catalogue = make_catalogue(tmp_path / "catalogue", RECORD)
    for place in (catalogue.advisories, catalogue.locks):
        place.mkdir(parents=True)
    files = {
        "hangs": ADVISORY,
        "other": ADVISORY.replace(RECORD.sha256, "9" * 64).replace("It hangs", "Another image"),
        "old": ADVISORY.replace("2099", "2026").replace("It hangs", "Long ago"),
    }
    for name, text in files.items():
        (catalogue.advisories / f"{name}.toml").write_text(text)
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "record.json").write_text(json.dumps({"image": {"sha256": RECORD.sha256}}))
    environ = {
        "HPCMOD_CATALOGUE": str(catalogue.directory),
        "HPCMOD_SITE": "generic",
        "HOME": str(tmp_path),
        "_HPCMOD_CONTAINER": "ai_container PyTorch/2.7",
        "CONTAINERROOT": str(tmp_path / "root"),
        "NCCL_NET_GDR_LEVEL": "3",
    }

    def call(*args: str, verb: str = "catalogue advisory", **more: str | None) -> Result:
        return CliRunner().invoke(main, [*verb.split(), *args], env={**environ, **more})

    return call


def test_without_a_verb_those_are_listed_that_hold_here(call: Call) -> None:
    done = call()
    assert (done.exit_code, done.stdout) == (0, "hangs\tuntil 2099-01-01\tIt hangs\n")
    assert call("ls").stdout == done.stdout
    assert call(NCCL_NET_GDR_LEVEL=None).stdout == ""


def test_all_of_them_can_be_listed_the_expired_among_them(call: Call) -> None:
    done = call("ls", "--all", _HPCMOD_CONTAINER=None)
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == ["hangs", "old", "other"]
    assert "expired 2026-01-01" in done.stdout
    found = json.loads(call("ls", "--all", "--json").stdout)
    assert [one["expired"] for one in found["advisories"]] == [False, True, False]
    assert found["advisories"][0]["set"] == {"FI_MR_CACHE_MONITOR": "it's $(touch pwned)"}


def test_without_a_module_there_is_nothing_to_look_at(call: Call) -> None:
    done = call(_HPCMOD_CONTAINER=None)
    assert done.exit_code == 3
    assert "hpcmod catalogue advisory ls --all" in done.stderr


def test_info_shows_an_advisory_in_full(call: Call) -> None:
    done = call("PyTorch/2.7", verb="info")
    assert "advisory: It hangs. on two nodes" in done.stdout
    assert "unset NCCL_NET_GDR_LEVEL" in done.stdout and "https://example.org/1" in done.stdout


def test_the_cure_changes_the_environment_of_the_users_shell(call: Call, tmp_path: Path) -> None:
    done = call("--apply")
    assert "It hangs" in done.stderr
    shell = 'eval "$1"; printf "%s|%s" "${NCCL_NET_GDR_LEVEL-unset}" "$FI_MR_CACHE_MONITOR"'
    argv = ["bash", "-euc", shell, "bash", done.stdout]
    after = subprocess.run(argv, env={"NCCL_NET_GDR_LEVEL": "3"}, cwd=tmp_path, capture_output=True, text=True)
    assert after.stdout == "unset|it's $(touch pwned)"
    assert not (tmp_path / "pwned").exists()
    nothing = call("--apply", NCCL_NET_GDR_LEVEL=None)
    assert (nothing.exit_code, nothing.stdout, "no known problems" in nothing.stderr) == (0, "", True)


def test_refresh_has_modules_tell_it(call: Call, tmp_path: Path) -> None:
    notices = tmp_path / "catalogue" / "notices"
    assert "hangs: PyTorch/2.7\n" in call("refresh", "--dry-run").stderr
    assert not notices.exists()
    done = call("refresh", "--reason", "update of January", "--json")
    assert json.loads(done.stdout)["notices"] == sorted(["9" * 64, RECORD.sha256])
    assert "old: expired on 2026-01-01" in done.stderr
    assert json.loads(call("refresh", "--json").stdout)["notices"] == []
    (line,) = (tmp_path / "catalogue" / "journal.jsonl").read_text().splitlines()
    assert "update of January: notices changed: 2" in line
    assert "say It hangs\n" in (notices / RECORD.sha256).read_text()
    (tmp_path / "catalogue" / "advisories" / "hangs.toml").unlink()
    (tmp_path / "catalogue" / "advisories" / "old.toml").unlink()
    assert call("refresh", "--catalogue", str(tmp_path / "catalogue"), HPCMOD_CATALOGUE=None).exit_code == 0
    assert [path.name for path in notices.iterdir()] == ["9" * 64]


def test_a_broken_advisory_is_reported_and_changes_nothing(call: Call, tmp_path: Path) -> None:
    (tmp_path / "catalogue" / "advisories" / "broken.toml").write_text("titel = 'x'")
    assert "did you mean title?" in call("ls", "--all").stderr
    done = call("refresh")
    assert (done.exit_code, "did you mean title?" in done.stderr) == (2, True)
    assert not (tmp_path / "catalogue" / "notices").exists()


def test_the_advisory_that_the_help_shows_is_valid(call: Call) -> None:
    lines = call("refresh", "--help").stdout.split("An advisory:")[1].split("Example")[0]
    shown = parse_advisory("\n".join(line.strip() for line in lines.splitlines()), "help", "x")
    assert shown.unset == ("NCCL_NET_GDR_LEVEL",)
    assert shown.host[0].pattern == "/opt/cray/libfabric/*"
    (bound,) = asdict(shown)["host"][0]["bounds"]  # as --json prints it
    assert bound.keys() == {"product", "operator", "version"}


def test_an_advisory_about_a_package_concerns_modules_with_a_version_of_it(call: Call, tmp_path: Path) -> None:
    about = re.sub(r"digests = .*", 'packages = ["torch<2.8"]', ADVISORY)
    (tmp_path / "catalogue/advisories/runs-code.toml").write_text(about)
    record = tmp_path / "root/record.json"
    record.write_text(json.dumps({"packages": [{"name": "torch", "version": "2.7"}]}))
    assert "runs-code" in call().stdout
    record.write_text(json.dumps({"packages": [{"name": "torch", "version": "2.8"}]}))
    assert "runs-code" not in call().stdout

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.progress import ProgressLine
from hpcmod.images.cache import Cache
from hpcmod.images.cli.cache import parse_size
from hpcmod.images.sif.reader import read_sif
from tests.calls import Terminal, hpcmod
from tests.registry import Registry

pytestmark = pytest.mark.usefixtures("image_places")

BLOBS = (b"one", b"another")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    found = Cache(tmp_path / "cache")
    for blob in BLOBS:
        found.store(f"sha256:{hashlib.sha256(blob).hexdigest()}", blob)
    return found


def test_fetch_prints_nothing_but_the_path_on_stdout(layout: Path, tmp_path: Path) -> None:
    result = hpcmod("fetch", layout, "-o", "x.sif")
    assert (result.exit_code, result.stdout) == (0, "x.sif\n"), result.output
    assert "hpcmod: trust: nothing required\n" in result.stderr
    assert read_sif(tmp_path / "x.sif").architecture == "amd64"


def test_option_and_profile_name_a_compressor_and_an_unknown_one_is_refused(layout: Path, tmp_path: Path) -> None:
    assert hpcmod("fetch", layout, "-o", "none.sif", "--compression", "none").exit_code == 0
    assert hpcmod("fetch", layout, "-o", "gzip.sif", "--compression", "gzip:9").exit_code == 0
    assert (tmp_path / "none.sif").read_bytes() != (tmp_path / "gzip.sif").read_bytes()
    (tmp_path / "site.toml").write_text('name = "x"\n[images]\ncompression = "gzip:9"\n')
    assert hpcmod("fetch", layout, "-o", "ours.sif", "--site", tmp_path / "site.toml").exit_code == 0
    assert (tmp_path / "ours.sif").read_bytes() == (tmp_path / "gzip.sif").read_bytes()
    for text in ("zip", "gzip:99", "gzip:x"):
        assert hpcmod("fetch", layout, "-o", "bad.sif", "--compression", text).exit_code == 2
    done = hpcmod("fetch", "gzip.sif", "-o", "zstd.sif", "--compression", "zstd")
    assert (done.exit_code, done.stderr.count("gzip.sif is already a SIF")) == (2, 1)


def test_what_is_on_disk_is_converted_whatever_it_is_called(layout: Path, tmp_path: Path) -> None:
    assert hpcmod("fetch", "layout/").stdout == "layout.sif\n"
    with tarfile.open("saved.tar", "w") as archive:
        archive.add(layout, ".")
    assert hpcmod("fetch", "saved.tar").stdout == "saved.sif\n"
    Path("saved.tar").rename("other")
    assert hpcmod("fetch", "./other").stdout == "other.sif\n"
    assert len({(tmp_path / name).stat().st_size for name in ("layout.sif", "saved.sif", "other.sif")}) == 1


def test_fetch_keeps_the_file_name_unless_another_is_given(layout: Path, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    assert hpcmod("fetch", f"oci:{layout}").stdout == "layout.sif\n"
    assert hpcmod("fetch", f"oci:{layout}", "-o", "to").stdout == "to/layout.sif\n"
    assert hpcmod("fetch", f"oci:{layout}", "-o", "to/x.sif").stdout == "to/x.sif\n"


def test_fetch_says_in_json_what_it_did(layout: Path) -> None:
    found = json.loads(hpcmod("fetch", "--json", f"oci:{layout}").stdout)
    assert (found["version"], found["path"], found["fetched"]) == (1, "layout.sif", True)
    assert found["reference"] == f"oci:{layout}"


def test_a_dry_run_fetches_nothing(registry: Registry, layout: Path, tmp_path: Path) -> None:
    digest = registry.push_layout(layout, "cli/dry", "1")["digest"]
    result = hpcmod("fetch", "--dry-run", f"docker://{registry.host}/cli/dry:1")
    assert f"pinned: docker://{registry.host}/cli/dry:1@{digest}\n" in result.stdout
    assert json.loads(hpcmod("fetch", "--dry-run", "--json", f"oci:{layout}").stdout)["layers"] is None
    assert list(tmp_path.glob("*.sif")) == []


def test_fetch_does_not_fetch_an_existing_image_again(registry: Registry, layout: Path) -> None:
    digest = registry.push_layout(layout, "cli/again", "1")["digest"]
    text = f"docker://{registry.host}/cli/again@{digest}"
    assert hpcmod("fetch", text, "-o", "x.sif").exit_code == 0
    assert "already present" in hpcmod("fetch", text, "-o", "x.sif").stderr


def test_on_a_terminal_fetch_shows_how_far_it_is(
    registry: Registry, layout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = registry.push_layout(layout, "cli/line", "1")["digest"]
    terminal = Terminal()
    monkeypatch.setattr("hpcmod.images.cli.fetch.ProgressLine", lambda label: ProgressLine(label, terminal))
    assert hpcmod("fetch", f"docker://{registry.host}/cli/line@{digest}", "-o", "x.sif").exit_code == 0
    assert re.search(r"x\.sif: .* kB, 100 %", terminal.getvalue())


def test_existing_files_are_replaced_only_with_force(layout: Path, tmp_path: Path) -> None:
    (tmp_path / "x.sif").write_text("mine")
    assert hpcmod("fetch", f"oci:{layout}", "-o", "x.sif").exit_code == 2
    assert hpcmod("fetch", f"oci:{layout}", "-o", "x.sif", "--force").exit_code == 0


@pytest.mark.slow
def test_fetching_an_image_without_signatures_does_not_import_cryptography(registry: Registry, layout: Path) -> None:
    registry.push_layout(layout, "cli/imports", "1")
    for reference in (str(layout), f"docker://{registry.host}/cli/imports:1"):
        program = f"""
import atexit, sys
atexit.register(lambda: print("imported:", "cryptography" in sys.modules))
from hpcmod.core.cli.main import main
main(["fetch", "--force", "--output", "x.sif", {reference!r}])
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout == "x.sif\nimported: False\n"


def test_verify_tells_sum_source_and_evidence(layout: Path, tmp_path: Path) -> None:
    hpcmod("fetch", layout, "-o", "x.sif")
    result = hpcmod("verify", "x.sif")
    assert result.exit_code == 0
    assert f"sha256: {hashlib.sha256((tmp_path / 'x.sif').read_bytes()).hexdigest()}\n" in result.stdout
    assert f"source: oci:{layout}\n" in result.stdout


def test_verify_ends_with_the_code_of_the_outcome(layout: Path, tmp_path: Path) -> None:
    (tmp_path / "strict.toml").write_text('name = "x"\n[trust]\nneeds = ["checksum"]\n')
    hpcmod("fetch", layout, "-o", "x.sif")
    checksum = hashlib.sha256((tmp_path / "x.sif").read_bytes()).hexdigest()
    assert hpcmod("verify", "x.sif", "--site", "strict.toml").exit_code == 9
    assert hpcmod("verify", "x.sif", "--site", "strict.toml", "--checksum", checksum).exit_code == 0
    assert hpcmod("verify", "x.sif", "--checksum", "0" * 64).exit_code == 4
    assert hpcmod("fetch", "x.sif", "-o", "y.sif", "--site", "strict.toml").exit_code == 9


def test_the_cache_is_listed(cache: Cache) -> None:
    lines = hpcmod("cache", "ls").stdout.splitlines()
    assert sorted(line.split()[1] for line in lines) == ["3", "7"]
    found = json.loads(hpcmod("cache", "ls", "--json").stdout)
    assert (found["version"], len(found["blobs"]), found["directory"]) == (1, 2, str(cache.directory))


def test_the_cache_is_kept_small(cache: Cache) -> None:
    assert hpcmod("cache", "gc").stdout == ""
    assert len(hpcmod("cache", "gc", "--max-size", "7", "--dry-run").stdout.splitlines()) == 1
    assert len(cache.entries()) == 2
    assert hpcmod("cache", "gc", "--older-than", "-1").exit_code == 2
    assert len(cache.entries()) == 2
    assert hpcmod("cache", "gc", "--older-than", "0").exit_code == 0
    assert cache.entries() == []


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("20G", 20 * 10**9), ("1.5m", 1_500_000), ("7KB", 7000)])
def test_sizes_are_numbers_with_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "-1", "1X", "1e9"])
def test_refuses_an_invalid_size(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_size(text)


@pytest.mark.parametrize(
    ("reference", "code", "says"),
    [
        ("ubuntu:22.04", 3, "docker://ubuntu:22.04"),
        ("none.sif", 3, "Check the path"),
        ("none.tar", 3, "none.tar: no such file"),
        ("quay.io/org/tool:1", 3, "docker://quay.io/org/tool:1"),
        ("docker://ubuntu", 2, "docker://docker.io/library/ubuntu"),
    ],
)
def test_a_missing_path_or_a_short_name_is_refused_with_a_cure(reference: str, code: int, says: str) -> None:
    done = hpcmod("fetch", reference)
    assert done.exit_code == code
    assert says in done.stderr

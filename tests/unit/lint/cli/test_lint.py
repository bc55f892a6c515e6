from __future__ import annotations

import json
import os
from pathlib import Path

from tests.calls import hpcmod
from tests.foreign_recipes import write_lumi, write_tree


def test_errors_are_reported_with_file_line_and_cure_and_by_the_exit_code(tmp_path: Path) -> None:
    done = hpcmod("lint", write_lumi(tmp_path))
    assert done.exit_code == 1
    assert f"{tmp_path / 'broken.eb'}:1: fail: does-not-load: not a valid easyconfig" in done.stdout
    assert " read: " in done.stderr


def test_warnings_alone_do_not_fail(tmp_path: Path) -> None:
    write_tree(tmp_path, {"x-1.eb": "easyblock = 'ContainerModule'\nname = 'x'\nversion = '1'\nsources = ['x.sif']\n"})
    write_tree(tmp_path, {"x-1.eb": (tmp_path / "x-1.eb").read_text() + "# not known yet\nchecksums = [None]\n"})
    done = hpcmod("lint", tmp_path)
    assert (done.exit_code, done.stderr) == (0, "files read: 1, errors: 0, warnings: 1\n")


def test_json_lists_every_file(tmp_path: Path) -> None:
    done = hpcmod("lint", write_lumi(tmp_path), "--json")
    said = json.loads(done.stdout)
    assert said["version"] == 1
    assert len(said["files"]) == 6
    finding = said["files"][0]["findings"][0]
    assert set(finding) == {"level", "rule", "found", "cure", "subject", "line"}
    assert finding["subject"] == said["files"][0]["file"]
    assert finding["level"] == "fail"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sh").symlink_to(tmp_path / "a.sh")
    assert [hpcmod("lint", tmp_path / name).exit_code for name in ("nowhere", "a.sh")] == [3, 3]


def test_an_unreadable_file_is_an_error_and_the_others_are_still_checked(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.eb": " " * (2 << 20), "b.eb": "name = (\n"})
    os.mkfifo(tmp_path / "c.eb")
    done = hpcmod("lint", tmp_path, tmp_path / "c.eb")
    assert done.exit_code == 1
    assert "a.eb:1: fail: does-not-load: too large" in done.stdout
    assert "b.eb:1: fail" in done.stdout
    assert "c.eb:1: fail: does-not-load: not a regular file" in done.stdout


SCRIPT = "#!/bin/bash\n#SBATCH -A p\n#SBATCH --mem=48\nsrun hostname\n"


def test_a_batch_script_is_known_by_its_suffix_or_first_line(tmp_path: Path) -> None:
    for name in ("a.sh", "b.slurm", "c", "d.sub"):
        (tmp_path / name).write_text(SCRIPT)
        done = hpcmod("lint", "--site", "lumi", tmp_path / name)
        assert (done.exit_code, done.stdout.splitlines()[0]) == (
            1,
            f"{tmp_path / name}:3: fail: memory-unit: --mem=48 is 48 MB: the default unit is megabytes",
        )


def test_a_correct_batch_script_prints_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(SCRIPT.replace("48", "48G"))
    done = hpcmod("lint", "--site", "lumi", tmp_path / "a.sh")
    assert (done.exit_code, done.stdout) == (0, "")


def test_files_of_another_kind_are_skipped_with_one_line_for_each_reason(tmp_path: Path) -> None:
    others = {
        "Chart.yaml": "dependencies: []\n",
        "a-1.eb": "name = 'a'\nversion = '1'\nsources = ['a-1.tar.gz']\n",
        "b-1.eb": "easyblock = 'MakeCp'\nname = 'b'\n",
    }
    write_tree(tmp_path, others)
    done = hpcmod("lint", *(tmp_path / name for name in others))
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [
        f"{tmp_path}/Chart.yaml: skipped: not a batch script or easyconfig (a site profile: hpcmod site check)",
        "2 files: skipped: installs no container",
        "files read: 0, errors: 0, warnings: 0",
    ]
    reasons = [file["skipped"] for file in json.loads(hpcmod("lint", tmp_path / "b-1.eb", "--json").stdout)["files"]]
    assert reasons == ["installs no container"]


def test_an_unknown_site_is_one_error_for_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(SCRIPT)
    done = hpcmod("lint", "--site", "nowhere", tmp_path / "a.sh", tmp_path / "a.sh")
    assert done.exit_code == 3
    assert done.stdout == ""

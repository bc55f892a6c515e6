from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hpcmod.importing.formats import FORMATS
from tests.calls import hpcmod
from tests.foreign_recipes import (
    LUMI_NAME,
    NGC,
    write_edf,
    write_lumi,
    write_ngc,
    write_shpc,
    write_tree,
)


def test_a_table_says_what_became_of_each_and_why(tmp_path: Path) -> None:
    done = hpcmod("import", "lumi-eb", write_lumi(tmp_path / "in"), "--output", tmp_path / "out")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == f"converted {LUMI_NAME.replace('-', '/', 1)}"
    assert lines[1].strip().startswith("changed: ")
    assert sum(line.startswith("refused ") for line in lines) == 5
    assert done.stderr == f"1 converted, 5 refused; in {tmp_path / 'out'}\n"
    assert (tmp_path / "out/p/PyTorch" / f"{LUMI_NAME}.eb").is_file()


def test_equal_remarks_of_many_recipes_are_one_line_with_their_number(tmp_path: Path) -> None:
    modules = {f"{name}/1.lua": NGC for name in "abcdefghijklmnopqrstu"}
    write_tree(tmp_path / "in", {**modules, "other/a/1.lua": NGC, "bad/1.lua": "", "worse/1.lua": ""})
    done = hpcmod("import", "ngc", tmp_path / "in", "--output", tmp_path / "out")
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "In the easyconfigs:"
    assert "    21  note: no digest is given, so the image is identified by its tag alone" in lines
    refused = lines[lines.index("Refused:") + 1 :]
    assert refused[0] == '     2  image not found: there is no line `local uri = "docker://..."`'
    assert refused[1:3] == [f"          {tmp_path}/in/{name}/1.lua" for name in ("bad", "worse")]
    assert refused[3].startswith("     1  another recipe makes the same module; ")
    assert refused[4:] == [f"          {tmp_path}/in/other/a/1.lua"]
    assert done.stderr.startswith("21 converted, 3 refused; in ")
    write_tree(tmp_path / "out", {"a/a/a-1.eb": "mine"})
    again = hpcmod("import", "ngc", tmp_path / "in", "--output", tmp_path / "out")
    kept = again.stdout.splitlines()[-2:]
    assert kept[0] == "     1  another easyconfig exists, and --force replaces it"
    assert kept[1].endswith("out/a/a/a-1.eb")


def test_without_a_refusal_it_succeeds_twice(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {"pytorch/1.lua": NGC})
    assert hpcmod("import", "ngc", tmp_path / "in", "--output", tmp_path / "out").exit_code == 0
    again = hpcmod("import", "ngc", tmp_path / "in", "--output", tmp_path / "out")
    assert (again.exit_code, again.stdout.split()[0]) == (0, "unchanged")


def test_an_existing_file_is_kept_without_force(tmp_path: Path) -> None:
    write_tree(tmp_path, {"in/pytorch/1.lua": NGC, "out/p/pytorch/pytorch-1.eb": "mine"})
    done = hpcmod("import", "ngc", tmp_path / "in", "--output", tmp_path / "out")
    assert done.exit_code == 1
    assert "--force replaces it" in done.stdout
    assert hpcmod("import", "ngc", tmp_path / "in", "--output", tmp_path / "out", "--force").exit_code == 0


def test_json_holds_all_of_the_table(tmp_path: Path) -> None:
    done = hpcmod("import", "shpc", write_shpc(tmp_path / "in"), "--output", tmp_path / "out", "--json", "--dry-run")
    said = json.loads(done.stdout)
    assert (said["version"], said["dry_run"]) == (1, True)
    assert said["converted"] + said["refused"] == len(said["recipes"]) == 21
    fields = {"status", "origin", "module", "path", "left_out", "notes", "changed", "carried", "reason"}
    assert set(said["recipes"][0]) == fields
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", sorted(FORMATS))
def test_a_missing_file_is_an_error(kind: str, tmp_path: Path) -> None:
    done = hpcmod("import", kind, tmp_path / "nowhere")
    assert done.exit_code == 3
    assert "no such file or directory" in done.stderr


def test_an_empty_directory_holds_no_recipe(tmp_path: Path) -> None:
    done = hpcmod("import", "ngc", write_ngc(tmp_path).joinpath("other"), tmp_path / "other", "--dry-run")
    assert "2 refused; nothing was written (--dry-run)" in done.stderr
    (tmp_path / "empty").mkdir()
    assert "no recipes found" in hpcmod("import", "ngc", tmp_path / "empty").stderr


def test_every_format_is_a_subcommand_with_examples() -> None:
    listed = hpcmod("import", "--help").stdout
    for name in FORMATS:
        assert f"  {name} " in listed
        assert f"  hpcmod import {name} " in hpcmod("import", name, "--help").stdout


def test_a_format_imports_no_other_format() -> None:
    program = (
        "import sys\n"
        "from hpcmod.importing.formats import load_format\n"
        "load_format('ngc')\n"
        "print([name for name in sys.modules if name in ('hpcmod.importing.sif', 'hpcmod.importing.shpc', 'yaml')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_options_of_a_format_are_given_to_it(tmp_path: Path) -> None:
    place = write_shpc(tmp_path / "in") / "quay.io/biocontainers"
    done = hpcmod("import", "shpc", place, "--full-names", "--dry-run")
    assert done.stdout.splitlines()[0] == "converted biocontainers-samtools/1.10"
    assert "no such option" in hpcmod("import", "ngc", tmp_path, "--full-names").stderr.lower()
    (tmp_path / "x.toml").write_text('image = "/x.sqsh"\n')
    packed = hpcmod("import", "edf", tmp_path / "x.toml", "--image", "docker://quay.io/a/b:2", "--dry-run")
    assert (packed.exit_code, packed.stdout.splitlines()[0]) == (0, "converted x/2")


def test_what_changes_is_in_the_table_and_in_json(tmp_path: Path) -> None:
    write_edf(tmp_path)
    assert (
        "          changed: the variable UNSET is empty"
        in hpcmod("import", "edf", tmp_path / "pytorch.toml", "--dry-run").stdout
    )
    (row,) = json.loads(hpcmod("import", "edf", tmp_path / "pytorch.toml", "--dry-run", "--json").stdout)["recipes"]
    assert row["changed"]
    assert row["left_out"]


def test_without_a_format_the_name_of_the_file_decides(tmp_path: Path) -> None:
    write_tree(tmp_path, {"x.toml": "image = 'a:1'\n"})
    assert hpcmod("import", tmp_path / "x.toml", "--dry-run").stdout.startswith("converted x/1")
    assert hpcmod("import", tmp_path / "missing.toml").exit_code == 3


@pytest.mark.parametrize("name", ["Dockerfile", "app.def", "job.sh", "compose.yaml", ".", "dockerfile"])
def test_what_no_format_reads_is_one_error_with_the_commands_to_use(name: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {name: "x\n"} if name != "." else {})
    done = hpcmod("import", tmp_path / name)
    assert (done.exit_code, done.stdout) == (2, "")
    message, *cure = done.stderr.splitlines()
    assert message.startswith(f"hpcmod: {tmp_path / name}: neither a format nor a file")
    assert all(known in message for known in FORMATS)
    assert "hpcmod build" in "".join(cure) and "hpcmod lint" in "".join(cure)

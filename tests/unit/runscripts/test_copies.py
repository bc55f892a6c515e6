"""The run scripts find their parts however they are started, and users' variants of them do too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.runscripts.scripts import SYSTEM_PATH, Rank, Scripts, make_program, task

WAYS = {
    "path": "{scripts}/get-master n[3-4]",
    "relative path": "cd {scripts} && ./get-master n[3-4]",
    "file of bash": "cd {scripts} && bash get-master n[3-4]",
    "on PATH": "PATH={scripts}:$PATH && get-master n[3-4]",
    "link": "ln -s {scripts}/get-master {work}/link && {work}/link n[3-4]",
    "relative link": "ln -s {scripts} {work}/a && cd {work} && ln -s a/get-master link && ./link n[3-4]",
    "copy": "cp {scripts}/get-master {work}/mine && RUNSCRIPTS={scripts} {work}/mine n[3-4]",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_script_finds_its_parts(scripts: Scripts, tmp_path: Path, way: str) -> None:
    work = tmp_path / "a work"
    work.mkdir()
    command = WAYS[way].format(scripts=f"'{scripts.root}/runscripts'", work=f"'{work}'")
    done = subprocess.run(["bash", "-c", command], env={"PATH": SYSTEM_PATH}, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "n3\n", "")


def test_a_users_variant_with_another_port_and_a_variable_runs(
    scripts: Scripts, python_path: str, tmp_path: Path
) -> None:
    text = (scripts.root / "runscripts/conda-python-distributed").read_text()
    text = text.replace("\noffer_meeting_point\n", "\noffer MASTER_PORT 29500 'my firewall'\noffer_meeting_point\n")
    text = text.replace("\noffer_settings\n", "\noffer OMP_NUM_THREADS 7 x\noffer_settings\nunset TRITON_CACHE_DIR\n")
    line = 1 + text.splitlines().index("offer MASTER_PORT 29500 'my firewall'")
    mine = make_program(tmp_path / "bin of mine" / "my-distributed", text)
    env = {"PATH": python_path, "RUNSCRIPTS": str(scripts.root / "runscripts"), **task(1, (1, 1))}
    env["HPCMOD_CACHE_ROOT"] = str(tmp_path / "caches")
    told = subprocess.run([mine, "--hpcmod-explain"], env=env, capture_output=True, text=True).stdout
    shown = {each.split(" # ")[0].strip(): each.split(" # ")[1] for each in told.splitlines() if each[0] != "#"}
    assert shown["MASTER_PORT=29500"] == f"my-distributed:{line}: my firewall" and "# runs: python" in told
    done = subprocess.run([mine, "x.py"], env=env, capture_output=True, text=True)
    assert {"MASTER_PORT=29500", "OMP_NUM_THREADS=7", "RANK=1"} <= set(done.stdout.split("\0"))
    assert "TRITON_CACHE_DIR" not in done.stdout
    refused = subprocess.run([mine, "--rdzv", "c10d"], env=env, capture_output=True, text=True)
    assert (refused.returncode, refused.stderr.split(":")[0]) == (2, "my-distributed")


def test_a_rank_without_options_reads_four_parts(rank: Rank) -> None:
    """A thousand ranks open these files on a parallel file system."""
    for path in (rank.scripts.root / "runscripts/lib").iterdir():
        if path.stem not in ("settings", "common", "ranks", "node"):
            path.unlink()
    assert rank(task(1), "x.py").arguments == ["x.py"]


def test_each_option_is_noticed_by_its_variable(scripts: Scripts) -> None:
    lib = scripts.root / "runscripts/lib"
    show = f"""_lib={lib} _only=
        source "$_lib/common.bash" && source "$_lib/ranks.bash" && source "$_lib/options.bash"
        for name in "${{_options[@]}}"; do
          name=HPCMOD_${{name^^}}
          (export "${{name//-/_}}=1" && has_option_variable) || echo "$name"
        done"""
    done = subprocess.run(["bash", "-uc", show], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")

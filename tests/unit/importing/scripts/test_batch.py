from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpcmod.cli.main import main
from hpcmod.errors import HpcmodError
from hpcmod.importing.outcome import ImportedEasyconfig, Refused
from hpcmod.importing.scripts.batch import convert_script, import_scripts
from hpcmod.render.easyconfig import render_easyconfig
from tests.batch_scripts import IMAGES, JOB, OPTIONS, PLAIN, REST, script, step
from tests.foreign_recipes import write_tree
from tests.key_tables import RESULTS, read_results

TABLES = {
    "Images": IMAGES,
    "Options of the container": OPTIONS,
    "Options of the job": JOB,
    "The rest of the script": REST,
}
ROWS = [
    (result, text)
    for heading, samples in TABLES.items()
    for key, result in read_results("import-scripts.md", heading)
    for text in samples.get(key, ())
]


def convert(text: str, environ: Mapping[str, str] | None = None) -> ImportedEasyconfig:
    (one,) = convert_script(text, Path("/scripts/job.sh"), environ or {})
    return one


def words_of(one: ImportedEasyconfig) -> list[str]:
    (line,) = one.commands
    return shlex.split(line)


@pytest.mark.parametrize("heading", TABLES)
def test_the_table_has_a_sample_for_every_row(heading: str) -> None:
    rows = read_results("import-scripts.md", heading)
    assert [key for key, _ in rows] == list(TABLES[heading])
    assert {result for _, result in rows} <= set(RESULTS)


@pytest.mark.parametrize(("result", "text"), ROWS)
def test_each_row_of_the_table_is_true(result: str, text: str) -> None:
    if result == "refused":
        with pytest.raises(HpcmodError):
            convert(text)
        return
    one = convert(text)
    found = {"carried": not (one.left_out or one.changed), "changed": one.changed and not one.left_out}
    assert found.get(result, one.left_out), (one.left_out, one.changed)
    render_easyconfig(one.easyconfig)


def test_a_script_becomes_a_module_and_a_job_line() -> None:
    one = convert(
        script(
            directives="-N 2 --ntasks-per-node=8\n--gres=gpu:8 -A project_1 --mem=0",
            lines='export NCCL_DEBUG=INFO\nDATA=/data\nexport SINGULARITYENV_MODE="it\'s"',
            options="-B $DATA:/d:ro,/e --env A=1",
            program="python train.py --name 'two words'",
        )
    )
    easyconfig = one.easyconfig
    assert (easyconfig.module, easyconfig.image) == ("tool/1.2", "docker://quay.io/org/tool:1.2")
    assert easyconfig.bind_paths == ("/data:/d:ro", "/e")
    assert easyconfig.environment == (("MODE", "it's"), ("A", "1"))
    assert words_of(one) == [
        *("hpcmod", "job", "tool/1.2", "-N", "2", "--ranks-per-node=8", "--gpus=8", "-A", "project_1"),
        *("--sbatch=--mem=0", "--env=NCCL_DEBUG=INFO", "--", "train.py", "--name", "two words"),
    ]


def test_hpcmod_job_accepts_the_lines() -> None:
    for text in (text for samples in (JOB, REST) for texts in samples.values() for text in texts):
        for line in convert(text).commands:
            words = shlex.split(line)[1:]
            given = [words[0], "--site", "lumi", "--dry-run", "-A", "project_1", "-t", "10", *words[1:]]
            done = CliRunner().invoke(main, given)
            assert done.exit_code == 0, (line, done.stderr)


def test_variables_of_the_script_are_expanded_and_the_users_only_if_given() -> None:
    text = script(lines="V=1.2\nSIF=docker://quay.io/org/tool:$V", image="$SIF", options="-B $SCRATCH:/s")
    assert convert(text).easyconfig.bind_paths == ()
    one = convert(text, {"SCRATCH": "/s/me", "V": "9"})
    assert one.easyconfig.bind_paths == ("/s/me:/s",)
    assert one.easyconfig.version == "1.2"


def test_each_image_is_an_easyconfig_of_its_own() -> None:
    text = step("srun apptainer exec docker://a/b:1 x\nsrun apptainer exec docker://c/d:2 y\ncp a b")
    first, second = convert_script(text, Path("/x.sh"), {})
    assert [first.easyconfig.module, second.easyconfig.module] == ["b/1", "d/2"]
    assert any("cp a b" in clause for clause in first.left_out)
    assert not second.left_out
    assert "reported for its first image" in second.notes[0]


def test_several_steps_are_one_line() -> None:
    one = convert(script(program="a\nsrun singularity exec docker://quay.io/org/tool:1.2 b 'c d'"))
    assert words_of(one)[-3:] == ["--then=b 'c d'", "--", "a"]


@pytest.mark.parametrize(
    "odd", ["; touch owned", "$(touch owned)", "`touch owned`", "'; x", "\\", "é\u202e", "%(name)s"]
)
def test_hostile_words_stay_words(odd: str) -> None:
    one = convert(script(program=f"prog {shlex.quote(odd)}", options=f"--env {shlex.quote(f'A={odd}')}"))
    assert words_of(one)[-2:] == ["prog", odd]
    assert dict(one.easyconfig.environment).get("A", odd) == odd


def test_a_script_is_found_below_a_directory_and_refusals_say_why(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/job.sbatch": PLAIN, "b.sh": "echo hello\n", "c.txt": PLAIN})
    one, other = import_scripts([tmp_path], environ={})
    assert isinstance(one, ImportedEasyconfig)
    assert isinstance(other, Refused) and "starts no container" in other.reason


def test_a_container_that_bash_starts_is_found() -> None:
    one = convert(step("srun bash -c 'export A=1; singularity exec docker://quay.io/org/tool:1.2 prog --x'"))
    assert words_of(one)[-2:] == ["prog", "--x"]


def test_commands_of_the_shell_around_a_container_are_reported() -> None:
    one = convert(step("srun bash -c 'source x; singularity exec docker://quay.io/org/tool:1.2 prog'"))
    assert words_of(one)[-1] == "prog"
    assert any("source x" in clause for clause in one.left_out)


def test_a_program_in_a_shell_of_the_container_is_one_step() -> None:
    one = convert(script(program="bash -c 'a; b'"))
    assert words_of(one)[-3:] == ["bash", "-c", "a; b"]
    assert not any(word.startswith("--then") for word in words_of(one))
    assert not one.left_out


def test_a_value_under_a_condition_is_not_taken_silently() -> None:
    one = convert(script(lines='if [ -n "$R" ]; then\n  EXTRA=--resume\nfi', program="prog $EXTRA"))
    assert words_of(one)[-1] == "--resume"
    assert any("EXTRA is set under a condition" in clause for clause in one.changed)


def test_an_enroot_container_is_followed_to_its_image() -> None:
    lines = "enroot import -o x.sqsh docker://nvcr.io#nvidia/pytorch:24.01-py3\nenroot create --name pt x.sqsh"
    one = convert(step("srun enroot start --rw -m /a:/b pt prog", lines=lines))
    assert one.easyconfig.image == "docker://nvcr.io/nvidia/pytorch:24.01-py3"
    assert one.easyconfig.bind_paths == ("/a:/b",)


def test_without_a_program_there_is_no_line() -> None:
    one = convert(step("srun --container-image=org/tool:1.2"))
    assert one.commands == ()
    assert "hpcmod shell tool/1.2" in one.left_out[-1]

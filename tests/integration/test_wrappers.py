"""Wrappers, start-shell and run scripts with the real runtime behave like the program itself, inside and outside."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.integration.conftest import TOY, Loader
from tests.stack import Done
from tests.wheels import make_wheel

pytestmark = [pytest.mark.stack, pytest.mark.parametrize("loader", ["lmod-lua"], indirect=True)]

ARGUMENTS = [
    "a b",
    "",
    "-n",
    "--",
    "it's",
    'a "quote"',
    "line\nend\n",
    "*",
    "?[a-z]{x,y}~",
    "$HOME `id` $(id) ${IFS}",
    "\\ \\n",
    "größe 数",
    ";&|<>#!",
    "\t",
]

TELL_ARGUMENTS = "import json, sys; print(json.dumps(sys.argv[1:]))"


def loaded(loader: Loader, snippet: str, **env: str) -> Done:
    """Run a snippet with the module loaded, and discard the message about Toy's missing bind."""
    return loader(f"module load {TOY} 2>/dev/null\n{snippet}", **env)


def test_the_exit_code_of_the_program_is_the_wrappers(loader: Loader) -> None:
    codes = "0 42 126 255"
    done = loaded(loader, f'for status in {codes}; do python -c "raise SystemExit($status)"; echo $?; done')
    assert done.stdout.split() == codes.split()


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("python -c", id="wrapper"),
        pytest.param("singularity exec $SIF python -c", id="python inside"),
        pytest.param("singularity exec $SIF conda-python-simple -c", id="conda-python-simple"),
        pytest.param("singularity exec $SIF conda-python-distributed -c", id="conda-python-distributed"),
        pytest.param("singularity exec --bind $CONTAINERROOT $SIF $CONTAINERROOT/bin/python -c", id="wrapper inside"),
        pytest.param("start-shell -c 'exec python -c \"$@\"' x", id="start-shell"),
        pytest.param(
            "singularity exec --bind $CONTAINERROOT $SIF $CONTAINERROOT/bin/start-shell -c 'exec python -c \"$@\"' x",
            id="start-shell inside",
        ),
    ],
)
def test_arguments_arrive_unchanged(loader: Loader, command: str) -> None:
    arguments = " ".join(map(shlex.quote, ARGUMENTS))
    done = loaded(loader, f"{command} {shlex.quote(TELL_ARGUMENTS)} {arguments}")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ARGUMENTS


def test_the_wrapper_runs_the_python_that_the_image_is_made_for(loader: Loader) -> None:
    done = loaded(loader, "python -c 'import sys, packaging; print(sys.prefix); print(packaging.__file__)'")
    assert done.stdout.splitlines()[0] == "/user-software/venv/toy"
    assert done.stdout.splitlines()[1].startswith("/opt/miniconda3/envs/pytorch/lib/python3")


def test_stdin_and_both_outputs_are_the_programs(loader: Loader) -> None:
    program = "import sys; print(input()); print('said', file=sys.stderr)"
    done = loaded(loader, f'echo given | python -c "{program}"')
    assert done.stdout == "given\n"
    assert "said" in done.stderr.splitlines()


def test_nothing_is_left_between_the_caller_and_the_runtime(loader: Loader) -> None:
    program = 'open("ready", "w").close(); open("go").read()'
    snippet = f"mkfifo ready go; python -c '{program}' & read -r <ready; cat /proc/$!/comm; : >go; wait $!"
    assert loaded(loader, snippet).stdout == "starter\n"


def test_a_signal_reaches_the_program_and_its_exit_code_comes_back(loader: Loader, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('caught', flush=True), sys.exit(7)))\n"
        "pathlib.Path('ready').touch()\n"
        "for _ in range(600):  # one long sleep would not end by a signal that comes just before it\n"
        "    time.sleep(0.1)\n"
    )
    snippet = "python waits.py & until [[ -e ready ]]; do sleep 0.05; done; kill -TERM $!; wait $!; echo $?"
    assert loaded(loader, snippet).stdout == "caught\n7\n"


def test_programs_of_the_host_keep_the_hosts_python_and_the_user_gets_the_containers(loader: Loader) -> None:
    where = "import sys; print(sys.prefix)"
    done = loaded(loader, f"unset EB_PYTHON; eb --version && hpcmod --version && python3 -c '{where}'")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("This is EasyBuild ") and "\nhpcmod, version" in done.stdout
    assert done.stdout.splitlines()[-1] == "/user-software/venv/toy"


def test_doctor_finds_the_python_of_eb_while_a_module_is_loaded(loader: Loader) -> None:
    findings = json.loads(loaded(loader, "unset EB_PYTHON; hpcmod doctor --json $SIF").stdout)["findings"]
    assert {one["subject"]: one["level"] for one in findings}["easyblock"] == "ok"


def test_a_wrapper_works_though_the_bind_variables_were_set_again(loader: Loader) -> None:
    done = loaded(loader, "export SINGULARITY_BINDPATH=/etc APPTAINER_BINDPATH=/etc; python -c 'print(1)'")
    assert done.stdout == "1\n", done.stderr


def test_wrappers_call_wrappers_within_the_container(loader: Loader) -> None:
    program = "import subprocess; print(subprocess.check_output(['python3', '-c', 'print(6 * 7)'], text=True))"
    assert loaded(loader, f'python -c "{program}"').stdout.split() == ["42"]


def test_pip_installs_into_the_users_layer(loader: Loader, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "mine", "1.0")
    done = loaded(
        loader,
        f"pip install -q --no-index {wheel} && python -c 'import mine; print(mine.__file__)'; pip uninstall -q -y mine",
    )
    assert done.stdout.startswith("/user-software/venv/toy/lib/python3"), done.stderr


def test_start_shell_reads_commands_from_stdin(loader: Loader) -> None:
    done = loaded(loader, "start-shell <<<'echo $WITH_CONDA; type -P python'")
    assert done.stdout.splitlines()[-1] == "/user-software/venv/toy/bin/python"


def test_a_process_outside_slurm_is_the_only_rank(loader: Loader) -> None:
    program = "import os; print(*(os.environ[n] for n in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR')))"
    done = loaded(loader, f'singularity exec $SIF conda-python-distributed -c "{program}"')
    assert done.stdout == "0 1 0 127.0.0.1\n"


def test_get_master_is_on_path_inside_and_runs_outside(loader: Loader) -> None:
    done = loaded(
        loader, "singularity exec $SIF get-master 'nid[07-9]'; $RUNSCRIPTS/get-master a1,b2; $RUNSCRIPTS/get-master ']'"
    )
    assert done.stdout == "nid07\na1\n"
    assert done.returncode == 2

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from pathlib import Path

import pytest

from hpcmod.modules.values.plan import ContainerSettings, RunscriptSettings
from tests.stack import CHECKOUT
from tests.unit.runscripts.scripts import PATIENT_PROGRAM, SYSTEM_PATH, Ran, Scripts, make_program

COMMANDS = [
    pytest.param("python", (), ["/runscripts/run-in-env", "python"], id="wrapper"),
    pytest.param("start-shell", (), ["/runscripts/run-in-env", "bash"], id="start-shell"),
]
INSIDE = [
    pytest.param({"APPTAINER_CONTAINER": "/x.sif"}, id="Apptainer"),
    pytest.param({"SINGULARITY_CONTAINER": "/x.sif"}, id="Singularity"),
]


@pytest.fixture
def outside(tmp_path: Path) -> dict[str, str]:
    """The environment that the module sets, and a runtime that prints its arguments and environment."""
    sif = tmp_path / "images of 'alice'" / "a b.sif"
    sif.parent.mkdir()
    sif.touch()
    runtime = make_program(tmp_path / "runtime" / "singularity")
    return {
        "SIFPYTORCH": str(sif),
        "RUNSCRIPTSPYTORCH": str(tmp_path / "runscripts"),
        "SINGULARITY_BINDPATH": f"/usr,{tmp_path}/runscripts:/runscripts",
        "APPTAINER_BINDPATH": f"/usr,{tmp_path}/runscripts:/runscripts",
        "PATH": f"{tmp_path}/bin:{runtime.parent}:{SYSTEM_PATH}",
    }


@pytest.mark.parametrize(("name", "options", "command"), COMMANDS)
def test_outside_runs_the_command_in_the_image(
    scripts: Scripts, outside: dict[str, str], name: str, options: tuple[str, ...], command: list[str]
) -> None:
    arguments = ["a b", "", "it's", "$(id)", "*", "-c", "--", "x\ny"]
    ran = scripts(name, *options, *arguments, env=outside)
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.arguments == ["exec", outside["SIFPYTORCH"], *command, *arguments]


@pytest.mark.parametrize("runtime", ["SINGULARITY", "APPTAINER"])
def test_no_shell_is_started_in_the_container_where_the_module_put_the_images_python_on_its_path(
    scripts: Scripts, outside: dict[str, str], runtime: str
) -> None:
    scripts.change(python_bin="/opt/env/bin")
    variable = f"{runtime}ENV_PREPEND_PATH"
    ran = scripts("python", "x", env={**outside, variable: "/runscripts:/opt/env/bin"})
    assert ran.arguments == ["exec", outside["SIFPYTORCH"], "python", "x"]
    ran = scripts("python", "x", env={**outside, variable: "/runscripts:/of/the/user"})
    assert ran.arguments == ["exec", outside["SIFPYTORCH"], "/runscripts/run-in-env", "python", "x"]


def test_in_an_image_without_bash_the_command_starts_directly(scripts: Scripts, outside: dict[str, str]) -> None:
    scripts.change(has_bash=False)
    assert scripts("python", "x", env=outside).arguments == ["exec", outside["SIFPYTORCH"], "python", "x"]


@pytest.mark.parametrize("target", ["{root}/bin/python", "../mine/second"])
def test_a_link_of_the_user_runs_the_command_that_it_leads_to(
    scripts: Scripts, outside: dict[str, str], tmp_path: Path, target: str
) -> None:
    mine = tmp_path / "home" / "mine"
    mine.mkdir(parents=True)
    (mine / "second").symlink_to(f"{scripts.root}/bin/python")
    (mine / "py").symlink_to(target.format(root=scripts.root))
    for call in (f"{mine}/py", "home/mine/py", "./home/../home/mine/py", "bin/../bin/python", "home/../bin/python"):
        done = subprocess.run([call, "x"], env=outside, cwd=tmp_path, capture_output=True, text=True)
        words = ["exec", outside["SIFPYTORCH"], "/runscripts/run-in-env", "python", "x"]
        assert "".join(f"argument={word}\0" for word in words) in done.stdout, call


@pytest.mark.parametrize("name", ["python", "start-shell"])
def test_the_exit_status_is_that_of_the_runtime(
    scripts: Scripts, outside: dict[str, str], name: str, tmp_path: Path
) -> None:
    make_program(tmp_path / "runtime" / "singularity", "#!/bin/bash\nexit 43\n")
    assert scripts(name, env=outside).status == 43


def test_the_program_gets_the_signals(scripts: Scripts, outside: dict[str, str], tmp_path: Path) -> None:
    make_program(tmp_path / "runtime" / "singularity", PATIENT_PROGRAM)
    process = subprocess.Popen([scripts.root / "bin" / "python"], env=outside, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 5


@pytest.mark.parametrize("name", ["python", "start-shell"])
def test_without_singularity_apptainer_is_taken(
    scripts: Scripts, outside: dict[str, str], name: str, tmp_path: Path
) -> None:
    (tmp_path / "runtime" / "singularity").rename(tmp_path / "runtime" / "apptainer")
    assert scripts(name, env=outside).environment["python"] == str(tmp_path / "runtime" / "apptainer")


@pytest.mark.parametrize("name", ["python", "start-shell"])
def test_without_a_runtime_says_so(scripts: Scripts, outside: dict[str, str], name: str) -> None:
    ran = scripts(name, env={**outside, "PATH": f"{scripts.root}/bin:/nonexistent"})
    assert (ran.status, ran.stdout) == (7, "")
    assert ran.stderr.startswith(f"{name}: no container runtime on this node: neither singularity nor apptainer")


@pytest.mark.parametrize("name", ["python", "start-shell"])
@pytest.mark.parametrize(
    ("sif", "message"),
    [
        pytest.param(None, "SIFPYTORCH is not set. Load the module first: module load PyTorch/2.7.1", id="not set"),
        pytest.param("", "SIFPYTORCH is not set.", id="empty"),
        pytest.param("/nowhere/x.sif", "image '/nowhere/x.sif' not found.", id="gone"),
        pytest.param("images/x.sif", "image 'images/x.sif' not found.", id="relative"),
    ],
)
def test_without_an_image_names_the_cure(
    scripts: Scripts, outside: dict[str, str], name: str, sif: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "x.sif").touch()
    env = {variable: value for variable, value in outside.items() if variable != "SIFPYTORCH"}
    ran = scripts(name, env=env if sif is None else {**env, "SIFPYTORCH": sif}, cwd=tmp_path)
    assert (ran.status, ran.stdout) == (3, "")
    assert ran.stderr.startswith(f"{name}: {message}") and "module load PyTorch/2.7.1" in ran.stderr


@pytest.mark.parametrize("env", INSIDE)
def test_inside_runs_the_command_of_the_container(scripts: Scripts, python_path: str, env: dict[str, str]) -> None:
    ran = scripts("python", "a b", "", env=env, path=f"{scripts.root}/bin:{python_path}")
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.environment["python"] == f"{scripts.root}/python-bin/python" and ran.arguments == ["a b", ""]


@pytest.mark.parametrize("env", INSIDE)
def test_inside_starts_a_plain_shell(scripts: Scripts, env: dict[str, str]) -> None:
    assert scripts("start-shell", "-c", 'printf %s "$1"', "x", "a b", env=env).stdout == "a b"


def test_inside_wrappers_never_call_each_other(scripts: Scripts, settings: RunscriptSettings, tmp_path: Path) -> None:
    other = Scripts(tmp_path / "other").write(settings)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "python").symlink_to(scripts.root / "bin" / "python")
    path = f"{scripts.root}/bin:{other.root}/bin:{tmp_path}/links"
    ran = scripts("python", env={"APPTAINER_CONTAINER": "/x.sif"}, path=path)
    assert (ran.status, ran.stdout) == (127, "")
    assert ran.stderr == f"python: command 'python' not found in this container, PATH={path}\n"


def test_pip_uninstall_of_packages_that_were_added_names_the_command_that_drops_them(
    scripts: Scripts, outside: dict[str, str], tmp_path: Path
) -> None:
    words = ("pip", "uninstall", "-y", "einops")
    assert scripts(*words, env=outside).status == 0
    packed = tmp_path / "own/packages/default/active-.squashfs"
    packed.parent.mkdir(parents=True)
    packed.symlink_to(make_program(packed.with_name("1-.squashfs")).name)
    packed.with_name("1-.json").write_text('{\n "locked": [\n  {\n   "name": "einops",\n   "version": "1"}]}\n')
    environ = {**outside, "HPCMOD_PACKAGES_DIR": f"{tmp_path}/own"}
    ran = scripts(*words, env=environ)
    said = "pip: to remove what `hpcmod add` added: hpcmod drop PyTorch"
    assert (ran.status, ran.stdout, ran.stderr) == (2, "", f"{said} einops\n")
    assert scripts("pip", "uninstall", "einops", "-y", env=environ).stderr == f"{said} PACKAGE\n"
    assert scripts(*words, env={**environ, "HPCMOD_PACKAGES": "none"}).status == 0
    ran = scripts("pip", "uninstall", "-y", "rich", env=environ)
    assert (ran.status, ran.arguments[3], ran.arguments[-3:]) == (0, "python", ["uninstall", "-y", "rich"])


def test_without_a_home_directory_in_the_environment_packages_are_in_that_of_the_account(tmp_path: Path) -> None:
    """Slurm may start a job without it."""
    binds = CHECKOUT / "runscripts/libexec/binds.bash"
    function = f"eval \"$(sed -n '/^find_own_packages/,/^}}/p' {binds})\"; _here= _packages_container=X _packages_tag=t"
    script = f'set -u; source() {{ explain_no_packages() {{ echo "$file"; }}; }}; {function}; find_own_packages'
    for env, home in (({}, pwd.getpwuid(os.getuid()).pw_dir), ({"HOME": str(tmp_path)}, tmp_path)):
        environ = {"PATH": SYSTEM_PATH, "HPCMOD_PACKAGES": "no-such-set", **env}
        done = subprocess.run(["bash", "-c", script], env=environ, capture_output=True, text=True, check=True)
        assert done.stdout == f"{home}/.local/share/hpcmod/packages/X/no-such-set/active-t.squashfs\n"


@pytest.mark.parametrize("directory", [".", "", "here"])
def test_nothing_is_read_from_the_working_directory(
    scripts: Scripts, outside: dict[str, str], directory: str, tmp_path: Path
) -> None:
    for program in ("python", "singularity"):
        make_program(tmp_path / "here" / program, "#!/bin/bash\necho taken\n")
    cwd = tmp_path / "here" if directory != "here" else tmp_path
    inside = scripts("python", env={"APPTAINER_CONTAINER": "/x"}, path=f"{directory}:{scripts.root}/bin", cwd=cwd)
    assert inside.status == 127
    assert scripts("python", env={**outside, "PATH": f"{directory}:{outside['PATH']}"}, cwd=cwd).status == 0


def test_directories_and_plain_files_on_path_are_skipped(scripts: Scripts, python_path: str, tmp_path: Path) -> None:
    (tmp_path / "odd" / "python").mkdir(parents=True)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "python").touch()
    path = f"{tmp_path}/odd:{tmp_path}/plain:{tmp_path}/*:{python_path}"
    assert scripts("python", env={"APPTAINER_CONTAINER": "/x"}, path=path).status == 0


def test_a_binary_program_is_not_a_wrapper(scripts: Scripts, tmp_path: Path) -> None:
    (tmp_path / "binary").mkdir()
    (tmp_path / "binary" / "pip").symlink_to("/usr/bin/printf")
    ran = scripts("pip", "%s", "a b", env={"APPTAINER_CONTAINER": "/x"}, path=f"{tmp_path}/binary")
    assert (ran.stdout, ran.stderr) == ("a b", "")


@pytest.mark.parametrize("command", ["a b", "it's", "$(id)", "-n", "größe"])
def test_odd_names_of_commands_are_taken_as_they_are(
    settings: RunscriptSettings, outside: dict[str, str], command: str, tmp_path: Path
) -> None:
    scripts = Scripts(tmp_path / "odd").write(settings, [command])
    assert scripts(command, "x", env=outside).arguments[2:] == ["/runscripts/run-in-env", command, "x"]
    make_program(tmp_path / "image" / command)
    assert scripts(command, "x", env={"APPTAINER_CONTAINER": "/x"}, path=f"{tmp_path}/image").status == 0


def test_nothing_the_user_exported_is_changed(scripts: Scripts, outside: dict[str, str]) -> None:
    own = dict.fromkeys(("image", "runtime", "binds", "module", "me", "directory", "start", "variable"), "mine")
    seen = scripts("python", env={**outside, **own}).environment
    assert {name: seen[name] for name in own} == own and seen["PATH"].endswith(outside["PATH"])


GPU_STARTS = [
    pytest.param("python", ("train.py",), id="wrapper"),
    pytest.param("start-shell", (), id="start-shell"),
    *(pytest.param("singularity", (verb, "$SIF"), id=f"singularity {verb}") for verb in ("exec", "run", "shell")),
]


@pytest.mark.parametrize(("name", "arguments"), GPU_STARTS)
def test_passes_the_gpus_of_the_node_to_the_runtime(
    scripts: Scripts, outside: dict[str, str], tmp_path: Path, name: str, arguments: tuple[str, ...]
) -> None:
    device = tmp_path / "nvidiactl"
    scripts.change(gpu_flags=(("NV", str(device)), ("ROCM", f"{tmp_path}/kfd")))
    assert gpu_variables(scripts(name, *arguments, env=outside)) == {}
    device.touch()
    assert gpu_variables(scripts(name, *arguments, env=outside)) == {"APPTAINER_NV": "1", "SINGULARITY_NV": "1"}
    mine = {"SINGULARITY_NV": "0"}
    assert gpu_variables(scripts(name, *arguments, env={**outside, **mine})) == mine


def test_a_build_gets_no_gpus(scripts: Scripts, outside: dict[str, str]) -> None:
    scripts.change(gpu_flags=(("NV", "/dev/null"),))
    assert gpu_variables(scripts("singularity", "build", "a.sif", "a.def", env=outside)) == {}
    assert gpu_variables(scripts("singularity", "exec", "a.sif", "true", env=outside)) != {}


def gpu_variables(ran: Ran) -> dict[str, str]:
    assert (ran.status, ran.stderr) == (0, "")
    return {name: value for name, value in ran.environment.items() if name.endswith(("_NV", "_ROCM"))}


WORDS = ("a b", "", "it's", "$(id)", "*", "x\ny")


@pytest.mark.parametrize("program", ["/code/salad", "salad"])
def test_a_wrapper_puts_its_own_arguments_before_those_of_the_user(
    settings: RunscriptSettings, outside: dict[str, str], tmp_path: Path, program: str
) -> None:
    lines = (("knife", ("spoon",)), ("fork", (program, *WORDS)), ("plate", ("x", "fork", "1", "y")))
    scripts = Scripts(tmp_path).write(settings._replace(container=ContainerSettings(command_lines=lines)), ["fork"])
    ran = scripts("fork", "-x", "c d", env=outside)
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.arguments == ["exec", outside["SIFPYTORCH"], "/runscripts/run-in-env", program, *WORDS, "-x", "c d"]


@pytest.mark.parametrize("by_path", [True, False])
def test_also_runs_them_inside(settings: RunscriptSettings, tmp_path: Path, by_path: bool) -> None:
    program = make_program(tmp_path / "in the image" / "salad")
    words = (str(program) if by_path else "salad", *WORDS)
    scripts = Scripts(tmp_path).write(
        settings._replace(container=ContainerSettings(command_lines=(("fork", words),))), ["fork"]
    )
    inside = {"APPTAINER_CONTAINER": "/x.sif", "PATH": f"{tmp_path}/bin:{program.parent}:{SYSTEM_PATH}"}
    ran = scripts("fork", "-x", env=inside)
    assert (ran.status, ran.stderr) == (0, "")
    assert ran.arguments == [*WORDS, "-x"]


def test_in_the_container_each_command_is_found_by_its_name(settings: RunscriptSettings, tmp_path: Path) -> None:
    """A program that it starts finds those of the image first: no command starts itself again."""
    lines = (("fork", ("/bin/bash", "-c", 'echo "$PATH" "$@"', "x", *WORDS[2:])),)
    Scripts(tmp_path).write(settings._replace(container=ContainerSettings(commands=lines)))
    environ = {"PATH": f"/runscripts:/venv:/runscripts/bin:{SYSTEM_PATH}"}
    done = subprocess.run([tmp_path / "runscripts/bin/fork", "a b"], env=environ, capture_output=True, text=True)
    assert done.stdout == f"/runscripts:/venv:{SYSTEM_PATH}:/runscripts/bin {' '.join(WORDS[2:])} a b\n"


@pytest.mark.parametrize(("words", "first"), [(("pip", "list"), []), (("./x",), ["bash"]), (("-c", "x"), ["bash"])])
def test_start_shell_also_runs_one_command(
    scripts: Scripts, outside: dict[str, str], words: tuple[str, ...], first: list[str]
) -> None:
    ran = scripts("start-shell", *words, env=outside)
    assert ran.arguments == ["exec", outside["SIFPYTORCH"], "/runscripts/run-in-env", *first, *words]

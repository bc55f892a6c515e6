"""Each EasyBuild option behaves as its users expect: exit code, files on disk, and a module that loads."""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path

import pytest

from hpcmod.modules.installed import find_installed
from hpcmod.modules.verify import find_damage
from tests.integration.conftest import (
    TOY_IMAGE,
    files_below,
    installed,
    leftovers,
    modulefiles,
    sha256_of,
    use_image,
    write_easyconfig,
)
from tests.stack import EasyBuild, ModuleTool, Stack

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def first_installation(stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory) -> EasyBuild:
    """A new installation of Toy 1.0 by `eb`, with a copy of all files next to it for resetting."""
    top = tmp_path_factory.mktemp("first") / "now"
    eb = EasyBuild(stack, top, top / "central")
    eb.central.mkdir(parents=True)
    (eb.central / TOY_IMAGE).symlink_to(tiny_sif)
    installed(eb, write_easyconfig(top))
    shutil.copytree(top, top.with_name("kept"), symlinks=True)
    return eb


@pytest.fixture
def installed_toy(first_installation: EasyBuild) -> tuple[EasyBuild, Path]:
    """`eb` after a first installation of Toy 1.0, and the easyconfig; changes made by earlier tests are reverted."""
    top = first_installation.top
    shutil.rmtree(top)
    shutil.copytree(top.with_name("kept"), top, symlinks=True)
    return first_installation, top / "Toy-1.0.eb"


def root_of(eb: EasyBuild) -> Path:
    return eb.prefix / "software/Toy/1.0"


def packages_of_user(eb: EasyBuild) -> Path:
    """Return the directory where pip installs the user's packages."""
    return next(root_of(eb).glob("user-software/venv/toy/lib/python3*/site-packages"))


def assert_runs(lmod: ModuleTool, eb: EasyBuild, module: str = "Toy") -> None:
    done = lmod(f"module load {module} && start-shell -c 'echo from inside'", eb.modules)
    assert done.stdout == "from inside\n", done.stderr


def test_fetch_verifies_and_installs_nothing(eb: EasyBuild, toy: Path, tiny_sif: Path, tmp_path: Path) -> None:
    installed(eb, write_easyconfig(tmp_path, checksums=[sha256_of(tiny_sif)]), "--fetch")
    assert modulefiles(eb) == set()
    assert not root_of(eb).exists() or files_below(root_of(eb)) == set()


def test_an_installed_module_is_skipped(installed_toy: tuple[EasyBuild, Path]) -> None:
    eb, toy = installed_toy
    assert "already installed (module found), skipping" in installed(eb, toy).stdout


def test_a_modulefile_in_the_other_syntax_works_beside_the_first(
    installed_toy: tuple[EasyBuild, Path], lmod: ModuleTool
) -> None:
    """Also after a whole installation, which keeps what the older modulefile calls."""
    eb, toy = installed_toy
    for options in (["--module-only", "--rebuild"], ["--rebuild"]):
        installed(eb, toy, *options, "--module-syntax=Tcl")
        logic = {path.name for path in (root_of(eb) / "libexec").glob("module.*")}
        assert (modulefiles(eb), logic) == ({"Toy/1.0.lua", "Toy/1.0"}, {"module.lua", "module.tcl"})
        assert_runs(lmod, eb)
        assert all(find_damage(one) == "" for one in find_installed([eb.modules]))
    (eb.modules / "Toy/1.0.lua").unlink()
    assert_runs(lmod, eb)
    (eb.modules / "Toy/1.0").unlink()
    installed(eb, toy, "--rebuild", "--module-syntax=Lua")
    assert not (root_of(eb) / "libexec/module.tcl").exists()
    assert_runs(lmod, eb)


def test_module_only_force_rewrites_only_the_module_and_keeps_a_backup_of_the_old_one(
    installed_toy: tuple[EasyBuild, Path], lmod: ModuleTool
) -> None:
    eb, toy = installed_toy
    before = {name: (root_of(eb) / name).stat().st_mtime_ns for name in (TOY_IMAGE, "bin/python", "record.json")}
    former = (eb.modules / "Toy/1.0.lua").read_text()
    (eb.modules / "Toy/1.0.lua").write_text(former + "-- changed by hand\n")
    installed(eb, toy, "--module-only", "--force")
    assert (eb.modules / "Toy/1.0.lua").read_text() == former
    assert len(list((eb.modules / "Toy").glob("1.0.bak_*"))) == 1
    assert {name: (root_of(eb) / name).stat().st_mtime_ns for name in before} == before
    assert_runs(lmod, eb)


def test_module_only_without_an_installation_writes_no_module(eb: EasyBuild, toy: Path) -> None:
    done = eb(toy, "--module-only")
    assert done.returncode != 0
    assert modulefiles(eb) == set()


def test_skip_uses_the_existing_installation(installed_toy: tuple[EasyBuild, Path], lmod: ModuleTool) -> None:
    eb, toy = installed_toy
    before = (root_of(eb) / TOY_IMAGE).stat().st_ino
    installed(eb, toy, "--skip", "--rebuild")
    assert (root_of(eb) / TOY_IMAGE).stat().st_ino == before
    assert_runs(lmod, eb)


def test_installing_again_keeps_the_users_packages_and_the_unchanged_image(
    installed_toy: tuple[EasyBuild, Path], lmod: ModuleTool
) -> None:
    eb, toy = installed_toy
    (packages_of_user(eb) / "mine.py").write_text("answer = 42\n")
    (root_of(eb) / "runscripts/get-master").unlink()
    before = (root_of(eb) / TOY_IMAGE).stat()
    done = installed(eb, toy, "--force")
    after = (root_of(eb) / TOY_IMAGE).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert f"image {root_of(eb) / TOY_IMAGE}: kept" in done.stdout
    assert (root_of(eb) / "runscripts/get-master").exists()
    runs = lmod("module load Toy && python -c 'import mine; print(mine.answer)'", eb.modules)
    assert runs.stdout == "42\n", runs.stderr


def test_a_rebuild_removes_the_files_it_no_longer_owns_and_no_others(eb: EasyBuild, toy: Path, tmp_path: Path) -> None:
    installed(eb, write_easyconfig(tmp_path, wrapped_commands=["python", "pip"]))
    (root_of(eb) / "bin/mine").write_text("of the user")
    installed(eb, write_easyconfig(tmp_path, wrapped_commands=["python"]), "--rebuild")
    scripts = {"start-shell", "list-packages", "make-squashfs", "unmake-squashfs"}
    assert files_below(root_of(eb) / "bin") == {"python", "apptainer", "singularity", "mine", *scripts}


def test_the_old_module_works_until_the_new_one_is_complete(
    installed_toy: tuple[EasyBuild, Path], lmod: ModuleTool
) -> None:
    eb, toy = installed_toy
    installed(eb, toy, "--rebuild", "--stop=sanitycheck")
    assert_runs(lmod, eb)


def test_sanity_check_only_passes_for_what_works_and_fails_for_what_does_not(
    installed_toy: tuple[EasyBuild, Path],
) -> None:
    eb, toy = installed_toy
    before = {name: (root_of(eb) / name).lstat().st_mtime_ns for name in files_below(root_of(eb))}
    installed(eb, toy, "--sanity-check-only")
    assert {name: (root_of(eb) / name).lstat().st_mtime_ns for name in before} == before
    (root_of(eb) / "runscripts/conda-python-simple").unlink()
    assert eb(toy, "--sanity-check-only").returncode != 0


def test_a_dry_run_prints_the_plan_and_writes_nothing(eb: EasyBuild, toy: Path) -> None:
    done = installed(eb, toy, "-x")
    root = root_of(eb)
    for line in (
        f"image: {root / TOY_IMAGE} (copy)\n",
        f"run scripts in {root}/runscripts: check-nodes, conda-python-distributed, conda-python-simple, get-master, ",
        f"bind if it exists: {root}/runscripts:/runscripts\n",
        "Python packages listed: 3\n",
        f"directory: {root}\n",
    ):
        assert line in done.stdout
    wrappers = done.stdout.partition(f"wrappers in {root}/bin: ")[2].splitlines()[0]
    assert {"python", "singularity", "start-shell"} <= set(wrappers.split(", "))
    assert "ERROR" not in done.stdout
    assert files_below(eb.prefix) == set()


def test_a_dry_run_without_an_image_says_so(eb: EasyBuild, tmp_path: Path) -> None:
    done = installed(eb, write_easyconfig(tmp_path), "-x")
    assert f"* {TOY_IMAGE} (MISSING)" in done.stdout
    assert files_below(eb.prefix) == set()


def test_an_injected_checksum_is_that_of_the_image_and_is_enforced(
    eb: EasyBuild, toy: Path, tiny_sif: Path, lmod: ModuleTool
) -> None:
    write_easyconfig(toy.parent, checksums=[None])
    assert "use --force to overwrite them" in eb(toy, "--inject-checksums").stdout
    installed(eb, toy, "--inject-checksums", "--force")
    assert sha256_of(tiny_sif) in toy.read_text()
    installed(eb, toy, "--enforce-checksums")
    assert_runs(lmod, eb)


def test_enforcing_checksums_refuses_an_easyconfig_without_one(eb: EasyBuild, toy: Path) -> None:
    done = eb(toy, "--enforce-checksums")
    assert f"Missing checksum for {TOY_IMAGE}" in done.stdout
    assert done.returncode != 0
    assert modulefiles(eb) == set()


def test_ignoring_checksums_installs_and_says_which_one_it_is(
    eb: EasyBuild, toy: Path, tiny_sif: Path, tmp_path: Path, lmod: ModuleTool
) -> None:
    done = installed(eb, write_easyconfig(tmp_path, checksums=["0" * 64]), "--ignore-checksums")
    assert re.search(
        f"Ignoring the checksum mismatch: the sha256 of .*{TOY_IMAGE} is {sha256_of(tiny_sif)}", done.stdout
    )
    assert_runs(lmod, eb)


def test_a_read_only_installation_stays_the_users_to_add_packages_to_and_can_be_rebuilt(
    eb: EasyBuild, toy: Path, lmod: ModuleTool
) -> None:
    installed(eb, toy, "--read-only-installdir")
    for name in (TOY_IMAGE, "bin/python", "bin", "record.json"):
        assert not (root_of(eb) / name).stat().st_mode & stat.S_IWUSR, name
    (packages_of_user(eb) / "mine.py").write_text("answer = 42\n")
    assert_runs(lmod, eb)
    installed(eb, toy, "--rebuild", "--read-only-installdir")
    assert lmod("module load Toy && python -c 'import mine; print(mine.answer)'", eb.modules).stdout == "42\n"


def test_a_parameter_can_be_amended(eb: EasyBuild, toy: Path, lmod: ModuleTool) -> None:
    installed(eb, toy, "--try-amend=bind_paths=/etc:/etc-of-the-host,/usr/lib:/lib-of-the-host")
    done = lmod(
        "module load Toy && singularity exec $SIF ls /etc-of-the-host/passwd /lib-of-the-host/os-release", eb.modules
    )
    assert done.stdout.split() == ["/etc-of-the-host/passwd", "/lib-of-the-host/os-release"]


def test_a_hidden_module_is_not_listed_and_loads_by_its_name(eb: EasyBuild, toy: Path, lmod: ModuleTool) -> None:
    installed(eb, toy, "--hidden")
    assert "Toy" not in lmod("module -t avail 2>&1", eb.modules).stdout
    assert_runs(lmod, eb, "Toy/.1.0")


def test_a_module_can_be_the_default(eb: EasyBuild, toy: Path, tmp_path: Path, lmod: ModuleTool) -> None:
    installed(eb, toy, "--set-default-module")
    installed(eb, write_easyconfig(tmp_path, version="2.0"))
    assert (eb.modules / "Toy/default").readlink() == Path("1.0.lua")
    assert lmod("module load Toy; echo $EBVERSIONTOY", eb.modules).stdout == "1.0\n"


def test_a_module_installed_over_a_loaded_one_is_explained(installed_toy: tuple[EasyBuild, Path]) -> None:
    eb, toy = installed_toy
    done = eb(toy, "--rebuild", EBROOTTOY=str(root_of(eb)))
    assert done.returncode != 0
    assert "EBROOTTOY" in done.stdout


def test_a_changed_image_replaces_the_old_one(
    installed_toy: tuple[EasyBuild, Path], tiny_sif: Path, tmp_path: Path, lmod: ModuleTool
) -> None:
    eb, toy = installed_toy
    changed = tmp_path / "changed.sif"
    changed.write_bytes(tiny_sif.read_bytes() + b"more")
    use_image(eb, changed)
    done = installed(eb, toy, "--rebuild")
    assert f"sha256 {sha256_of(changed)}" in done.stdout
    assert sha256_of(root_of(eb) / TOY_IMAGE) == sha256_of(changed)
    assert leftovers(eb) == set()
    assert_runs(lmod, eb)


COMMANDS = {"python": ["python"], "six": ["python", "-c", "import sys; print(6, *sys.argv[1:])", "it's $(id)"]}
VARIABLES = {"OMP_NUM_THREADS": "4", "TOY_TEXT": 'it\'s "here"; %(name)s & | * %', "TOY_EMPTY": ""}
READ = 'singularity exec $SIF sh -c \'printf "%s|" "$OMP_NUM_THREADS" "$TOY_TEXT" "${TOY_EMPTY-none}"\''


def test_variables_and_commands_with_arguments_arrive_in_the_container(
    stack: Stack, eb: EasyBuild, toy: Path, tmp_path: Path
) -> None:
    module_env = ModuleTool(stack, tmp_path, "envmodules")
    variables = {name: value.replace("%(", "%%(") for name, value in VARIABLES.items()}
    easyconfig = write_easyconfig(tmp_path, wrapped_commands=COMMANDS, environment=variables)
    installed(eb, easyconfig, "--module-syntax=Tcl")
    said = module_env(f"module load Toy && six 'a b' && {READ}", eb.modules)
    assert said.stdout == f"6 it's $(id) a b\n4|{VARIABLES['TOY_TEXT']}||", said.stderr
    for given in ("OMP_NUM_THREADS", "APPTAINERENV_OMP_NUM_THREADS", "SINGULARITYENV_OMP_NUM_THREADS"):
        said = module_env(f"export {given}=7; module load Toy && {READ}", eb.modules)
        assert said.stdout.startswith("7|it's"), said.stderr
    for before in ("true", "export TOY_TEXT=mine APPTAINERENV_OMP_NUM_THREADS= SINGULARITYENV_TOY_EMPTY=x"):
        said = module_env(f"{before}; {UNCHANGED}", eb.modules)
        assert said.stdout == "the same\n", said.stdout + said.stderr


UNCHANGED = """
variables() { env | grep -E 'OMP_|TOY_' | sort; }
before=$(variables); module load Toy; module unload Toy
[[ $before == "$(variables)" ]] && echo 'the same' || variables
"""


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"environment": {"SIF": "/x"}}, "SIF is set by the module"),
        ({"environment": {"A B": "x"}}, "is not a valid variable name"),
        ({"wrapped_commands": {"module": ["x"]}}, "'module' would hide"),
    ],
)
def test_refuses_variables_and_wrappers_that_an_easyconfig_must_not_have(
    eb: EasyBuild, toy: Path, tmp_path: Path, parameters: dict[str, object], words: str
) -> None:
    done = eb(write_easyconfig(tmp_path, **parameters))
    assert done.returncode == 2, done.stdout
    assert words in done.stdout
    assert modulefiles(eb) == set()

"""A site's copy and a private copy of a container: the module tool and every verb agree on which one is used."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.conftest import make_images
from tests.integration.publishing import Site, make_site
from tests.stack import Done, ModuleTool, Stack, write_eb
from tests.walkthroughs import blocks
from tests.wheels import make_wheel

pytestmark = pytest.mark.stack

TOY = "Toy/1.0"

one_tool = pytest.mark.parametrize("student", ["lmod"], indirect=True)
"""For verbs that do not ask the module tool, or ask it what other tests here ask both."""


@dataclass(frozen=True)
class Student:
    """A user at a site with Toy 1.0 published as the default, who has installed a private copy."""

    site: Site
    home: Path
    said: str
    """What the installation printed."""

    @property
    def own(self) -> Path:
        return self.home / "mine/modules/all"

    def __call__(self, snippet: str, *trees: Path) -> Done:
        """Run a snippet with `module` and `hpcmod` available and these directories in MODULEPATH."""
        return self.site.tool(snippet, *trees, cwd=self.home, **variables(self.site, self.home))

    def root_of(self, snippet: str, *trees: Path) -> str:
        """Run a snippet that prints the root directory of an installation; return "own" or "site"."""
        done = self(snippet, *trees)
        assert done.returncode == 0, done.stdout + done.stderr
        root = Path(done.stdout.strip().splitlines()[-1])
        return "own" if self.home in root.parents else "site"


def variables(site: Site, home: Path) -> Mapping[str, str]:
    return {
        "HPCMOD_CATALOGUE": str(site.catalogue),
        "HPCMOD_SITE": "generic",
        "HOME": str(home),
        "EASYBUILD_PREFIX": str(home / "mine"),
        "PATH": f"{write_eb(site.stack, home)}:{site.tool.environment()['PATH']}",
        **{name: value for name, value in site.tool.environment().items() if name in ("LMOD_CMD", "MODULES_CMD")},
    }


@pytest.fixture(scope="module", params=["lmod", "envmodules"])
def student(
    request: pytest.FixtureRequest, stack: Stack, tiny_sif: Path, tmp_path_factory: pytest.TempPathFactory
) -> Student:
    top = tmp_path_factory.mktemp(f"which-{request.param}")
    for place in ("home", "images"):
        (top / place).mkdir()
    site = make_site(ModuleTool(stack, top, request.param), top)
    for image, version in zip(make_images(tiny_sif, top / "images", "old", "one", megabytes=1), ("0.9", "1.0")):
        site.published(image, version)
    done = site.tool("hpcmod install Toy", site.modules, cwd=top / "home", **variables(site, top / "home"))
    assert done.returncode == 0, done.stdout + done.stderr
    return Student(site, top / "home", done.stdout)


def test_installing_a_published_container_makes_a_private_copy_and_prints_the_line_that_loads_it(
    student: Student,
) -> None:
    line = student.said.splitlines()[-1]
    assert line == f"module use {student.own}; module load {TOY}"
    assert student.root_of(f"{line} >&2; echo $CONTAINERROOT", student.site.modules) == "own"


def test_by_its_name_alone_the_private_copy_loads_where_its_directory_comes_first(student: Student) -> None:
    trees = (student.own, student.site.modules)
    assert student.root_of("module load Toy >&2; echo $CONTAINERROOT", *trees) == "own"
    assert student.root_of(f"module load {TOY} >&2; echo $CONTAINERROOT", *trees) == "own"


@one_tool
def test_an_easyconfig_is_installed_though_a_published_module_has_its_name(student: Student) -> None:
    bundle, prefix = student.home / "bundle", student.home / "third"
    bundle.mkdir()
    for path in (
        *student.site.catalogue.glob("easyconfigs/t/Toy/Toy-1.0*.eb"),
        *student.site.catalogue.glob("images/*"),
    ):
        (bundle / path.name).symlink_to(path)
    done = student(f"hpcmod install {bundle}/Toy-1.0*.eb --prefix {prefix}", student.site.modules)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (prefix / "modules/all/Toy/1.0.lua").is_file(), done.stdout


CASES = {
    "lmod": [("own first", "Toy/0.9"), ("site first", "Toy")],
    "envmodules": [("site", "Toy"), ("own only", TOY)],
}
"""Every order of directories; a name, a version of both and a version of the site alone."""


def test_every_verb_means_the_copy_that_module_load_takes(student: Student) -> None:
    for case in CASES[student.site.tool.name]:
        loaded, *verbs = copies_meant(student, *case)
        assert verbs == [loaded] * 3, case


def copies_meant(student: Student, on_path: str, text: str) -> list[str]:
    """Return the copy that `module load` takes, and those that `hpcmod exec`, `hpcmod info` and `hpcmod ls` use."""
    own, site = student.own, student.site.modules
    trees = {"site": [site], "own first": [own, site], "site first": [site, own], "own only": [own]}[on_path]
    loaded = student.root_of(f"module load {text} >&2; echo $CONTAINERROOT", *trees)
    ran = student.root_of(f"hpcmod exec {text} sh -c 'echo $CONTAINERROOT'", *trees)
    info = json.loads(student(f"hpcmod info {text} --json", *trees).stdout)
    listed = json.loads(student("hpcmod ls --json", *trees).stdout)["containers"]
    copies = {one["module"]: one["copy"] for one in listed}
    shown = "own" if str(student.home) in info["root"] else "site"
    return [loaded, ran, shown, copies[info["container"]["module"]]]


@one_tool
def test_with_two_copies_it_reports_which_is_used_and_how_to_use_the_other(student: Student) -> None:
    said = student("hpcmod exec Toy true", student.site.modules).stderr
    assert f"using the site's copy of {TOY}; to use your own" in said and f"module use {student.own}" in said
    assert "using your own copy" in student("hpcmod exec Toy true", student.own, student.site.modules).stderr
    assert "yours, but the site's is used" in student("hpcmod ls", student.site.modules).stdout
    rows = student("hpcmod info Toy", student.site.modules).stdout
    assert "copy: the site's, in " in rows and f"to use it: module use {student.own}; module load {TOY}" in rows


@one_tool
def test_a_private_copy_that_nothing_marks_is_loaded_by_the_line_that_info_prints(student: Student) -> None:
    mark = student.own / "Toy/.modulerc.lua"
    text = mark.read_text()
    mark.unlink()
    try:
        rows = student("hpcmod info Toy", student.site.modules).stdout
        line = next(row for row in rows.splitlines() if row.startswith("other copy: your own")).partition("use it: ")[2]
        assert student.root_of(f"{line} >&2; echo $CONTAINERROOT", student.site.modules) == "own"
    finally:
        mark.write_text(text)


@one_tool
def test_installing_again_says_that_it_is_there_and_prints_the_line(student: Student) -> None:
    done = student("hpcmod install Toy", student.site.modules)
    assert done.returncode == 0
    assert "your own copy of Toy/1.0 is already installed" in done.stderr
    assert done.stdout == f"module use {student.own}; module load {TOY}\n"


@one_tool
def test_while_the_sites_copy_is_loaded_installing_says_to_unload_it(student: Student) -> None:
    done = student("module load Toy/0.9 >&2; hpcmod install Toy/0.9", student.site.modules)
    assert done.returncode == 6
    assert "module unload Toy/0.9" in done.stderr


@one_tool
def test_while_it_is_loaded_updating_says_to_unload_it(student: Student) -> None:
    done = student(f"module load {TOY} >&2; hpcmod update Toy", student.own)
    assert done.returncode == 6
    assert f"module unload {TOY}" in done.stderr


@one_tool
def test_a_prefix_is_obeyed_and_removing_leaves_the_sites_copy(student: Student) -> None:
    other = student.home / "other"
    done = student(f"hpcmod install --prefix {other} Toy", student.site.modules)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"module use {other}/modules/all; module load {TOY}"
    assert (other / "software/Toy/1.0/Toy-1.0.sif").is_file()
    trees = (other / "modules/all", student.site.modules)
    removed = student(f"hpcmod remove {TOY}", *trees)
    assert removed.returncode == 0, removed.stderr
    assert not (other / "modules/all/Toy").exists()
    assert student.root_of("module load Toy >&2; echo $CONTAINERROOT", *trees) == "site"


def commands_of(page: str, **words: object) -> str:
    """Return the commands of a how-to page as a script, with some words replaced."""
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    script = "\n".join(line.strip()[2:] for line in lines if line.strip().startswith("$ "))
    for word, other in words.items():
        assert word in script, (page, word)
        script = script.replace(word, str(other))
    return script


@pytest.mark.parametrize("student", ["envmodules"], indirect=True)
def test_the_page_on_private_copies_works_as_written(student: Student, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "mine", "1.0")
    script = commands_of(
        "private-copy",
        **{"PyTorch": "Toy", "$HOME/.local/easybuild": student.home / "mine", "einops": f"-q --no-index {wheel}"},
    )
    try:
        done = student(f"set -e\n{script}", student.site.modules)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "copy: your own, in " in done.stdout
        assert not (student.own / "Toy/1.0.lua").exists()
    finally:
        student("hpcmod install Toy", student.site.modules)


@one_tool
def test_the_page_on_a_full_quota_works_as_written(student: Student) -> None:
    place = student.home / "scratch"
    script = commands_of("quota", **{"PyTorch": "Toy", "/scratch/project_465000001/alice/easybuild": place})
    setting = blocks("quota", "bash")[0].replace("/scratch/project_465000001/alice/easybuild", str(place))
    before, remove = script.split("hpcmod remove")
    done = student(f"set -e\n{before}\n{setting}\nhpcmod remove{remove}", student.site.modules)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"module use {place}/modules/all; module load {TOY}" in done.stdout
    assert not (place / "modules/all/Toy").exists() and (student.own / "Toy").exists()


@one_tool
def test_packages_are_added_to_the_sites_copy_and_nothing_is_written_there(student: Student, tmp_path: Path) -> None:
    """The user can only read the catalogue; verify detects a modified state."""
    make_wheel(tmp_path, "mine", "1.0")
    before = student.site.files()
    states = f"{tmp_path}/packages/Toy/default/states"
    script = f"""
        export HPCMOD_PACKAGES_DIR={tmp_path}
        hpcmod add Toy/0.9 mine --wheel-dir {tmp_path} --no-index
        module load Toy/0.9 && singularity exec $SIF python -c 'import mine; print(mine.__file__)'
        chmod u+w {states}/1-*.squashfs; echo >>$(echo {states}/1-*.squashfs)
        hpcmod verify Toy/0.9 >&2; echo $?
    """
    with read_only(student.site.catalogue):
        done = student(script, student.site.modules)
    lines = done.stdout.splitlines()
    assert (lines[0], lines[1].rpartition("/")[2], lines[2:]) == ("mine: added 1.0", "mine.py", ["4"]), done
    assert lines[1].startswith("/user-software/venv/toy/lib/")
    assert student.site.files() == before


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Remove write permission from a directory tree until the block ends."""
    found = {path: path.stat().st_mode for path in (directory, *directory.rglob("*")) if not path.is_symlink()}
    for path, mode in found.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in found.items():
            path.chmod(mode)

"""A user's own packages with the real pip in real containers, for both module tools and both syntaxes."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.integration.conftest import TOY, Loader, away
from tests.package_index import run_index
from tests.preloaded import HPCMOD, call
from tests.registry import PASSWORD, make_certificate
from tests.stack import Done, run
from tests.walkthroughs import blocks
from tests.wheels import make_source, make_wheel

pytestmark = pytest.mark.stack

SHOW = "import einops, sys; print(einops.version, einops.__file__)"
INSIDE = "/user-software/venv/toy/lib/python3.11/site-packages/einops.py"


BACKEND = """
import os, zipfile
WHERE = "in a container" if os.path.exists("/.singularity.d") else "on the host"
def build_editable(directory, config_settings=None, metadata_directory=None):
    return build(directory, "mycode.pth", os.getcwd())
def build_wheel(directory, config_settings=None, metadata_directory=None):
    return build(directory, "mycode.py", open("mycode.py").read())
def build(directory, file, text):
    name, info = "mycode-1.0-py3-none-any.whl", "mycode-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.writestr(file, text)
        wheel.writestr("built.py", "where = " + repr(WHERE))
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: mycode\\nVersion: 1.0\\n")
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "/RECORD", "")
    return name
"""
"""Stands in for setuptools, which could only be installed with network access."""

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "mycode"
version = "1.0"
"""


CODE = {"pyproject.toml": PROJECT, "backend.py": BACKEND, "mycode.py": "version = 'old'\n"}
"""A project whose build adds a module that reports where the build ran."""
BUILT = ("python", "-c", "import built; print(built.where)")


@dataclass(frozen=True)
class Mine:
    """A user with a home directory, a directory of wheels and the installed module Toy/1.0."""

    loader: Loader
    wheels: Path

    @property
    def home(self) -> Path:
        return self.loader.tool.home

    @property
    def packaging(self) -> str:
        return self.loader.eb.stack.packaging

    @property
    def packages(self) -> Path:
        return self.home / ".local/share/hpcmod/packages/Toy"

    def environment(self, **more: str) -> dict[str, str]:
        tree = self.loader.eb.modules
        own = {"MODULEPATH": str(tree), "EASYBUILD_PREFIX": str(self.loader.eb.prefix), "HPCMOD_SITE": "generic"}
        return {**self.loader.tool.environment(), **own, **more}

    def argv(self, verb: str, *words: str | Path) -> list[str]:
        """Return the command line of a verb that uses the wheels instead of an index."""
        offline = ["--wheel-dir", self.wheels, "--no-index"] if verb in ("add", "drop", "rebase") else []
        return [str(self.loader.eb.stack.python.parent / "hpcmod"), verb, *map(str, [*words, *offline])]

    def __call__(self, verb: str, *words: str | Path, **env: str) -> Done:
        environ, line = self.environment(**env), self.argv(verb, *words)
        return call(self.loader.eb.stack.python, HPCMOD, line, environ, self.home) or run(line, environ, self.home)

    def must(self, verb: str, *words: str | Path, **env: str) -> str:
        done = self(verb, *words, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write_code(self) -> Path:
        """Write the source of a package."""
        code = self.home / "mycode"
        code.mkdir()
        for name, text in CODE.items():
            (code / name).write_text(text)
        return code

    def state(self, **env: str) -> dict[str, object]:
        """Return the active state."""
        found: dict[str, object] = json.loads(self.must("packages", "Toy", "--json", **env))["state"]
        return found

    def seen(self, command: str = "singularity exec $SIF python", **env: str) -> str:
        """Load Toy and return the version of einops that a command imports, or an empty string if it is missing."""
        snippet = f'module load {TOY} && {command} -c "{SHOW}"'
        done = self.loader(snippet, **env)
        assert done.returncode == 0 or "No module named 'einops'" in done.stderr, done.stderr
        version, _, path = done.stdout.strip().partition(" ")
        assert path in ("", INSIDE)
        return version


@pytest.fixture
def mine(loader: Loader, tmp_path: Path) -> Mine:
    """A user without packages; wheels: two versions of einops, one that needs it, one that conflicts with the image."""
    wheels = tmp_path / "wheels"
    for version in ("0.8.0", "0.8.1"):
        make_wheel(wheels, "einops", version, scripts={"einops-tool": "einops:main"})
    make_wheel(wheels, "needy", "1.0", requires=["einops>=0.8", "click"])
    make_wheel(wheels, "clash", "1.0", requires=["packaging<20"])
    return Mine(loader, wheels)


two_loaders = pytest.mark.parametrize("loader", ["lmod-lua", "envmodules-tcl"], indirect=True)
only_lmod = pytest.mark.parametrize("loader", ["lmod-lua"], indirect=True)


@two_loaders
def test_packages_are_active_however_the_container_is_started_and_as_the_user_chooses(
    mine: Mine, tmp_path: Path
) -> None:
    """This holds after undo without reloading the module, and ends with unload."""
    mine.must("add", "Toy", "einops<0.8.1")
    commands = ["singularity exec $SIF python"]
    if mine.loader.tool.name == "lmod":  # the scripts are the same for each module tool
        commands += ["python", "singularity exec $SIF conda-python-simple", "start-shell -c 'exec python \"$@\"' x"]
        commands += ["unset SINGULARITY_BINDPATH APPTAINER_BINDPATH; python"]
    for command in commands:
        assert mine.seen(command) == "0.8.0", command
    hpcmod = " ".join(mine.argv("add", "Toy", "einops"))
    undo = " ".join(mine.argv("undo", "Toy"))
    run = f"singularity exec $SIF python -c '{SHOW}'"
    done = mine.loader(
        f"module load {TOY} && {run} && {hpcmod} >&2 && {run} && {undo} >&2 && {run}; "
        "env | grep -c '^SINGULARITY_BINDPATH=.*active-cp311'; module unload Toy; env | grep -c user-software",
        EASYBUILD_PREFIX=str(mine.loader.eb.prefix),
        HPCMOD_SITE="generic",
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["0.8.0", "0.8.1", "0.8.0", "1", "0"], done.stderr
    assert "not writable" not in done.stderr  # a warning of Apptainer in each process
    assert mine.must("exec", "Toy", "python", "-c", SHOW).split()[0] == "0.8.0"
    if mine.loader.tool.name == "lmod":
        check_choices(mine, tmp_path / "project")
    check_off_for_another_image(mine)


def check_choices(mine: Mine, shared: Path) -> None:
    """Choose a set by name, state or directory; the user's set has einops 0.8.0 in state 1, which is active."""
    mine.must("add", "Toy", "einops==0.8.1", "--shared", shared)
    seen = {chosen: mine.seen(HPCMOD_PACKAGES=chosen) for chosen in ("default@1", "default@2", "none", str(shared))}
    assert list(seen.values()) == ["0.8.0", "0.8.1", "", "0.8.1"]
    nowhere = str(shared.with_name("nowhere"))
    commands = cycle(("python -c 1", "singularity exec $SIF true"))
    for chosen, said in (
        ("typo", "you have no set of packages `typo`"),
        ("default@7", "your packages `default` have no state 7 that fits this image"),
        (nowhere, f"you have no set of packages `{nowhere}`"),
        ("..", "you have no set of packages `..`"),
        ("ty\x1bpo", "you have no set of packages `ty?po`"),
        (str(shared.parent), f"you have no set of packages `{shared.parent}`"),
    ):
        done = mine.loader(f"module load {TOY} && {next(commands)}", HPCMOD_PACKAGES=chosen)
        assert (done.returncode, said in " ".join(done.stderr.split())) == (3, True), done.stderr
        done = mine("exec", "Toy", "true", HPCMOD_PACKAGES=chosen)
        assert (done.returncode, said in done.stderr) == (3, True), done.stderr
        assert "HPCMOD_PACKAGES=none" in done.stderr


def check_off_for_another_image(mine: Mine) -> None:
    """Load the module with packages that were made for another image: they are off, and it says so once."""
    link = next(mine.packages.glob("default/active-*"))
    with away(state := link.resolve()):
        for make in (lambda path: None, os.mkfifo, lambda path: path.unlink()):
            done = mine("exec", "Toy", "true")
            assert (done.returncode, f"file of your packages `default` is missing: {link}" in done.stderr) == (3, True)
            loaded = " ".join(mine.loader(f"module load {TOY}").stderr.split())
            assert "file of your packages `default` is missing, so no container will start" in loaded
            make(state)
    done = mine.loader(f"unset HOME; module load {TOY}; singularity exec $SIF true", HPCMOD_PACKAGES="typo")
    said = "you have no set of packages `typo`"  # by the wrapper: without HOME, the module does not know
    assert (done.returncode, " ".join(done.stderr.split()).count(said)) == (3, 1), done.stderr
    link.rename(link.with_name("active-cp311-000000000000.squashfs"))
    done = mine.loader(f"module load {TOY}; singularity exec $SIF python -c 'import einops'")
    assert "No module named 'einops'" in done.stderr
    off = "your packages `default` were made for another image, so they are off; to make them fit: hpcmod rebase Toy"
    assert " ".join(done.stderr.split()).count(off) == 1


@only_lmod
def test_adding_keeps_existing_packages_and_the_images_packages(mine: Mine) -> None:
    mine.must("add", "Toy", "einops==0.8.0")
    assert "einops" not in mine.must("add", "Toy", "needy")  # it needs einops>=0.8; 0.8.1 is available, but 0.8.0 stays
    state = mine.state()
    assert [(one["name"], one["version"]) for one in state["packages"]] == [("einops", "0.8.0"), ("needy", "1.0")]  # type: ignore[attr-defined]
    refused = mine("add", "Toy", "clash")
    assert refused.returncode == 2
    assert f"clash conflicts with packaging {mine.packaging} of the image Toy/2.0" in refused.stderr
    assert "--allow-replace packaging" in refused.stderr
    assert mine.state() == state
    assert f"packaging {mine.packaging} is in the image" in mine("add", "Toy", "packaging").stderr
    hint = mine.loader(f"module load {TOY}; pip install --no-index --no-deps --find-links {mine.wheels} clash").stderr
    assert "cannot be changed; to add to this one: hpcmod add Toy clash" in " ".join(hint.split())
    assert "Read-only file system" in hint and not (mine.home / ".local/lib").exists(), "gone at the next module load"
    assert "hpcmod drop Toy needy" in mine.loader(f"module load {TOY}; pip uninstall -y needy").stderr
    unknown = mine("add", "Toy", "no-such-package")
    assert (unknown.returncode, "no version of no-such-package fits Python 3.11" in unknown.stderr) == (3, True)
    assert mine.must("drop", "Toy", "einops") == ""  # needy still requires it
    assert mine.must("drop", "Toy", "needy").splitlines() == ["einops: removed 0.8.0", "needy: removed 1.0"]
    assert mine.must("drop", "Toy", "needy") == "", "the first may have been killed at its very end"
    assert mine("drop", "Toy", "einops").returncode == 2
    mine.must("update", "Toy", "--site", "lumi")  # whose modules set two variables of binds
    check_packages_in_home(mine)


def check_packages_in_home(mine: Mine) -> None:
    """Install into ~/.local, if it is let in: `edit` packs the package all the same, and pip removes it."""
    keep = {"HPCMOD_KEEP_ENV": "PYTHONNOUSERSITE", "APPTAINERENV_PYTHONUSERBASE": f"{mine.home}/.local"}
    mine.must("add", "Toy", "einops")
    install = f"pip install -q --no-index --find-links {mine.wheels} --no-deps needy"
    done = mine.loader(f"module load {TOY}; {install}; python -c 'import needy; print(needy.__file__)'", **keep)
    assert "below ~/.local" in done.stderr and f"{mine.home}/.local/lib" in done.stdout, done.stderr
    assert "needy: added 1.0" in mine.must("edit", "Toy", "--", *install.split(), **keep)
    mine.must("undo", "Toy")
    remove = "pip uninstall -y einops; pip uninstall -q -y needy && python -c 'import needy'"
    done = mine.loader(f"module load {TOY}; {remove}", **keep)
    assert "hpcmod drop Toy einops" in done.stderr and "No module named 'needy'" in done.stderr, done.stderr


@only_lmod
def test_a_lock_gives_the_same_bytes_in_one_file_and_refuses_other_packages(mine: Mine) -> None:
    mine.must("add", "Toy", "needy", "einops<0.8.1")
    lock = mine.home / "pylock.toml"
    lock.write_text(mine.must("packages", "Toy", "--lock"))
    mine.must("add", "Toy", "--set", "copy", "--lock", lock)
    ours, theirs = (mine.state(HPCMOD_PACKAGES=name) for name in ("default", "copy"))
    for key in ("requirements", "sha256"):
        assert ours[key] == theirs[key]
    assert sum(path.is_file() and not path.is_symlink() for path in (mine.packages / "copy").rglob("*")) == 2
    assert not list(Path("/tmp").glob(f".hpcmod-packages.hpcmod-part*{os.getpid()}*"))
    make_wheel(mine.wheels, "needy", "1.0", requires=["einops", "click"], files={"needy.py": "evil = True\n"})
    changed = mine("add", "Toy", "--set", "copy", "--lock", lock)
    assert (changed.returncode, "does not match its hash" in changed.stderr) == (4, True), changed.stderr
    again = mine("add", "Toy", "einops")
    assert (again.returncode, "serves other files" in again.stderr) == (4, True), again.stderr


@only_lmod
def test_nothing_hostile_reaches_the_host(mine: Mine, tmp_path: Path) -> None:
    outside = tmp_path / "pwned"
    make_wheel(mine.wheels, "dots", "1.0", files={f"../../../../../../../..{outside}": "x", "dots.py": ""})
    make_wheel(mine.wheels, "slash", "1.0", files={str(outside): "x", "slash.py": ""})
    make_source(mine.wheels, "mycode", "1.0", CODE)
    for name in ("dots", "slash"):
        done = mine("add", "Toy", name)
        assert done.returncode in (1, 2, 3), (name, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
    assert not outside.exists()
    mine.must("add", "Toy", "mycode", "--build")
    assert mine.must("exec", "Toy", *BUILT) == "in a container\n"


@only_lmod
def test_two_users_of_one_set_at_once_both_get_their_packages(mine: Mine) -> None:
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda name: mine("add", "Toy", name), ["needy", "einops<0.8.1"]))
    assert [one.returncode for one in done] == [0, 0], [one.stderr for one in done]
    state = mine.state()
    assert state["requirements"] in (["needy", "einops<0.8.1"], ["einops<0.8.1", "needy"])
    assert state["number"] == 2


@only_lmod
def test_packages_are_rebuilt_for_another_image(mine: Mine) -> None:
    """The requirements of a state for another image: one fits, one is in the image, two cannot be installed."""
    mine.must("add", "Toy", "einops==0.8.0")
    make_wheel(mine.wheels, "compiled", "1.0", tag="cp310-cp310-linux_x86_64")
    record = next(mine.packages.glob("default/states/*.json"))
    values = json.loads(record.read_text())
    other, unfit = "cp310-000000000000", ("clash", "compiled")
    values.update(tag=other, requirements=["einops", "packaging", *unfit])
    values.update(python="3.10", image="0" * 64)
    values["locked"] += [{**values["locked"][0], "name": name} for name in (*unfit, "packaging")]
    record.unlink()
    record.with_name(f"1-{other}.json").write_text(json.dumps(values))
    (mine.packages / f"default/states/{record.stem}.squashfs").rename(record.with_name(f"1-{other}.squashfs"))
    next(mine.packages.glob("default/active-*")).unlink()
    (mine.packages / f"default/active-{other}.squashfs").symlink_to(f"states/1-{other}.squashfs")
    refused = mine("rebase", "Toy")
    assert refused.returncode == 1, refused.stderr
    lines = refused.stdout.splitlines()
    assert [line.split(" (")[0] for line in lines] == [
        "clash: conflict 0.8.0",
        "compiled: gone 0.8.0",
        "einops: same 0.8.0",
        f"packaging: in the image 0.8.0 -> {mine.packaging}",
    ]
    assert "no version of compiled fits Python 3." in lines[1]
    assert "hpcmod rebase Toy --without clash --without compiled" in refused.stderr
    assert len(list(mine.packages.glob("default/states/*"))) == 2
    mine.must("rebase", "Toy", *(word for name in unfit for word in ("--without", name)))
    assert mine.seen() == "0.8.0"
    assert (mine.packages / f"default/active-{other}.squashfs").exists()


@only_lmod
def test_packages_of_other_places_are_taken_over(mine: Mine) -> None:
    """Packages that users on LUMI installed manually."""
    by_hand = f"python -m pip install -q --no-index --find-links {mine.wheels} needy einops==0.8.0"
    done = mine.loader(f"module load {TOY} && singularity exec $SIF {by_hand}")
    assert done.returncode == 0, done.stderr
    said = " ".join(mine("add", TOY, "einops", "--dry-run").stderr.split())
    freeze, _, add = said.partition("to take them over: ")[2].partition("; ")
    assert add == f"hpcmod add {TOY} --from frozen.txt"
    done = run(["bash", "-c", freeze.replace("hpcmod", mine.argv("")[0])], mine.environment(), mine.home)
    assert done.returncode == 0, done.stderr
    done = mine("add", TOY, "--from", mine.home / "frozen.txt")
    mine.must("undo", "Toy")
    assert mine.seen() == "0.8.0", "installed by hand, which an empty state would hide"
    mine.must("packages", "Toy", "--use", "1")
    remove = "python -m pip uninstall -q -y needy einops"
    assert mine.loader(f"module load {TOY} && singularity exec $SIF {remove}", HPCMOD_PACKAGES="none").returncode == 0
    assert done.stdout.splitlines() == ["einops: same 0.8.0", "needy: same 1.0"], done.stderr
    assert mine.state()["requirements"] == ["einops", "needy"]
    assert mine.seen() == "0.8.0"


@only_lmod
def test_the_page_on_packages_works_as_written(mine: Mine, tmp_path: Path) -> None:
    """Run the numbered steps in one shell.

    The container is Toy. pip's own variables point to an index with HTTPS and a login.
    """
    make_wheel(mine.wheels, "transformers", "4.57.3")
    mine.write_code()
    steps = blocks("user-packages", "console")[:5]
    lines = [line.strip()[2:] for block in steps for line in block.splitlines()]
    commands = "\n".join(lines).replace("PyTorch", "Toy").replace("/projappl", str(tmp_path / "projappl"))
    with run_index(mine.wheels, make_certificate(tmp_path / "tls"), login=True) as index:
        done = mine.loader(
            f'set -e; cd; hpcmod() {{ {mine.argv("")[0]} "$@"; }}\n{commands}\nhpcmod packages Toy',
            **{name: mine.environment()[name] for name in ("EASYBUILD_PREFIX", "HPCMOD_SITE")},
            PIP_INDEX_URL=index.url_with_login,
            PIP_CERT=str(index.ca),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].split()[0] == "transformers", done.stdout
    assert "/files/einops-0.8.1-py3-none-any.whl" in index.asked
    assert f"{index.files}einops" in mine.must("packages", "Toy", "--set", "default", "--json")
    kept = [path.read_text() for path in (*mine.packages.rglob("*.json"), mine.home / "pylock.toml")]
    assert not [text for text in (*kept, done.stdout, done.stderr) if quote(PASSWORD) in text or PASSWORD in text]

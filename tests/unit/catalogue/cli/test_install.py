from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from hpcmod.catalogue.cli.install import _DRY_RUN
from hpcmod.catalogue.publishing.candidate import Request, choose_candidate
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.modules.values.easyconfig_text import read_named_image
from tests import corpus
from tests.calls import hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.installations import install


class FakeCall:
    """A fake of running a program: records its command line and environment, and returns an exit status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.argv: list[str] = []
        self.env: dict[str, str] = {}
        self.texts: list[str] = []  # of the easyconfigs that are there

    def __call__(self, arguments: Sequence[str], environ: Mapping[str, str], **flags: object) -> int:
        self.texts = [Path(word).read_text() for word in arguments if word.endswith(".eb") and Path(word).is_file()]
        self.argv, self.env = ["eb", *arguments], dict(environ)
        return self.status


@pytest.fixture
def eb(monkeypatch: pytest.MonkeyPatch) -> FakeCall:
    call = FakeCall(0)
    monkeypatch.setattr("hpcmod.modules.shared_prefix.call_eb", call)
    return call


@pytest.mark.parametrize(
    ("flags", "argv"),
    [
        pytest.param([], ["eb", "a.eb"], id="plain"),
        pytest.param(["--dry-run"], ["eb", "a.eb", *_DRY_RUN], id="dry run"),
        pytest.param(["--rebuild"], ["eb", "a.eb", "--rebuild"], id="rebuild"),
        pytest.param(["b.eb"], ["eb", "a.eb", "b.eb"], id="two"),
    ],
)
def test_install_is_one_call_of_eb(eb: FakeCall, flags: list[str], argv: list[str]) -> None:
    assert hpcmod("install", "a.eb", *flags).exit_code == 0
    assert eb.argv == argv


def test_an_easyconfig_in_the_working_directory_is_named_absolutely_and_is_the_users_own(
    eb: FakeCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.eb").touch(mode=0o644)
    (tmp_path / "b.eb").touch()
    (tmp_path.parent / "c").mkdir(exist_ok=True)
    (tmp_path.parent / "c" / "c.eb").touch()
    assert hpcmod("install", "a.eb", "./b.eb", "../c").exit_code == 0
    assert eb.argv == ["eb", f"{tmp_path}/a.eb", f"{tmp_path}/b.eb", f"{tmp_path}/../c"]
    monkeypatch.setattr("hpcmod.catalogue.cli.easyconfigs.os.geteuid", lambda: 4242)
    refused = hpcmod("install", "a.eb")
    assert refused.exit_code == 2
    assert "./a.eb" in refused.stderr
    assert hpcmod("install", "./a.eb").exit_code == 0


@pytest.mark.parametrize("path", ["./a.eb", "sub/a.eb", "/nowhere/a.eb"])
def test_a_path_with_no_file_is_not_found_before_eb_starts(eb: FakeCall, path: str) -> None:
    result = hpcmod("install", path)
    assert result.exit_code == 3
    assert f"{path}: no such file" in result.stderr
    assert not eb.argv


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(os.mkfifo, id="a FIFO"),
        pytest.param(lambda path: path.symlink_to("/dev/zero"), id="a device"),
        pytest.param(lambda path: path.write_bytes(bytes(2 << 20)), id="a large file"),
        pytest.param(lambda path: path.write_bytes(b"name = '\xe9'"), id="other text than UTF-8"),
    ],
)
def test_eb_reads_only_easyconfigs(eb: FakeCall, tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "x.eb")
    assert hpcmod("install", str(tmp_path / "x.eb")).exit_code == 2
    assert not eb.argv


@pytest.mark.parametrize("status", [0, 1, 6])
def test_install_ends_with_the_status_of_eb(eb: FakeCall, status: int) -> None:
    eb.status = status
    assert hpcmod("install", "a.eb").exit_code == status


def test_install_runs_eb_with_our_python_and_our_easyblocks(eb: FakeCall) -> None:
    hpcmod("install", "a.eb", HOME="/home/u")
    assert eb.env["EB_PYTHON"] == sys.executable
    assert "EASYBUILD_INCLUDE_EASYBLOCKS" not in eb.env, "EasyBuild's framework alone fails on it"
    assert eb.env["HOME"] == "/home/u"
    assert "HPCMOD_SITE" not in eb.env
    hpcmod("install", "a.eb", "--site", "lumi", HPCMOD_SITE="generic")
    assert eb.env["HPCMOD_SITE"] == "lumi"


def test_eb_does_not_take_a_published_module_for_the_copy_of_an_easyconfig(eb: FakeCall, tmp_path: Path) -> None:
    catalogue = make_catalogue(tmp_path / "catalogue", make_record("Toy/1.0", state="retired"))
    (tmp_path / "link").symlink_to(catalogue.modules)
    paths = f"{catalogue.modules}:{tmp_path}/link:{tmp_path}/own"
    hpcmod("install", "a.eb", HPCMOD_CATALOGUE=str(catalogue.directory), MODULEPATH=paths)
    assert eb.env["MODULEPATH"].split(":")[-1] == f"{tmp_path}/own"
    assert not {str(catalogue.modules), f"{tmp_path}/link"} & set(eb.env["MODULEPATH"].split(":"))


@pytest.mark.parametrize(("own", "used"), [({}, "0"), ({"PYTHONOPTIMIZE": ""}, "0"), ({"PYTHONOPTIMIZE": "2"}, "2")])
def test_install_runs_eb_without_optimizing_unless_the_user_does(eb: FakeCall, own: dict[str, str], used: str) -> None:
    hpcmod("install", "a.eb", **own)
    assert eb.env["PYTHONOPTIMIZE"] == used


def test_install_says_how_to_load_what_eb_made_of_an_easyconfig(
    eb: FakeCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(*words: object, **options: object) -> int:
        install(tmp_path / "own", "Toy/2.0")
        return 0

    install(tmp_path / "own", "Toy/1.0")
    monkeypatch.setattr("hpcmod.modules.shared_prefix.call_eb", make)
    done = hpcmod("install", "a.eb", "--prefix", tmp_path / "own", MODULEPATH="")
    assert done.stdout == f"module use {tmp_path}/own/modules/all; module load Toy/2.0\n", done.output


def test_install_as_json(eb: FakeCall, tmp_path: Path) -> None:
    done = hpcmod("install", "a.eb", "--json")
    assert json.loads(done.stdout) == {
        "version": 1, "status": 0, "dry_run": False, "easyconfigs": ["a.eb"], "containers": []
    }  # fmt: skip
    eb.status = 4
    failed = hpcmod("install", "a.eb", "--json")
    assert (failed.exit_code, json.loads(failed.stdout)["status"]) == (4, 4)


@pytest.fixture
def sif(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return corpus.make_image(tmp_path / "Tool-1.0.sif", corpus.CONDA_TREE)


def test_an_image_is_installed_from_an_easyconfig_beside_its_copy(eb: FakeCall, sif: Path, tmp_path: Path) -> None:
    done = hpcmod("install", str(sif), "--json")
    assert done.exit_code == 0, done.stderr
    directory = tmp_path / "home/.local/easybuild/sources/t/Tool"
    easyconfig = directory / "Tool-1.0.eb"
    assert (directory / "Tool-1.0.sif").read_bytes() == sif.read_bytes()
    assert eb.argv[:2] == ["eb", str(easyconfig)]
    assert str(directory) in eb.env["EASYBUILD_ROBOT_PATHS"].split(":")
    assert json.loads(done.stdout)["easyconfigs"] == [str(easyconfig)]
    named = read_named_image(easyconfig.read_text(), "it")
    assert (named.reference, named.checksum) == ("Tool-1.0.sif", file_sha256(sif))
    assert choose_candidate(Request(str(easyconfig))).module == "Tool/1.0"
    easyconfig.write_text(easyconfig.read_text() + "wrapped_commands = ['tool']\n")
    assert hpcmod("install", str(sif)).exit_code == 0
    assert "wrapped_commands" in easyconfig.read_text(), "the user's changes are kept"


def test_an_easyconfig_that_others_may_write_is_not_run(eb: FakeCall, sif: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "project"
    planted = prefix / "sources/t/Tool/Tool-1.0.eb"
    planted.parent.mkdir(parents=True)
    prefix.chmod(0o2775)
    planted.write_text(f"checksums = ['{file_sha256(sif)}']\nsources = ['Tool-1.0.sif']\nimport os\n")
    assert hpcmod("install", str(sif), "--prefix", str(prefix)).exit_code == 0
    assert ["import os" in text for text in eb.texts] == [False]


def test_another_image_does_not_take_the_name_of_one_that_is_there(eb: FakeCall, sif: Path) -> None:
    assert hpcmod("install", str(sif)).exit_code == 0
    before = file_sha256(sif)
    other = corpus.make_image(sif.with_name("other.sif"), {**corpus.CONDA_TREE, "etc/motd": "other"})
    refused = hpcmod("install", str(other), "--name", "Tool", "--version", "1.0")
    assert refused.exit_code == 2
    assert f"Tool-1.0.sif is {before}, not {file_sha256(other)}" in refused.stderr
    assert f"Give {other} another --version" in refused.stderr
    assert hpcmod("install", "--rebuild", str(other), "--name", "Tool", "--version", "1.0").exit_code == 0
    assert file_sha256(other) in Path(eb.argv[1]).read_text()


def test_a_dry_run_of_an_image_leaves_nothing(eb: FakeCall, sif: Path, tmp_path: Path) -> None:
    done = hpcmod("install", "--dry-run", str(sif))
    assert "--extended-dry-run" in eb.argv
    assert f"fetch: {sif} -> " in done.stdout
    assert "sources = ['Tool-1.0.sif']" in done.stdout
    assert done.stderr.splitlines()[-1] == "hpcmod: this was a dry run: nothing was installed"
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nosuch.sif",), "nosuch.sif: no such file"),
        (("./",), "./: no easyconfig in this directory"),
        (("ubuntu:24.04",), "docker://docker.io/library/ubuntu:24.04"),
        (("docker://ubuntu:24.04",), "docker://docker.io/library/ubuntu:24.04"),
        (("a.sif", "b.sif", "--name", "X"), "--name and --version name the module of one image"),
        (("PyTorch", "--version", "1"), "--name and --version name the module of one image"),
        (("./image.def",), "hpcmod build ./image.def"),
    ],
)
def test_what_is_not_an_image_is_named_in_the_words_of_the_user(
    eb: FakeCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "image.def").touch()
    done = hpcmod("install", *words, HPCMOD_SITE="generic")
    assert done.exit_code in (2, 3)
    assert said in done.stderr
    assert not eb.argv

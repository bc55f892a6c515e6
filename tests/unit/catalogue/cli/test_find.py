from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hpcmod.catalogue.cli.containers import complete_container
from hpcmod.catalogue.records.index import write_index
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.record import Check
from hpcmod.core.cli.output import format_size
from hpcmod.core.values.facts import Package
from tests.calls import hpcmod, must
from tests.catalogues import make_catalogue, make_record, put
from tests.corpus import CONDA_TREE, Program, make_image
from tests.installations import install

pytestmark = pytest.mark.slow

HOSTILE = "\x1b]0;mine\x07 <b>$(id)"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """A catalogue with one container each that is deprecated, retired, for another machine, or hostile."""
    catalogue = make_catalogue(
        tmp_path / "site",
        make_record("PyTorch/2.7.1", aliases=("stable",), checks=(Check("true", True, "2026-11-01T00:00:00Z", "x"),)),
        make_record("PyTorch/2.6.0", state="deprecated", until="2027-01-01", successor="PyTorch/2.7.1"),
        make_record("PyTorch/2.5.0", state="retired"),
        make_record("Elsewhere/1", site="another-machine"),
        make_record(
            "hostile/1", description=HOSTILE, labels=((HOSTILE, HOSTILE),), packages=(Package("evil" + HOSTILE, "1"),)
        ),
    )
    write_index(catalogue)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HPCMOD_SITE", "generic")
    monkeypatch.setenv("HPCMOD_CATALOGUE", str(catalogue.directory))
    return catalogue


def lines(*words: str) -> list[str]:
    result = hpcmod(*words)
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_ls_shows_containers_that_are_useful_here(site: Catalogue) -> None:
    assert lines("ls") == [
        "hostile/1 available 21.0 MB any",
        "PyTorch/2.6.0 deprecated 21.0 MB any until 2027-01-01; use PyTorch/2.7.1",
        "PyTorch/2.7.1 available 21.0 MB any stable",
    ]
    assert [line.split()[:2] for line in lines("ls", "--all")][:1] == [["Elsewhere/1", "elsewhere"]]
    assert len(lines("ls", "--all")) == 5
    assert lines("ls", "pytorch/2.7") == ["PyTorch/2.7.1 available 21.0 MB any stable"]
    assert lines("ls", "--ready") == []
    for words in (("ls", "2.5"), ("ls", "elsewhere"), ("ls", "--ready", "2.7")):
        done = hpcmod(*words)
        assert (done.exit_code, "is " in done.stderr, "Did you mean" in done.stderr) == (3, True, False)
        assert f"hpcmod ls --all {words[-1]}" in done.stderr and lines("ls", "--all", words[-1])
    answer = json.loads(hpcmod("ls", "--json").stdout)
    assert {one["module"]: one["aliases"] for one in answer["containers"]}["PyTorch/2.7.1"] == ["stable"]


def test_the_users_own_copy_of_a_retired_container_is_listed_as_usable(site: Catalogue, tmp_path: Path) -> None:
    torch = hpcmod("search", "pytorch/2.5")
    assert (torch.exit_code, "only retired containers have pytorch/2.5: PyTorch/2.5.0" in torch.stderr) == (3, True)
    install(tmp_path / "home/.local/easybuild", "PyTorch/2.5.0")
    for words in ((), ("--ready",), ("2.5",)):
        assert "PyTorch/2.5.0 retired 21.0 MB any yours" in lines("ls", *words)
    assert any(line.startswith("PyTorch/2.5.0 retired torch ") for line in lines("search", "torch"))
    install(site.directory, "PyTorch/2.5.0")
    listed = must("ls", "2.5", MODULEPATH=str(site.modules))
    assert listed.split(maxsplit=5)[-1] == "yours, to use it: hpcmod info\n"
    assert "Available: PyTorch/2.5.0, PyTorch/2.6.0, PyTorch/2.7.1" in hpcmod("info", "PyTorch/2.7.1.2").stderr


def test_all_lists_the_images_of_the_site(site: Catalogue, tmp_path: Path) -> None:
    images = tmp_path / "images"
    (images / "old").mkdir(parents=True)
    for name in ("nvidiaPytorch24.07", "tool 1"):
        (images / name).touch()
    (tmp_path / "site.toml").write_text(f'name = "x"\nimages.central = ["{tmp_path}/images", "/nowhere"]\n')
    shown = lines("ls", "--all", "--site", tmp_path / "site.toml")
    assert shown[-2:] == [
        f"{images}/nvidiaPytorch24.07 an image of the site: hpcmod install {images}/nvidiaPytorch24.07",
        f"{images}/tool 1 an image of the site: hpcmod install '{images}/tool 1'",
    ]


def test_a_damaged_record_is_reported_and_hides_no_other(site: Catalogue) -> None:
    (site.records_directory / "PyTorch/2.6.0.json").write_text("{")
    put(site, make_record("PyTorch/2.8"))
    result = hpcmod("ls", "PyTorch")
    assert "PyTorch/2.8" in result.stdout and "PyTorch/2.7.1" in result.stdout
    assert "2.6.0.json" in result.stderr


def test_search_says_which_packages_fit(site: Catalogue) -> None:
    assert lines("search", "torchvision") == [
        "Elsewhere/1 torchvision 0.22.1",
        "PyTorch/2.6.0 deprecated torchvision 0.22.1",
        "PyTorch/2.7.1 torchvision 0.22.1",
    ]
    assert hpcmod("search", "nothing-like-this").exit_code == 3
    other = hpcmod("search", "torchvision==9")
    assert (other.exit_code, "no container has torchvision 9\nThere is torchvision " in other.stderr) == (3, True)
    found = json.loads(hpcmod("search", "torch==2.7", "--json").stdout)["found"]
    assert {"name": "torch", "version": "2.7.1+rocm6.2.4"} in found[0]["packages"]
    put(site, make_record("torch-tools/1", packages=(Package("torch", "2.7.1"),)))
    assert "torch-tools/1 torch 2.7.1" in lines("search", "torch")


def test_info_says_all(site: Catalogue) -> None:
    said = lines("info", "PyTorch")
    assert "module: PyTorch/2.7.1" in said
    assert "check: passed 2026-11-01T00:00:00Z: true" in said
    assert "to use it: hpcmod install PyTorch/2.7.1" in said
    assert "package: torch 2.7.1+rocm6.2.4" in said
    answer = json.loads(hpcmod("info", "PyTorch/2.6", "--json").stdout)
    assert (answer["container"]["state"], answer["root"]) == ("deprecated", None)


@pytest.mark.parametrize("verb", ["ls", "info"])
def test_a_name_that_no_container_has_is_answered_with_the_nearest(verb: str, site: Catalogue) -> None:
    result = hpcmod(verb, "PyTorsh")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "Did you mean PyTorch?" in result.stderr


def test_search_and_info_tell_what_an_image_is_built_for(site: Catalogue) -> None:
    put(site, make_record("Gpu/1", targets=("gfx90a", "zen3")))
    assert [line.split()[0] for line in lines("search", "gfx90a")] == ["Gpu/1"]
    assert json.loads(hpcmod("search", "zen3", "--json").stdout)["found"][0]["targets"] == ["gfx90a", "zen3"]
    assert "built for: gfx90a zen3" in lines("info", "Gpu/1")
    assert json.loads(hpcmod("info", "Gpu/1", "--json").stdout)["container"]["targets"] == ["gfx90a", "zen3"]


def test_search_and_info_tell_those_outside_its_group_no_more_of_a_container_than_ls(site: Catalogue) -> None:
    put(site, make_record("Solver/1", readers="chemists", packages=(Package("secret", "1"),), targets=("sm_90",)))
    image = site.images / "Solver-1.sif"
    image.parent.mkdir()
    image.touch()
    assert "Solver/1 secret 1" in lines("search", "secret")
    image.chmod(0)
    assert lines("search", "solver") == ["Solver/1"]
    assert [hpcmod("search", text).exit_code for text in ("secret", "sm_90")] == [3, 3]
    ask = "Solver/1 is restricted to the group chemists; to get access, ask your site's support"
    said = lines("info", "Solver")
    assert f"to use it: {ask}" in said
    assert not [line for line in said if "secret" in line or "sm_90" in line]
    assert json.loads(hpcmod("info", "Solver", "--json").stdout)["container"]["packages"] == []
    compared = hpcmod("info", "PyTorch", "--diff", "Solver")
    assert (compared.exit_code, compared.stdout, ask in " ".join(compared.stderr.split())) == (7, "", True)


def test_diff_is_a_line_a_difference(site: Catalogue) -> None:
    put(site, make_record("PyTorch/2.8", packages=(Package("torch", "2.8"),), size=1))
    said = lines("info", "PyTorch/2.7.1", "--diff", "PyTorch/2.8")
    assert "package torch 2.7.1+rocm6.2.4 -> 2.8" in said
    assert "package numpy 2.1.0 -> -" in said
    assert "image size 21000000 -> 1" in said
    kinds = {
        one["kind"]
        for one in json.loads(hpcmod("info", "PyTorch/2.7.1", "--diff", "PyTorch/2.8", "--json").stdout)["changes"]
    }
    assert kinds == {"image", "package"}


@pytest.fixture
def installed(site: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install Mine/1 and Mine/2, which are in no catalogue and have different versions of torch."""
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modules/all"))
    for version, torch in (("1", "2.7.1"), ("2", "2.8.0")):
        install(tmp_path, f"Mine/{version}")
        root = tmp_path / "software/Mine" / version
        tree = {
            name: str(node).replace("2.7.1", torch) if "torch" in name else node for name, node in CONDA_TREE.items()
        }
        make_image(root / "x.sif", tree)
        record = json.loads((root / "record.json").read_text())
        packages = [{"name": "torch", "version": torch}]
        (root / "record.json").write_text(json.dumps({**record, "packages": packages}))


def test_unpublished_installations_are_searched_and_compared_too(installed: None) -> None:
    for other in ("Mine/1", "PyTorch/2.7.1"):
        assert "package torch 2.7.1+rocm6.2.4 -> 2.8.0+rocm6.2.4" in lines("info", other, "--diff", "Mine/2")
    assert lines("search", "torch==2.8") == ["Mine/2 torch 2.8.0"]
    assert lines("search", "mine/1") == ["Mine/1"]
    assert lines("search", "torch")[-1] == "Mine/2 torch 2.8.0"


def test_packages_that_the_user_added_count(installed: None, tmp_path: Path) -> None:
    assert lines("info", "Mine/1", "--diff", "Mine/1") == []
    packages = tmp_path / "software/Mine/2/user-software/venv/mine/lib/python3.12/site-packages"
    (packages / "einops-0.8.1.dist-info").mkdir(parents=True)
    (packages / "einops-0.8.1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: einops\nVersion: 0.8.1\n")
    assert "package einops - -> 0.8.1" in lines("info", "Mine/1", "--diff", "Mine/2")
    assert "your package: einops 0.8.1" in lines("info", "Mine/2")
    assert "commands: python" in lines("info", "Mine/2")
    added = json.loads(hpcmod("info", "Mine/2", "--json").stdout)["user_packages"]
    assert added == [{"name": "einops", "version": "0.8.1"}]


def test_an_incomplete_record_is_reported_with_a_cure(installed: None, tmp_path: Path) -> None:
    (tmp_path / "software/Mine/2/record.json").write_text("{")
    result = hpcmod("info", "Mine/1", "--diff", "Mine/2")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "names no image" in result.stderr and "eb Mine-2.eb --rebuild" in result.stderr


@pytest.mark.parametrize("verb", ["info", "info Mine --diff", "exec"])
def test_offers_the_name_of_the_installed_container(verb: str, installed: None) -> None:
    result = hpcmod(*verb.split(), "Mime", *(["true"] if verb == "exec" else []))
    assert result.exit_code == 3
    assert "Did you mean Mine? See: hpcmod ls. If you installed it with --prefix DIR: module use " in result.stderr


def test_without_a_catalogue_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch, site: Catalogue) -> None:
    monkeypatch.delenv("HPCMOD_CATALOGUE")
    result = hpcmod("ls")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "catalogue" in result.stderr


def test_an_unavailable_catalogue_is_reported_and_hides_no_other(
    site: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HPCMOD_CATALOGUE", f"/nowhere/at/all:{site.directory}")
    result = hpcmod("ls", "PyTorch/2.7")
    assert (result.exit_code, result.stdout.split()[0]) == (0, "PyTorch/2.7.1")
    assert "/nowhere/at/all" in result.stderr and "its containers are not listed" in result.stderr
    assert "catalogue init" not in result.stderr  # which is advice for admins


MOST = {"ls": 84, "ls --json": 84, "search torch": 84, "info PyTorch/2.7.1": 90, "info PyTorch --diff PyTorch": 90}
"""Most files that each command line may import beyond those of click, not counting packages, to start quickly.

Of these, one of each room says what the room offers.
"""


_LIST_MODULES = """
import atexit, sys
def is_package(name, module):
    return name.startswith("hpcmod.") and hasattr(module, "__path__")
def show():
    from_files = sys.modules.keys() - set(sys.builtin_module_names)
    print(*(name for name in from_files if not is_package(name, sys.modules[name])), file=sys.stderr)
atexit.register(show)
"""


def modules_of(program: str) -> set[str]:
    """Run a program; return the modules it imports from files, without the packages of hpcmod, which hold no code."""
    done = subprocess.run([sys.executable, "-c", _LIST_MODULES + program], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_finding_imports_little_and_nothing_heavy(site: Catalogue) -> None:
    of_click = modules_of("import click")
    heavy = {"requests", "jinja2", "easybuild", "cryptography", "zstandard", "isal", "hpcmod.images.inspect.contents"}
    for line, most in MOST.items():
        imported = modules_of(f"from hpcmod.core.cli.main import main; main({line.split()})")
        assert (heavy & imported, len(imported - of_click) <= most) == (set(), True), line


@pytest.mark.parametrize(("given", "names"), [((), ["Elsewhere/1"]), (("--nv",), ["Elsewhere/1"]), (("Tool",), [])])
def test_one_name_is_completed(site: Catalogue, given: tuple[str, ...], names: list[str]) -> None:
    context, parameter = click.Context(click.Command("exec")), click.Argument(["words"])
    context.params = {"words": given}
    assert [str(item.value) for item in complete_container(context, parameter, "Els")] == names


def test_info_shows_what_an_image_contains(tmp_path: Path) -> None:
    image = make_image(tmp_path / "a.sif")
    shown = [line for line in hpcmod("info", str(image)).stdout.splitlines() if not line.startswith("label")]
    assert shown[:4] == [
        f"image: {image}",
        "architecture: amd64",
        f"size: {format_size(image.stat().st_size)}, {image.stat().st_size} bytes",
        "python: 3.12 /opt/miniconda3/envs/pytorch/bin/python3.12",
    ]
    assert shown[4:] == ["package: old-style 0.3", "package: PyYAML 6.0.2", "package: torch 2.7.1+rocm6.2.4"]
    bare = make_image(tmp_path / "b.sif", {"/bin/sh": Program()})
    assert "python: none found" in hpcmod("info", str(bare)).stdout.splitlines()

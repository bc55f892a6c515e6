"""The parts of `hpcmod build` that need no engine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hpcmod.building.cli.build import build as verb
from hpcmod.building.cli.build import complete_recipe
from tests.calls import hpcmod

pytestmark = pytest.mark.usefixtures("image_places")


def test_the_recipes_are_listed_with_what_they_make() -> None:
    lines = hpcmod("build", "--list").stdout.splitlines()
    assert any(line.startswith("pytorch-cpu: PyTorch for CPUs") for line in lines)
    listed = json.loads(hpcmod("build", "--list", "--json").stdout)
    assert listed["version"] == 1
    assert [one["name"] for one in listed["recipes"]] == [line.partition(":")[0] for line in lines]


@pytest.mark.parametrize("what", ["dockerfile", "definition"])
def test_printing_builds_and_writes_nothing(what: str, tmp_path: Path) -> None:
    done = hpcmod("build", "pytorch-ngc-ofi", "--arch", "arm64", "--print", what)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("# pytorch-ngc-ofi for arm64")
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_is_the_plan_and_json_has_all_of_it_but_the_scripts() -> None:
    asked = ("pytorch-cpu", "--set", "index=https://127.0.0.1:1/simple")
    assert hpcmod("build", *asked, "--dry-run").stdout.startswith("recipe: ")
    plan = json.loads(hpcmod("build", *asked, "--dry-run", "--json", "--mpi", "mpich").stdout)
    assert (plan["version"], plan["recipe"], dict(plan["options"])["mpi"]) == (1, "pytorch-cpu", "mpich")
    assert [step["component"] for step in plan["steps"]][-1] == "finish"
    assert "script" not in plan["steps"][0]


def test_an_image_with_a_compression_of_your_own_is_another_one() -> None:
    asked = ("build", "pytorch-cpu", "--set", "index=https://127.0.0.1:1/simple", "--dry-run", "--json")
    plain, packed = (json.loads(hpcmod(*asked, *more).stdout) for more in ((), ("--compression", "gzip:9")))
    assert packed["fingerprint"] not in ("", plain["fingerprint"])
    assert dict(packed["labels"])["org.hpcmod.fingerprint"] == packed["fingerprint"]
    assert dict(packed["options"])["compression"] == "gzip:9"


def test_extras_may_be_named_with_commas_and_one_by_one() -> None:
    one = hpcmod("build", "pytorch-ngc-ofi", "--with", "nccl,nccl-tests", "--dry-run", "--arch", "amd64").stdout
    two = hpcmod(
        "build", "pytorch-ngc-ofi", "--with", "nccl-tests", "--with", "nccl", "--dry-run", "--arch", "amd64"
    ).stdout
    assert one == two
    assert ": nccl NCCL_VERSION=" in one


def commands_of_the_pages() -> list[str]:
    """Return every `hpcmod build` of a shipped recipe that a page shows; not of a user's own recipe or file."""
    pages = (Path(__file__).resolve().parents[4] / "docs").rglob("*.md")
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    shown = {found for line in lines for found in re.findall(r"hpcmod build (?!recipes/|\S+\.def)[a-z][^`|]*", line)}
    return sorted(line.removeprefix("hpcmod build ") for line in shown)


@pytest.mark.parametrize("line", commands_of_the_pages())
def test_every_command_that_a_page_shows_can_be_planned(line: str) -> None:
    line = re.sub(r"--wheel-dir \S+", "--set index=URL", line)
    words = re.sub(r"--(host-libs|offline-sources|print) \S+", "", line).split()
    done = hpcmod("build", *words, "--dry-run", *(() if "--arch" in words else ("--arch", "amd64")))
    assert done.exit_code == 0, done.output


def test_a_recipe_of_the_user_is_planned_with_its_scripts_and_files(tmp_path: Path) -> None:
    (tmp_path / "app" / "components").mkdir(parents=True)
    (tmp_path / "app" / "components" / "mine.sh").write_text("true\n")
    (tmp_path / "app" / "data").write_text("x")
    recipe = tmp_path / "app" / "recipe.toml"
    recipe.write_text(
        "summary = 'x'\n[base]\namd64 = 'docker://docker.io/library/debian:12'\n[choices]\nmpi = ['none']\n"
        "ofi = ['none']\n[files]\n'1/data' = 'data'\n[[steps]]\ncomponent = 'mine'\n"
    )
    plan = json.loads(hpcmod("build", str(recipe.parent), "--dry-run", "--json", "--arch", "amd64").stdout)
    assert (plan["recipe"], plan["steps"][0]["component"]) == ("app", "mine")
    assert plan["inputs"] == [[str(tmp_path / "app" / "data"), "hpcmod/files/1/data"]]
    (tmp_path / "app" / "data").write_text("y")
    again = json.loads(hpcmod("build", str(recipe.parent), "--dry-run", "--json", "--arch", "amd64").stdout)
    assert again["fingerprint"] != plan["fingerprint"]
    (tmp_path / "app" / "data").unlink()
    assert hpcmod("build", str(recipe.parent), "--dry-run").exit_code == 3
    assert hpcmod("build", f"{tmp_path}/none", "--dry-run").exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("pytorch-npu",), 2, "unknown recipe 'pytorch-npu', did you mean pytorch-cpu?"),
        ((), 2, "no recipe given"),
        (("pytorch-cpu", "--set", "torch"), 2, "--set torch: expected KEY=VALUE"),
        (("pytorch-cpu", "--set", "touch=2"), 2, "has no setting 'touch', did you mean torch?"),
        (("pytorch-cpu", "--dry-run"), 2, "recipe pytorch-cpu needs the setting index, which has no default"),
        (("pytorch-cpu", "--with", "horovod"), 2, "has no --with horovod"),
        (("pytorch-cpu", "--ofi", "builtin"), 2, "has no --ofi builtin"),
        (("pytorch-ngc-ofi", "--offline-sources", "/nowhere"), 3, "--offline-sources /nowhere: no such"),
        (("pytorch-cpu", "--wheel-dir", "/nowhere"), 3, "--wheel-dir /nowhere: missing or empty directory"),
        (("pytorch-ngc-ofi", "--print", "definition", "--json"), 2, "--print definition prints plain text, not JSON"),
        ((".", "--mpi", "mpich"), 2, "not a recipe, so the options that choose parts of one do not apply"),
        (("/nowhere",), 3, "/nowhere/recipe.toml: no such recipe"),
        (("/nowhere", "-f", "x"), 3, "/nowhere: no such directory"),
        (("/nowhere.def",), 3, "/nowhere.def: no such definition file"),
        (("x.def", "--print", "definition"), 3, "x.def: no such definition file"),
        (("pytorch-rocm-ofi", "--arch", "arm64", "--dry-run"), 2, "has no base for arm64"),
    ],
)
def test_bad_input_is_reported_with_its_cure_and_leaves_nothing(
    arguments: tuple[str, ...], code: int, told: str, tmp_path: Path
) -> None:
    done = hpcmod("build", *arguments)
    assert done.exit_code == code, done.output
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) >= 2
    assert done.stdout == "" or told in json.loads(done.stdout)["error"]["message"]
    assert list(tmp_path.iterdir()) == []


def test_sources_that_are_missing_are_listed_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    done = hpcmod("build", "pytorch-rocm-ofi", "--offline", "--offline-sources", str(tmp_path))
    assert done.exit_code == 3
    assert "6 of 6 sources are missing" in done.stderr
    assert "mpich-4.3.2.tar.gz  from https://" in done.stderr


@pytest.mark.parametrize(
    ("engine", "code", "told"),
    [
        (("--engine", "bulidah"), 2, "unknown engine 'bulidah'"),
        (("--engine", "podman"), 7, "podman: podman not found on PATH"),
        ((), 7, "no build engine works in "),
    ],
)
def test_reports_that_no_engine_works_before_downloading_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: tuple[str, ...], code: int, told: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", "/nowhere")
    done = hpcmod("build", "pytorch-rocm-ofi", "-o", str(tmp_path / "x.sif"), *engine)
    assert (done.exit_code, told in done.stderr) == (code, True), done.stderr
    assert "downloading" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_image_for_another_machine_is_planned_but_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert hpcmod("build", "pytorch-ngc-ofi", "--arch", "arm64", "--dry-run").exit_code == 0
    done = hpcmod("build", "pytorch-ngc-ofi", "--arch", "arm64")
    assert done.exit_code == 7
    assert "this machine is amd64, and cannot build for arm64" in done.stderr


def test_recipes_are_completed_with_what_they_make() -> None:
    context = verb.make_context("build", ["--list"])
    found = complete_recipe(context, verb.params[0], "tensorflow-")
    assert {item.value for item in found} == {"tensorflow-ngc-ofi", "tensorflow-rocm-ofi"}
    assert all(item.help for item in found)

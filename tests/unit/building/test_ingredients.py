"""Sources of a build: local, missing, checksums, first use, and Dockerfiles of users."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.building.ingredients import (
    SourceStore,
    default_lock,
    find_recipe,
    gather,
    plan_own,
    plan_recipe,
    record_first_use,
)
from hpcmod.building.values.build_plan import BuildPlan
from hpcmod.building.values.building import BuildRequest
from hpcmod.building.values.pins import Pin, parse_lock
from hpcmod.core.errors import BadInputError, NotFoundError, VerificationError

RECIPE = "pytorch-rocm-wheels"
SOURCES = {
    "libfabric-1.19.1.tar.bz2": "libfabric",
    "mpich-4.3.2.tar.gz": "mpich",
    "aws-ofi-nccl-1.20.0.tar.gz": "aws-ofi-nccl",
}
AMD64 = BuildRequest("amd64")
REQUEST = BuildRequest("amd64", settings={"index": "https://127.0.0.1:1/simple"})


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> SourceStore:
    """A directory with all sources of RECIPE, and a lock file of the user that lists two of the three."""
    sources = tmp_path / "sources"
    sources.mkdir()
    for file, name in SOURCES.items():
        (sources / file).write_text(name)
    lock = tmp_path / "state" / "recipes.lock"
    lock.parent.mkdir()
    lines = [f"source libfabric 1.19.1 {digest('libfabric')} x\n", f"source mpich 4.3.2 {digest('mpich')} x\n"]
    lock.write_text("".join(lines))
    return SourceStore(lock=lock, downloads=tmp_path / "cache", offline_sources=sources, offline=True, tell=said.append)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_sources_come_from_the_offline_directory_under_the_names_of_the_build_context(store: SourceStore) -> None:
    made = gather(RECIPE, REQUEST, store=store)
    assert {inside: Path(path).name for path, inside in made.inputs} == {
        f"hpcmod/sources/{name}": name for name in SOURCES
    }
    assert all(source.sha256 for source in made.sources)


def test_a_source_is_found_by_the_name_that_it_has_upstream_too(store: SourceStore, tmp_path: Path) -> None:
    (tmp_path / "sources" / "aws-ofi-nccl-1.20.0.tar.gz").rename(tmp_path / "sources" / "v1.20.0.tar.gz")
    made = gather(RECIPE, REQUEST, store=store)
    assert any(
        path.endswith("/v1.20.0.tar.gz") and inside.endswith("/aws-ofi-nccl-1.20.0.tar.gz")
        for path, inside in made.inputs
    )


def test_first_uses_are_reported_and_pinned_before_the_build(store: SourceStore, said: list[str]) -> None:
    made = gather(RECIPE, REQUEST, store=store)
    (line,) = said
    assert line.startswith(f"first use of aws-ofi-nccl 1.20.0: sha256 {digest('aws-ofi-nccl')}, noted in {store.lock}")
    assert (
        str(next(pin for pin in parse_lock(store.lock.read_text(), "") if pin.name == "aws-ofi-nccl"))
        in made.shared.lock
    )
    said.clear()
    again = gather(RECIPE, REQUEST, store=store)
    assert said == []
    assert again.fingerprint == made.fingerprint


def test_missing_sources_are_all_listed_with_their_addresses(store: SourceStore, tmp_path: Path) -> None:
    for name in ("mpich-4.3.2.tar.gz", "libfabric-1.19.1.tar.bz2"):
        (tmp_path / "sources" / name).unlink()
    with pytest.raises(NotFoundError) as caught:
        gather(RECIPE, REQUEST, store=store)
    assert "2 of 3 sources are missing" in caught.value.message
    assert "mpich-4.3.2.tar.gz  from https://www.mpich.org/" in caught.value.message
    assert "libfabric-1.19.1.tar.bz2  from https://github.com/" in caught.value.message
    assert "--offline-sources" in caught.value.cure


def test_a_wrong_checksum_stops_before_anything_is_built(store: SourceStore, tmp_path: Path) -> None:
    (tmp_path / "sources" / "mpich-4.3.2.tar.gz").write_text("something else")
    with pytest.raises(VerificationError) as caught:
        gather(RECIPE, REQUEST, store=store)
    assert digest("mpich") in caught.value.message
    assert digest("something else") in caught.value.message
    assert "aws-ofi-nccl" not in store.lock.read_text()


def test_a_plan_alone_downloads_and_records_nothing(tmp_path: Path, said: list[str]) -> None:
    store = SourceStore(lock=tmp_path / "lock", downloads=tmp_path / "cache", tell=said.append)
    made = plan_recipe(RECIPE, REQUEST, store=store)
    assert made.inputs == ()
    assert list(tmp_path.iterdir()) == []
    assert said == []


def test_a_lock_that_others_wrote_into_meanwhile_keeps_their_lines(store: SourceStore) -> None:
    before = store.lock.read_text()
    record_first_use([Pin("wheel", "torch", "2", "a" * 64, "torch.whl")], store=store)
    assert store.lock.read_text() == before + f"wheel torch 2 {'a' * 64} torch.whl\n"


@pytest.mark.parametrize("option", ["wheels", "host_libs"])
def test_a_missing_or_empty_directory_is_reported(store: SourceStore, tmp_path: Path, option: str) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("none", "empty"):
        request = replace(REQUEST, **{option: str(tmp_path / name)})  # type: ignore[arg-type]
        with pytest.raises(NotFoundError, match="missing or empty directory"):
            plan_recipe(RECIPE, request, store=store)


def test_other_libraries_of_a_host_make_another_fingerprint(store: SourceStore, tmp_path: Path) -> None:
    fingerprints = set()
    for content in ("one", "two"):
        (tmp_path / "libs").mkdir(exist_ok=True)
        (tmp_path / "libs" / "libfabric.so.1").write_text(content)
        fingerprints.add(
            plan_recipe(RECIPE, replace(REQUEST, host_libs=str(tmp_path / "libs")), store=store).fingerprint
        )
    assert len(fingerprints) == 2


def test_a_wheel_counts_by_its_contents_not_its_compression(store: SourceStore, tmp_path: Path) -> None:
    def fingerprint(content: str, compression: int) -> str:
        (tmp_path / "wheels").mkdir(exist_ok=True)
        with zipfile.ZipFile(tmp_path / "wheels" / "x-1.0-py3-none-any.whl", "w", compression) as wheel:
            wheel.writestr("x.py", content)
        return plan_recipe(RECIPE, BuildRequest("amd64", wheels=str(tmp_path / "wheels")), store=store).fingerprint

    assert fingerprint("a" * 99, zipfile.ZIP_STORED) == fingerprint("a" * 99, zipfile.ZIP_DEFLATED)
    assert fingerprint("a" * 99, zipfile.ZIP_STORED) != fingerprint("b" * 99, zipfile.ZIP_STORED)


def test_reports_files_that_are_not_wheels(store: SourceStore, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "x-1.0-py3-none-any.whl").write_text("cut off")
    with pytest.raises(BadInputError, match="not a wheel"):
        plan_recipe(RECIPE, BuildRequest("amd64", wheels=str(tmp_path / "wheels")), store=store)


def test_a_users_dockerfile_is_found_in_its_directory_or_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "singularity").mkdir()
    (tmp_path / "singularity" / "Dockerfile").write_text("FROM nvcr.io/nvidia/pytorch:24.03-py3\n")
    for name in (Path("singularity/Dockerfile"), tmp_path / "singularity" / "Dockerfile"):
        plan = plan_own(tmp_path, AMD64, dockerfile=name)
        assert (plan.own_form, plan.own_context) == ("Dockerfile", str(tmp_path))
        assert plan.own_text.startswith("FROM nvcr.io/")
    with pytest.raises(NotFoundError, match="has no Dockerfile and no recipe"):
        plan_own(tmp_path, AMD64)
    with pytest.raises(NotFoundError, match="no such directory"):
        plan_own(tmp_path / "nowhere", AMD64)


def test_a_users_definition_file_covers_the_files_that_it_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "defs").mkdir()
    file = tmp_path / "defs" / "app.def"
    file.write_text("Bootstrap: scratch\n%files\n    data /data\n    *.txt /\n")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("1")

    def plan() -> BuildPlan:
        return plan_own(Path("defs/app.def"), AMD64)

    first = plan()
    assert (first.recipe, first.own_form, first.own_context) == ("app", "definition", str(tmp_path))
    (tmp_path / "other").write_text("x")
    assert plan().fingerprint == first.fingerprint
    (tmp_path / "a.txt").write_text("x")
    second = plan()
    (tmp_path / "data" / "x").write_text("2")
    assert len({first.fingerprint, second.fingerprint, plan().fingerprint}) == 3


@pytest.mark.parametrize(
    ("source", "dockerfile", "recipe"),
    [
        (RECIPE, None, RECIPE),
        ("own", None, "./own"),
        ("own", Path("x"), ""),
        ("docker", None, ""),
        ("a.def", None, ""),
        ("./none", None, "./none"),
        ("none", None, "none"),
    ],
)
def test_a_name_means_a_shipped_recipe_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, dockerfile: Path | None, recipe: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (RECIPE, "own", "docker"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "Dockerfile").touch()
    (tmp_path / "own" / "recipe.toml").touch()
    assert find_recipe(source, dockerfile) == recipe


def test_only_copied_files_of_a_context_change_the_image(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
    (tmp_path / ".git").mkdir()

    def fingerprint() -> str:
        return plan_own(tmp_path, AMD64).fingerprint

    first = fingerprint()
    for name in ("mine.sif", "mine.sif.provenance.json", ".mine.sif.lock", ".git/index"):
        (tmp_path / name).write_text("x")
    assert fingerprint() == first
    (tmp_path / "train.py").write_text("print()\n")
    assert fingerprint() != first


def test_the_users_lock_is_where_state_is_kept() -> None:
    assert default_lock({"HPCMOD_LOCK": "/a/lock", "HOME": "/h"}) == Path("/a/lock")
    assert default_lock({"XDG_STATE_HOME": "/s", "HOME": "/h"}) == Path("/s/hpcmod/recipes.lock")
    assert default_lock({"HOME": "/h"}) == Path("/h/.local/state/hpcmod/recipes.lock")

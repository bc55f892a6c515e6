"""Build plans from a recipe and a request: steps, downloads, labels, fingerprint."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.building.shipped import recipe_components, recipe_lock, recipe_sources, shipped_recipes
from hpcmod.building.values.build_plan import BuildPlan
from hpcmod.building.values.building import BuildRequest, Shipped, make_build_plan, make_own_plan
from hpcmod.building.values.pins import Pin, parse_lock
from hpcmod.building.values.recipe import parse_addresses, parse_recipe
from hpcmod.core.errors import BadInputError
from tests.recipe_stubs import needed

SHIPPED = Shipped(
    recipe_components(),
    parse_addresses(recipe_sources()),
    parse_lock(recipe_lock(), "recipes/lock"),
)


def plan(name: str = "pytorch-ngc-ofi", request: BuildRequest | None = None, *, contents: str = "") -> BuildPlan:
    recipe = parse_recipe(shipped_recipes()[name], name)
    request = request or BuildRequest("amd64")
    request = replace(request, settings={**needed(recipe), **request.settings})
    return make_build_plan(recipe, request, shipped=SHIPPED, contents=contents)


def components(made: BuildPlan) -> list[str]:
    return [step.component for step in made.steps]


def told(made: BuildPlan, component: str) -> dict[str, str]:
    return dict(next(step.environment for step in made.steps if step.component == component))


def test_the_defaults_are_the_first_of_each_choice() -> None:
    options = dict(plan().options)
    assert (options["mpi"], options["ofi"], options["with"], options["arch"]) == ("ompi", "builtin", "", "amd64")


def test_options_are_those_that_something_is_made_from() -> None:
    options = dict(plan("pytorch-cpu").options)
    assert "mpich" not in options
    assert set(options) == {"arch", "mpi", "ofi", "with", "debian", "torch", "numpy", "mpi4py", "index"}
    assert "mpich=4.1.3" in dict(plan("pytorch-cpu", BuildRequest("amd64", mpi="mpich")).labels)["org.hpcmod.options"]


def test_builtin_has_the_network_inside_and_swap_what_any_host_can_replace() -> None:
    builtin, swap = plan(), plan(request=BuildRequest("amd64", ofi="swap"))
    assert "cxi" in components(builtin)
    assert "cxi" not in components(swap)
    assert told(builtin, "libfabric")["LIBFABRIC_VERSION"] == "2.2.0"
    assert told(swap, "libfabric")["LIBFABRIC_VERSION"] == "1.19.1"
    assert "host-links" in components(swap)
    assert "host-links" not in components(builtin)


def test_only_images_with_a_swapped_libfabric_search_host_lib() -> None:
    builtin, swap = plan(), plan(request=BuildRequest("amd64", ofi="swap"))
    assert dict(swap.search_paths)["LD_LIBRARY_PATH"].startswith("/host/lib:")
    assert "/host/lib" not in dict(builtin.search_paths)["LD_LIBRARY_PATH"].split(":")


def test_one_mpi_is_built_and_none_where_none_is_asked_for() -> None:
    assert {"openmpi", "pmix"} <= set(components(plan()))
    assert "mpich" in components(plan(request=BuildRequest("amd64", mpi="mpich")))
    bare = components(plan(request=BuildRequest("amd64", mpi="none")))
    assert not {"openmpi", "pmix", "mpich", "mpi4py"} & set(bare)


def test_extras_are_built_when_they_are_asked_for() -> None:
    extras = ("horovod", "deepspeed", "nccl", "nccl-tests", "aws-trace")
    made = plan(request=BuildRequest("amd64", extras=extras))
    assert {"horovod", "nccl", "nccl-tests", "python-packages"} <= set(components(made))
    assert told(made, "aws-ofi-nccl")["EXTRAS"].split(",") == sorted(extras)


@pytest.mark.parametrize(
    ("request_", "told_"),
    [
        (BuildRequest("amd64", settings={"libfabrik": "2"}), "has no setting 'libfabrik', did you mean libfabric?"),
        (BuildRequest("amd64", settings={"libfabric": "$(id)"}), "--set libfabric: '$(id)' contains"),
        (BuildRequest("amd64", settings={"libfabric": ""}), "--set libfabric= has no value"),
        (BuildRequest("amd64", settings={"nccl": "2.19.3-1"}), "--set nccl: has no effect on this image"),
        (BuildRequest("amd64", mpi="none", extras=("horovod",)), "--with horovod cannot be combined with --mpi none"),
        (
            BuildRequest("amd64", ofi="none", extras=("aws-trace",)),
            "--with aws-trace cannot be combined with --mpi ompi",
        ),
        (BuildRequest("amd64", extras=("horowod",)), "has no --with horowod, did you mean horovod?"),
        (BuildRequest("amd64", mpi="impi"), "has no --mpi impi"),
        (BuildRequest("amd64", mpi="mpich", ofi="none"), "--mpi mpich needs libfabric"),
        (BuildRequest("riscv64"), "has no base for riscv64"),
        (BuildRequest("amd64", base="https://example.org/x.sif"), "not supported as a base image"),
        (BuildRequest("amd64", base="oci:/base images/x"), "contains a space"),
        (BuildRequest("amd64", base="ubuntu"), "not supported as a base image"),
    ],
)
def test_unknown_options_of_a_recipe_are_reported_with_the_known_ones(request_: BuildRequest, told_: str) -> None:
    with pytest.raises(BadInputError) as caught:
        plan(request=request_)
    assert told_ in caught.value.message
    assert caught.value.cure


def test_another_version_changes_the_url_and_drops_the_checksum() -> None:
    made = plan(request=BuildRequest("amd64", settings={"openmpi": "5.1.0"}))
    source = next(one for one in made.sources if one.name == "openmpi")
    assert source.url.endswith("/v5.1/openmpi-5.1.0.tar.bz2")
    assert source.sha256 == ""
    assert source.file_name == "openmpi-5.1.0.tar.bz2"


def test_a_base_in_the_lock_is_used_by_its_digest() -> None:
    pin = Pin("base", "nvcr.io/nvidia/pytorch", "25.06-py3", "c" * 64, "tag")
    recipe = parse_recipe(shipped_recipes()["pytorch-ngc-ofi"], "pytorch-ngc-ofi")
    made = make_build_plan(recipe, BuildRequest("amd64"), shipped=replace(SHIPPED, pins=(pin,)))
    assert made.base == f"docker://nvcr.io/nvidia/pytorch@sha256:{'c' * 64}"


@pytest.mark.parametrize("name", [name for name in shipped_recipes() if "cpu" in name or "wheels" in name])
def test_an_index_that_has_no_default_must_be_named_unless_there_are_wheels(name: str) -> None:
    recipe = parse_recipe(shipped_recipes()[name], name)
    with pytest.raises(BadInputError) as caught:
        make_build_plan(recipe, BuildRequest("amd64"), shipped=SHIPPED)
    assert f"recipe {name} needs the setting index" in caught.value.message
    assert "--set index=URL" in caught.value.cure and "--wheel-dir" in caught.value.cure
    index = plan(name, BuildRequest("amd64", settings={"index": "https://mirror.example/simple"}))
    assert told(index, "python-packages")["INDEX"] == "https://mirror.example/simple"
    wheels = make_build_plan(recipe, BuildRequest("amd64", wheels="/wheels"), shipped=SHIPPED)
    assert told(wheels, "python-packages")["INDEX"] == ""


def test_no_secret_of_an_index_gets_into_an_image() -> None:
    with pytest.raises(BadInputError, match="could read the user name or password"):
        plan("pytorch-cpu", BuildRequest("amd64", settings={"index": "https://me:secret@mirror.example/simple"}))


def test_the_fingerprint_is_that_of_what_decides_the_image() -> None:
    first = plan()
    assert first.fingerprint == plan().fingerprint
    assert dict(first.labels)["org.hpcmod.fingerprint"] == first.fingerprint
    others = [
        plan("pytorch-rocm-ofi"),
        plan(request=BuildRequest("arm64")),
        plan(request=BuildRequest("amd64", mpi="mpich")),
        plan(request=BuildRequest("amd64", settings={"libfabric": "1.22.0"})),
        plan(request=BuildRequest("amd64", host_libs="/libs"), contents="1"),
        plan(request=BuildRequest("amd64", host_libs="/libs"), contents="2"),
        plan(request=BuildRequest("amd64", base="docker://nvcr.io/nvidia/pytorch:24.03-py3")),
    ]
    assert len({first.fingerprint, *(other.fingerprint for other in others)}) == len(others) + 1


def test_the_fingerprint_does_not_depend_on_where_things_lie_here() -> None:
    here, there = (plan(request=BuildRequest("amd64", host_libs=place), contents="1") for place in ("/a", "/b"))
    assert here.fingerprint == there.fingerprint


def test_a_changed_component_or_checksum_changes_the_fingerprint_and_a_wheel_first_used_does_not() -> None:
    recipe = parse_recipe(shipped_recipes()["pytorch-cpu"], "pytorch-cpu")
    request = BuildRequest("amd64", settings=needed(recipe))
    wheel = Pin("wheel", "torch", "2.13.0+cpu", "d" * 64, "torch.whl")
    same = make_build_plan(recipe, request, shipped=replace(SHIPPED, pins=(*SHIPPED.pins, wheel)))
    assert same.fingerprint == plan("pytorch-cpu").fingerprint
    assert str(wheel) in same.shared.lock
    changed = {**SHIPPED.components, "finish": SHIPPED.components["finish"] + "# another\n"}
    other = make_build_plan(recipe, request, shipped=replace(SHIPPED, components=changed))
    assert other.fingerprint != same.fingerprint
    pin = Pin("source", "aws-ofi-nccl", "1.20.0", "e" * 64, "x")
    recipe = parse_recipe(shipped_recipes()["pytorch-ngc-ofi"], "pytorch-ngc-ofi")
    pinned = make_build_plan(recipe, BuildRequest("amd64"), shipped=replace(SHIPPED, pins=(*SHIPPED.pins, pin)))
    assert pinned.fingerprint != plan().fingerprint


def test_no_tunable_is_baked_in_which_would_overrule_the_module() -> None:
    allowed = {"PATH", "LD_LIBRARY_PATH", "WITH_CONDA"}
    for name in shipped_recipes():
        made = plan(name)
        assert {variable for variable, _ in (*made.environment, *made.search_paths)} <= allowed


def test_the_fingerprint_of_a_users_file_covers_its_text_and_copied_files() -> None:
    def plan(text: str, contents: str) -> BuildPlan:
        return make_own_plan("My Image", "Dockerfile", text, context="/x", architecture="amd64", contents=contents)

    assert plan("FROM a\n", "1").recipe == "my-image"
    assert len({plan(text, contents).fingerprint for text in ("FROM a\n", "FROM b\n") for contents in "12"}) == 4

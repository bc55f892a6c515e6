"""Every shipped recipe as a Dockerfile and as a definition file: golden files, and what such files must not contain."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import pytest

from hpcmod.building.shipped import shipped_recipes
from hpcmod.building.text.recipe import render_build_plan, render_context, render_definition, render_dockerfile
from hpcmod.building.values.build_plan import BuildPlan
from hpcmod.building.values.building import BuildRequest, make_build_plan
from hpcmod.building.values.recipe import Recipe, parse_recipe
from hpcmod.core.errors import BadInputError
from hpcmod.core.resources import module_templates
from tests.recipe_stubs import extras_of
from tests.unit.building.values.test_building import SHIPPED

pytestmark = pytest.mark.slow

TEMPLATES = module_templates()
RECIPES = [parse_recipe(text, name) for name, text in shipped_recipes().items()]


def make(recipe: Recipe, architecture: str, **asked: str) -> BuildPlan:
    """Return a plan with everything that adds lines: extras, wheels, libraries of the host, local sources."""
    extras = extras_of(recipe, **asked)
    request = BuildRequest(architecture, extras=extras, host_libs="/host-libs", wheels="/wheels", **asked)  # type: ignore[arg-type]
    draft = make_build_plan(recipe, request, shipped=SHIPPED)
    files = [(source.file_name, f"/sources/{source.file_name}") for source in draft.sources]
    return make_build_plan(recipe, request, shipped=SHIPPED, source_files=files)


def cases() -> Iterator[tuple[str, BuildPlan]]:
    for recipe in RECIPES:
        for architecture, _ in recipe.bases:
            for ofi in dict(recipe.choices)["ofi"]:
                for mpi in dict(recipe.choices)["mpi"]:
                    if (mpi, ofi) != ("mpich", "none"):
                        yield f"{recipe.name}-{architecture}-{mpi}-{ofi}", make(recipe, architecture, mpi=mpi, ofi=ofi)


PLANS = dict(cases())


@cache
def dockerfile(name: str) -> str:
    return render_dockerfile(PLANS[name], templates=TEMPLATES)


@cache
def definition(name: str) -> str:
    return render_definition(PLANS[name], templates=TEMPLATES)


def each_plan(check: Callable[[str], None]) -> Callable[[], None]:
    """Return a single test that runs a check on every plan."""

    def test() -> None:
        for name in PLANS:
            check(name)

    return test


def test_every_shipped_recipe_is_for_both_architectures_or_says_why_not() -> None:
    for recipe in RECIPES:
        both = {architecture for architecture, _ in recipe.bases} == {"amd64", "arm64"}
        assert both or "AMD's images are for x86_64 only" in shipped_recipes()[recipe.name]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda one: one.name)
def test_a_recipe_renders_as_it_did(recipe: Recipe, golden: Callable[[str, str], None]) -> None:
    made = make(recipe, "amd64")
    golden(f"recipes/{recipe.name}-amd64.Dockerfile", unprinted(render_dockerfile(made, templates=TEMPLATES)))


def test_the_same_recipe_renders_for_another_architecture_and_as_a_definition_file(
    golden: Callable[[str, str], None],
) -> None:
    """Other definition files have the commands of the Dockerfiles; see below."""
    recipe = next(recipe for recipe in RECIPES if recipe.name == "pytorch-ngc-ofi")
    made = make(recipe, "arm64")
    golden("recipes/pytorch-ngc-ofi-arm64.Dockerfile", unprinted(render_dockerfile(made, templates=TEMPLATES)))
    golden("recipes/pytorch-ngc-ofi-arm64.def", unprinted(render_definition(made, templates=TEMPLATES)))


def unprinted(text: str) -> str:
    """Remove the fingerprints, which change with each edit of a component."""
    return re.sub(r"\b[0-9a-f]{64}\b", "(fingerprint)", text)


def logical_lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").splitlines()


@each_plan
def test_a_dockerfile_uses_only_what_every_engine_supports(name: str) -> None:
    lines = [line for line in logical_lines(dockerfile(name)) if line]
    allowed = ("# ", "FROM ", "COPY hpcmod/", "RUN --mount=type=bind,", "ENV ", "LABEL ")
    assert [line for line in lines if not line.startswith(allowed)] == []
    assert [line for line in lines if "<<" in line] == []  # no heredocs: buildah 1.28 does not support them
    assert sum(line.startswith("FROM ") for line in lines) == 1


@each_plan
def test_both_forms_run_the_same_commands_in_the_same_order(name: str) -> None:
    commands = re.findall(r"^RUN .*?(env .*)$", dockerfile(name), re.MULTILINE)
    assert commands == re.findall(r"^ +(env .*)$", definition(name), re.MULTILINE)
    assert len(commands) == len(PLANS[name].steps)


@each_plan
def test_environment_in_an_image_appends_without_an_empty_entry_and_holds_no_tunable(name: str) -> None:
    lines = logical_lines(dockerfile(name))
    for line in (line for line in lines if line.startswith("ENV ")):
        variable, _, value = line.removeprefix("ENV ").partition("=")
        assert variable in ("PATH", "LD_LIBRARY_PATH", "WITH_CONDA")
        if variable != "WITH_CONDA":
            assert value.endswith(f"${{{variable}:+:${variable}}}")
            assert not re.search(r"""["'\\]""", value)
            assert "::" not in value


@each_plan
def test_a_definition_removes_nothing_that_post_shares_with_the_host(name: str) -> None:
    text = definition(name)
    removed = re.findall(r"\brm\b.*", text)
    assert all(line.startswith("rm -rf /opt/hpcmod/build/") for line in removed)
    assert not re.search(r"(^|[\s=\"])/(var/)?tmp", text)
    assert "Bootstrap: docker\nFrom: " in text


@each_plan
def test_copied_files_are_in_the_build_context(name: str) -> None:
    made = PLANS[name]
    there = {*render_context(made), *(inside for _, inside in made.inputs)}
    copied = re.findall(r"(?<=\s)hpcmod/\S+", re.sub(r"source=", "source= ", dockerfile(name)))
    files = re.findall(r"^    (hpcmod/\S+) ", definition(name), re.MULTILINE)
    for path in (*copied, *files):
        path = path.rstrip(",").partition(",")[0]
        assert path in there or any(one.startswith(f"{path}/") for one in there), path


@each_plan
def test_every_download_has_a_name_a_version_and_an_address_that_holds_it(name: str) -> None:
    for source in PLANS[name].sources:
        assert source.name
        assert re.fullmatch(r"[0-9][0-9.]*(-[0-9]+)?", source.version)
        assert source.version in source.url
        assert source.url.startswith("https://")


@each_plan
def test_every_python_package_has_a_version(name: str) -> None:
    for step in PLANS[name].steps:
        for requirement in dict(step.environment).get("PACKAGES", "").split():
            assert re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.+]*", requirement)


def test_bases_on_disk_are_written_as_each_form_names_them() -> None:
    made = next(iter(PLANS.values()))
    for base, docker, bootstrap in (
        ("oci:/data/base:1", "FROM oci:/data/base:1\n", "Bootstrap: oci\nFrom: /data/base:1\n"),
        ("docker-archive:/b.tar", "FROM docker-archive:/b.tar\n", "Bootstrap: docker-archive\nFrom: /b.tar\n"),
        (
            "docker://docker.io/library/debian:12",
            "FROM docker.io/library/debian:12\n",
            "From: docker.io/library/debian:12\n",
        ),
    ):
        other = replace(made, base=base)
        assert docker in render_dockerfile(other, templates=TEMPLATES)
        assert bootstrap in render_definition(other, templates=TEMPLATES)


def test_a_sif_is_a_base_of_a_definition_file_only() -> None:
    made = replace(next(iter(PLANS.values())), base="/data/base.sif")
    assert "Bootstrap: localimage\nFrom: /data/base.sif\n" in render_definition(made, templates=TEMPLATES)
    with pytest.raises(BadInputError, match="cannot use a SIF as its base"):
        render_dockerfile(made, templates=TEMPLATES)


@pytest.mark.parametrize("value", ['"; rm -rf ~; "', "$(id)", "a\nRUN id", "`id`", "a' b"])
def test_no_value_gets_out_of_its_place(value: str) -> None:
    made = next(iter(PLANS.values()))
    step = replace(made.steps[0], environment=(("KEY", value),))
    for changed in (
        replace(made, steps=(step,)),
        replace(made, labels=(("x", value),)),
        replace(made, environment=(("X", value),)),
    ):
        for render in (render_dockerfile, render_definition):
            with pytest.raises(BadInputError):
                render(changed, templates=TEMPLATES)


def test_the_plan_for_people_says_what_has_no_checksum_yet() -> None:
    text = render_build_plan(PLANS["pytorch-ngc-ofi-amd64-ompi-builtin"])
    assert re.search(r"source shs-libcxi 13\.0\.0: https://\S+ \(no checksum yet\)", text)
    assert re.search(r"source libfabric 2\.2\.0: https://\S+ [0-9a-f]{64}", text)

"""Render a build plan as a Dockerfile or an Apptainer definition file, using the same scripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

import jinja2

from hpcmod.building.values.build_plan import BUILD_ROOT, BuildPlan, BuildStep
from hpcmod.building.values.recipe import check_value
from hpcmod.core.errors import BadInputError
from hpcmod.core.text import quote
from hpcmod.core.values.reference import ImageReference

_PLACES = ("sources", "wheels", "host-libs", "files")


def render_dockerfile(plan: BuildPlan, *, templates: Mapping[str, str]) -> str:
    """Render the Dockerfile; the files it copies are in the build context (`render_context`, and the plan's inputs).

    Raises BadInputError if a value cannot be written into a Dockerfile.
    """
    reference = ImageReference.parse(plan.base)
    if reference.kind == "path":
        raise BadInputError(
            f"base {plan.base}: a Dockerfile cannot use a SIF as its base",
            "Use --engine apptainer, or another base.",
        )
    return _rendered("dockerfile.j2", plan, templates, base=reference.canonical.removeprefix("docker://"))


def render_definition(plan: BuildPlan, *, templates: Mapping[str, str]) -> str:
    """Render the definition file; its `%files` are relative to the build context.

    Raises BadInputError if a value cannot be written into a definition file.
    """
    reference = ImageReference.parse(plan.base)
    bootstrap = "localimage" if reference.kind == "path" else reference.kind
    source = reference.canonical.removeprefix(f"{reference.kind}:").removeprefix("//")
    return _rendered("definition.j2", plan, templates, bootstrap=bootstrap, **{"from": source})


def render_context(plan: BuildPlan) -> dict[str, str]:
    """Return the files of the build context, except the Dockerfile and the inputs: text by path."""
    scripts = {plan.script_path(number): step.script for number, step in enumerate(plan.steps, 1)}
    shared = {"hpcmod/common.sh": plan.shared.library, "hpcmod/lock": plan.shared.lock}
    return {**shared, **scripts} if plan.steps else {}


def render_build_plan(plan: BuildPlan) -> str:
    """Render the plan for people: choices, sources and steps."""
    lines = [
        f"recipe: {plan.recipe}",
        f"base: {plan.base or plan.own_context}",
        f"architecture: {plan.architecture}",
        *(f"option {name}: {value}" for name, value in plan.options if value),
        *(
            f"source {each.name} {each.version}: {each.url} {each.sha256 or '(no checksum yet)'}"
            for each in plan.sources
        ),
        *(f"input {inside}: {path}" for path, inside in plan.inputs),
        *(f"step {number}: {step.component}{_told(step)}" for number, step in enumerate(plan.steps, 1)),
        f"fingerprint: {plan.fingerprint}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _told(step: BuildStep) -> str:
    return "".join(f" {name}={quote.sh_word(value)}" for name, value in step.environment)


def _rendered(name: str, plan: BuildPlan, templates: Mapping[str, str], **values: object) -> str:
    environment = jinja2.Environment(  # noqa: S701 - the checking filters are our escaping
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters.update(
        comment=quote.sh_comment, word=_word, value=_value, plain=_plain, variable=_variable, command=str
    )
    places = [place for place in _PLACES if any(inside.startswith(f"hpcmod/{place}") for _, inside in plan.inputs)]
    text = environment.from_string(templates[name]).render(
        plan=plan, root=BUILD_ROOT, steps=list(_steps(plan)), places=places, **values
    )
    return re.sub(r"\n{3,}", "\n\n", text)


def _steps(plan: BuildPlan) -> Iterator[tuple[str, str, str]]:
    """Yield the path of each component's script in the build context, its name in BUILD_ROOT, and its command."""
    for number, step in enumerate(plan.steps, 1):
        path = plan.script_path(number)
        file = path.rpartition("/")[2]
        variables = (*step.environment, ("ARCH", plan.architecture))
        settings = [f"{_variable(name)}={_value(value)}" for name, value in variables]
        yield path, file, " ".join(["env", *settings, "bash", f"{BUILD_ROOT}/{file}"])


def _word(text: str) -> str:
    """Return the text if it is a single word wherever it is used."""
    if not re.fullmatch(r"[A-Za-z0-9._+:/=,@~-]+", text):
        raise BadInputError(f"{text!r} is not allowed in a Dockerfile or a definition file", "Rename it.")
    return text


def _plain(text: str) -> str:
    return check_value(text, "the value")


def _value(text: str) -> str:
    """Return a checked value, in double quotes if it contains a blank or a bracket."""
    return text if re.fullmatch(r"[A-Za-z0-9._+:/=,@-]+", text) else json.dumps(_plain(text))


def _variable(name: str) -> str:
    if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise BadInputError(f"{name!r} is not a valid variable name", "Use letters, digits and underscores.")
    return name

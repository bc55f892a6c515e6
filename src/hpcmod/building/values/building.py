"""Make a build plan from a recipe and the user's options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hpcmod.building.values.build_plan import BuildPlan, BuildStep, Download, SharedFiles, with_fingerprint
from hpcmod.building.values.pins import Pin, find_checksum
from hpcmod.building.values.recipe import (
    Recipe,
    RecipeStep,
    check_among,
    check_value,
    fill_in,
    parse_base,
    placeholders,
)
from hpcmod.core.errors import BadInputError

_CHOSEN = ("mpi", "ofi", "with", "arch")


@dataclass(frozen=True)
class BuildRequest:
    """The user's options for a build."""

    architecture: str
    """GOARCH name: amd64, arm64."""
    mpi: str = ""
    """ompi, mpich or none; empty: the recipe's default."""
    ofi: str = ""
    """builtin, swap or none; empty: the recipe's default."""
    extras: tuple[str, ...] = ()
    """Values of --with."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Values of --set."""
    base: str = ""
    """Base image to use instead of the recipe's; empty: the recipe's."""
    host_libs: str = ""
    """Directory of host libraries to copy into the image; empty: none."""
    wheels: str = ""
    """Directory of wheels, the only source for pip; empty: pip's own index."""


@dataclass(frozen=True)
class Shipped:
    """The files shared by all recipes."""

    components: Mapping[str, str]
    """Text of each script by name, including `common`, the shared functions."""
    addresses: Mapping[str, str]
    """Address of each source by name; `{version}` is replaced by its version."""
    pins: tuple[Pin, ...]
    """The lock file."""


def make_build_plan(
    recipe: Recipe,
    request: BuildRequest,
    *,
    shipped: Shipped,
    source_files: Sequence[tuple[str, str]] = (),
    contents: str = "",
) -> BuildPlan:
    """Return the build plan.

    `source_files`: Local sources: name in the build context (as `Download.file_name`) and local path.
    `contents`: Digest of the wheels and the host's libraries.

    Raises BadInputError if the recipe does not support the requested options.
    """
    values = _chosen(recipe, request)
    given = {**values, "host_libs": "yes" if request.host_libs else "no"}
    steps = [step for step in recipe.steps if _fits(step.when, given)]
    _check_extras_are_made(recipe, values, steps)
    sources = _downloads(steps, values, shipped)
    options = _options(recipe, request, steps, values)
    plan = BuildPlan(
        recipe=recipe.name,
        base=_base(recipe, request, values, shipped.pins),
        architecture=request.architecture,
        steps=tuple(_build_step(step, values, shipped.components, sources) for step in steps),
        options=options,
        labels=_labels(recipe, dict(options)),
        environment=recipe.environment,
        search_paths=tuple(
            (path.variable, ":".join(path.directories)) for path in recipe.search_paths if _fits(path.when, given)
        ),
        inputs=(*_inputs(request, source_files), *((path, f"hpcmod/files/{name}") for name, path in recipe.files)),
        sources=sources,
        shared=SharedFiles(_lock_lines(shipped.pins, sources), shipped.components["common"]),
    )
    return with_fingerprint(plan, contents=contents)


def make_own_plan(name: str, form: str, text: str, *, context: str, architecture: str, contents: str) -> BuildPlan:
    """Return the plan for a user's own Dockerfile or definition file.

    `name`: Name of the image.
    `form`: `Dockerfile` or `definition`.
    `context`: The build context, a local path.
    `contents`: Digest of the build context.
    """
    plan = BuildPlan(
        recipe=re.sub(r"[^a-z0-9._-]", "-", name.lower()) or "image",
        architecture=architecture,
        options=(("arch", architecture),),
        labels=(("org.hpcmod.recipe", form),),
        own_form=form,
        own_text=text,
        own_context=context,
    )
    return with_fingerprint(plan, contents=contents)


def _chosen(recipe: Recipe, request: BuildRequest) -> dict[str, str]:
    """Return all values that steps and the base may refer to."""
    settings = {**dict(recipe.settings), **{key: "" for key, _ in recipe.needs}}
    for key, value in request.settings.items():
        cure = f"Its settings: {', '.join(sorted(settings)) or 'none'}."
        check_among(key, settings, f"recipe {recipe.name} has no setting {key!r}", cure)
        settings[key] = _checked_setting(key, value)
    for name, allowed in recipe.choices:
        settings[name] = getattr(request, name) or allowed[0]
        cure = f"Choose from {', '.join(allowed)}."
        check_among(settings[name], allowed, f"recipe {recipe.name} has no --{name} {settings[name]}", cure)
    for extra in request.extras:
        cure = f"Its extras: {', '.join(recipe.extras) or 'none'}."
        check_among(extra, recipe.extras, f"recipe {recipe.name} has no --with {extra}", cure)
    settings["with"] = ",".join(sorted(set(request.extras)))
    settings["arch"] = request.architecture
    if settings["ofi"] == "none" and settings["mpi"] == "mpich":
        raise BadInputError("--mpi mpich needs libfabric", "Choose --ofi builtin or swap, or --mpi ompi.")
    for key, meaning in recipe.needs:
        if not settings[key] and not request.wheels:
            raise BadInputError(
                f"recipe {recipe.name} needs the setting {key}, which has no default: the {meaning}",
                f"Use --set {key}=URL (in an easyconfig: settings), or a directory of wheels: --wheel-dir DIR",
            )
    return settings


def _checked_setting(key: str, value: str) -> str:
    if not value:
        raise BadInputError(f"--set {key}= has no value", f"Give a value, or leave out --set {key} to use the default.")
    if re.search(r"://[^/]*@", value):
        raise BadInputError(
            f"--set {key}: anyone who has the image could read the user name or password in this address",
            "Use an address without credentials, or take wheels from --wheel-dir DIR.",
        )
    return check_value(value, f"--set {key}:")


def _check_extras_are_made(recipe: Recipe, values: Mapping[str, str], steps: Sequence[RecipeStep]) -> None:
    for extra in values["with"].split(","):
        named = [step for step in recipe.steps if extra in dict(step.when).get("with", ())]
        makers = named or [step for step in recipe.steps if "{with}" in dict(step.environment).values()]
        if makers and not any(step in steps for step in makers):
            needs = (f"--{key} {' or '.join(choices)}" for key, choices in makers[0].when if key != "with")
            chosen = f"--mpi {values['mpi']} and --ofi {values['ofi']}"
            raise BadInputError(f"--with {extra} cannot be combined with {chosen}", f"It needs {' and '.join(needs)}.")


def _options(
    recipe: Recipe, request: BuildRequest, steps: Iterable[RecipeStep], values: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return the chosen options, limited to the settings that affect the image."""
    texts = [text for step in steps for _, text in (*step.sources, *step.environment)]
    base = dict(recipe.bases).get(request.architecture, "")
    named = set(_CHOSEN).union(*map(placeholders, texts if request.base else [*texts, base]))
    for key in request.settings:
        if key not in named:
            counting = ", ".join(sorted(named.difference(_CHOSEN)))
            raise BadInputError(
                f"--set {key}: has no effect on this image", f"Settings with an effect here: {counting}."
            )
    return tuple(sorted((key, value) for key, value in values.items() if key in named))


def _fits(when: Iterable[tuple[str, tuple[str, ...]]], given: Mapping[str, str]) -> bool:
    return all(set(given[key].split(",")) & set(allowed) for key, allowed in when)


def _build_step(
    step: RecipeStep, values: Mapping[str, str], components: Mapping[str, str], sources: Sequence[Download]
) -> BuildStep:
    fault = f"unknown component {step.component!r}"
    check_among(step.component, components, fault, "Fix the recipe, or add the script.")
    environment = tuple((name, check_value(fill_in(text, values), name)) for name, text in step.environment)
    variables = []
    for source in sources:
        if (source.name, source.version) in _versions(step, values):
            prefix = re.sub(r"[^A-Z0-9]", "_", source.name.upper())  # as in scripts, e.g. AWS_OFI_NCCL
            variables.append((f"{prefix}_VERSION", check_value(source.version, source.name)))
            variables.append((f"{prefix}_URL", check_value(source.url, source.name)))
    return BuildStep(step.component, components[step.component], (*variables, *environment))


def _versions(step: RecipeStep, values: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, fill_in(version, values)) for name, version in step.sources]


def _downloads(steps: Iterable[RecipeStep], values: Mapping[str, str], shipped: Shipped) -> tuple[Download, ...]:
    versions = dict.fromkeys(pair for step in steps for pair in _versions(step, values))
    downloads = []
    for name, version in versions:
        if name not in shipped.addresses:
            raise BadInputError(f"no address is known for the source {name!r}", "Add it to components/sources.toml.")
        checksum = find_checksum(shipped.pins, "source", name, version)
        url = fill_in(shipped.addresses[name], {"version": version, "series": version.rpartition(".")[0]})
        downloads.append(Download(name, version, url, checksum))
    return tuple(downloads)


def _base(recipe: Recipe, request: BuildRequest, values: Mapping[str, str], pins: Sequence[Pin]) -> str:
    """Return the reference of the base image, with its digest from the lock file."""
    bases = dict(recipe.bases)
    if not request.base and request.architecture not in bases:
        raise BadInputError(
            f"recipe {recipe.name} has no base for {request.architecture}",
            f"It has bases for {', '.join(bases)}; use --base for another image.",
        )
    reference = parse_base(request.base or fill_in(bases[request.architecture], values))
    if reference.kind != "docker" or reference.pinned:
        return reference.canonical
    name = f"{reference.registry}/{reference.repository}"
    digest = find_checksum(pins, "base", name, reference.tag)
    return f"docker://{name}@sha256:{digest}" if digest else reference.canonical


def _labels(recipe: Recipe, values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    chosen = " ".join(f"{key}={value}" for key, value in sorted(values.items()) if value)
    return (
        ("org.opencontainers.image.title", recipe.name),
        ("org.opencontainers.image.description", re.sub(r"[^A-Za-z0-9._+:/=,@~ -]", "", recipe.summary)),
        ("org.hpcmod.recipe", recipe.name),
        ("org.hpcmod.options", chosen),
        ("org.hpcmod.gpu", recipe.gpu),
        ("org.hpcmod.mpi", values["mpi"]),
        ("org.hpcmod.ofi", values["ofi"]),
    )


def _inputs(request: BuildRequest, source_files: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    directories = (("hpcmod/wheels", request.wheels), ("hpcmod/host-libs", request.host_libs))
    return (
        *((path, f"hpcmod/sources/{name}") for name, path in source_files),
        *((path, inside) for inside, path in directories if path),
    )


def _lock_lines(pins: Sequence[Pin], sources: Sequence[Download]) -> str:
    """Return the lock lines that the scripts need: those of its sources, and all of pip's."""
    versions = {(source.name, source.version) for source in sources}
    taken = [
        pin for pin in pins if pin.kind == "wheel" or (pin.kind == "source" and (pin.name, pin.version) in versions)
    ]
    return "".join(f"{pin}\n" for pin in sorted(taken, key=str))

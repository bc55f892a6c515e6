"""Render module and scripts of a published container again, from its easyconfig, its image and a site profile."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpcmod.catalogue.notices import look_for_notices
from hpcmod.catalogue.renderings.kept import (
    installed_files,
    read_easyconfig,
    read_files,
    read_module,
    software_of,
)
from hpcmod.catalogue.store import Catalogue
from hpcmod.errors import BadInputError, NotFoundError
from hpcmod.image.contents import read_facts
from hpcmod.install.installed import RECORD
from hpcmod.install.store import make_scripts
from hpcmod.model.bind import Bind
from hpcmod.model.catalogue.record import CatalogueRecord
from hpcmod.model.easyconfig_text import CONSTANTS, fill_templates, templates_of
from hpcmod.model.libraries.swap import with_mode
from hpcmod.model.plan import InstallPlan, make_plan
from hpcmod.model.site import Site
from hpcmod.model.spec import InstallSpec, parse_commands, parse_environment, parse_install_mode
from hpcmod.model.static_values import read_static_values
from hpcmod.render.existing_module import ExistingModule, parse_module
from hpcmod.render.modulefile import SYNTAXES, render_body, render_description
from hpcmod.resources import module_templates, runscript_templates


@dataclass(frozen=True)
class Rendering:
    """What users see of a container, as text."""

    modules: Mapping[str, str]
    """Modulefiles by syntax."""
    files: Mapping[str, str]
    """Scripts, and the record of the installation, by path below the installation's directory."""
    easyconfig: str


def read_rendering(catalogue: Catalogue, record: CatalogueRecord) -> Rendering:
    """Read the present rendering of a container.

    Raises
    ------
    NotFoundError
        If its installation or what was kept of it is gone.
    """
    modules = {syntax: text for syntax in SYNTAXES if (text := read_module(catalogue, record, syntax)) is not None}
    easyconfig = read_easyconfig(catalogue, record)
    files = read_files(catalogue, record) or installed_files(catalogue, software_of(catalogue, record))
    if not modules or easyconfig is None or RECORD not in files:
        raise NotFoundError(f"{record.module}: its installation is gone", "Publish its image again: hpcmod publish")
    return Rendering(modules, files, easyconfig)


def render_again(
    catalogue: Catalogue, record: CatalogueRecord, now: Rendering, site: Site, environ: Mapping[str, str], *, tool: str
) -> Rendering:
    """Render a container as publishing it with a site profile would.

    Parameters
    ----------
    now
        Its present rendering: what EasyBuild put into the modulefile is taken from there.
    environ
        The catalogues it names are those whose notices the module tells.
    tool
        Version of hpcmod, for the record of the installation.

    Raises
    ------
    BadInputError
        If its easyconfig cannot be read without running it, or its module is not one that hpcmod made.
    NotFoundError
        If its image is gone.
    """
    parts = {
        syntax: parse_module(text, syntax, f"the module of {record.module}") for syntax, text in now.modules.items()
    }
    plan = _make_plan(catalogue, record, now, site, next(iter(parts.values())))
    known = ":".join(filter(None, (str(catalogue.directory), environ.get("HPCMOD_CATALOGUE", ""))))
    told = look_for_notices(plan, {**environ, "HPCMOD_CATALOGUE": known})
    templates = module_templates()
    modules = {
        syntax: one.with_parts(
            render_description(told, syntax, templates, conflict=record.name), render_body(told, syntax, templates)
        )
        for syntax, one in parts.items()
    }
    scripts = dict(make_scripts(plan, runscript_templates()))
    return Rendering(
        modules, {**scripts, RECORD: _render_record(now.files[RECORD], plan, scripts, tool)}, now.easyconfig
    )


def _make_plan(
    catalogue: Catalogue, record: CatalogueRecord, now: Rendering, site: Site, parts: ExistingModule
) -> InstallPlan:
    values = _read_parameters(now.easyconfig, record)
    root = software_of(catalogue, record)
    image = catalogue.images / record.sif
    spec = InstallSpec(
        name=record.name,
        module=record.module,
        variable=parts.variable,
        root=str(root),
        image=record.sif,
        easyconfig=record.easyconfig,
        found_at=str(image),
        description=values.get("description", ""),
        homepage=values.get("homepage", ""),
        install_mode=parse_install_mode(values.get("install_mode", "auto")),
        binds=tuple(Bind.parse(text) for text in values.get("bind_paths", ())),
        commands=parse_commands(values.get("wrapped_commands", ())),
        environment=parse_environment(values.get("environment", {})),
    )
    return make_plan(read_facts(image), with_mode(site, values.get("netstack", "auto")), spec)


_PARAMETERS = ("description", "homepage", "install_mode", "bind_paths", "wrapped_commands", "environment", "netstack")


def _read_parameters(easyconfig: str, record: CatalogueRecord) -> dict[str, Any]:
    """Read what an easyconfig says of the module, without running it."""
    found = read_static_values(easyconfig, record.easyconfig, constants=CONSTANTS)
    unknown = sorted(set(_PARAMETERS) & set(found.unknown))
    if unknown:
        raise BadInputError(
            f"{record.easyconfig}: {', '.join(unknown)} cannot be read without running it",
            "Write plain values there, and publish the container again.",
        )
    templates = templates_of(found.known)
    return {name: _fill(found.known[name], templates) for name in _PARAMETERS if found.known.get(name) is not None}


def _fill(value: Any, templates: Mapping[str, str]) -> Any:
    """Fill in EasyBuild's templates wherever a text is."""
    if isinstance(value, str):
        return fill_templates(value, templates)
    if isinstance(value, Mapping):
        return {_fill(key, templates): _fill(one, templates) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_fill(one, templates) for one in value]
    return value


def _render_record(before: str, plan: InstallPlan, scripts: Mapping[str, str], tool: str) -> str:
    """Render the record of an installation whose scripts are new and whose image is the same."""
    values = {**json.loads(before), "hpcmod": tool, "site": plan.site.name, "files": list(scripts)}
    return json.dumps(values, indent=1) + "\n"


def stamp(record: str, rendering: str) -> str:
    """Return the record of an installation with the rendering it belongs to: it differs whenever a script does."""
    return json.dumps({**json.loads(record), "rendering": rendering}, indent=1) + "\n"


def changed_files(now: Rendering, new: Rendering) -> tuple[str, ...]:
    """Return what differs between two renderings: `module (Lua)`, and paths below the installation."""
    modules = [f"module ({one})" for one in SYNTAXES if now.modules.get(one) != new.modules.get(one)]
    names = sorted({*now.files, *new.files} - {RECORD})
    return (*modules, *(name for name in names if now.files.get(name) != new.files.get(name)))


def compare_modules(now: Rendering, new: Rendering) -> Iterator[str]:
    """Yield the lines of the modulefiles that go (`-`) and that come (`+`)."""
    for syntax in new.modules:
        before, after = (one.modules.get(syntax, "").splitlines() for one in (now, new))
        for line in difflib.unified_diff(before, after, n=0, lineterm=""):
            if not line.startswith(("---", "+++", "@@")):
                yield line

"""Render modulefiles in Lua and Tcl: the description, and the part that sets SIF, binds and variables."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Mapping
from typing import Any

import jinja2

from hpcmod.core.text.quote import lua, sh_comment, tcl, terminal, unquote_lua
from hpcmod.machine.values.bind import Bind
from hpcmod.modules.values.guard import kind_of
from hpcmod.modules.values.place import USER_LAYER_IN_CONTAINER, PackagePlace
from hpcmod.modules.values.plan import RUNSCRIPTS_IN_CONTAINER, InstallPlan
from hpcmod.modules.values.spec import list_references

_COLUMNS = 80

Templates = Mapping[str, str]
"""Template texts by file name; see hpcmod.core.resources."""


def render_template(name: str, syntax: str, templates: Templates, values: Mapping[str, Any]) -> str:
    """Render a template in one of SYNTAXES; `lua` and `tcl` quote, `line` joins a string into one line."""
    return _environment(tuple(templates.items())).get_template(f"{name}.{syntax.lower()}.j2").render(values)


def render_default(module: str, templates: Templates) -> str:
    """Render the file in Lua that makes a module the default of its name."""
    return render_template("modulerc", "Lua", templates, {"aliases": [(module, ["default"])], "hidden": []})


@functools.lru_cache(maxsize=1)  # the sanity check renders the same templates as the final module
def _environment(templates: tuple[tuple[str, str], ...]) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(dict(templates)),
        autoescape=False,  # noqa: S701 - no HTML; every value goes through the quoting function of its language
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(lua=lua, tcl=tcl, shown=_shown_by_lmod, line=_one_line, comment=_comment)
    environment.filters.update(lua_bind=_lua_bind, tcl_bind=_tcl_bind, bind_reason=_bind_reason)
    return environment


def _shown_by_lmod(text: str) -> str:
    """Break `]===]` with a zero-width space: Lmod copies strings from Tcl into Lua, where it would end them."""
    return text.replace("]===]", "]=\u200b==]")


def _comment(text: str) -> str:
    """Make text safe for the rest of a line in Lua and Tcl, where a backslash at the end would continue the comment."""
    return sh_comment(text).rstrip("\\ ")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _visible(text: str) -> str:
    """Replace control and invalid characters by `?`: an image's labels must not control a terminal."""
    return re.sub("[\ud800-\udfff]", "?", terminal(text))


def render_body(plan: InstallPlan, syntax: str, templates: Templates) -> str:
    """Render the data of a modulefile in one of SYNTAXES: image, binds and variables; libexec/module.* acts on it."""
    spec, settings = plan.spec, plan.runscripts
    reasons = {(name, value): why for name, value, why in settings.tunables.reasons}
    values = {
        "module": spec.module,
        "mark": spec.variable,
        "root": spec.root,
        "easyconfig": spec.easyconfig,
        "family": plan.site.module.family,
        "python": plan.has_python_commands and bool(plan.site.module.family),
        "image": plan.sif_places,
        "binds": _bind_groups(plan),
        "sets_bind": bool(plan.site.module.bind_variable),
        "variables": [
            (names[0], value, reasons.get((names[0], value), "")) for names, value in plan.defaults if len(names) == 1
        ],
        "in_container": [
            (names[0].removeprefix(_IN_CONTAINER), value) for names, value in plan.defaults if len(names) == 2
        ],
        "environment": plan.environment,
        "path": plan.container_path,
        "guard": [(*pair, kind_of(pair[0], settings.container.user_site)) for pair in settings.container.guard],
        "user_site": settings.container.user_site,
        "notices": plan.notice_places,
    }
    return render_template("module", syntax, templates, values)


_IN_CONTAINER = "SINGULARITYENV_"


def _bind_groups(plan: InstallPlan) -> list[list[Bind | PackagePlace]]:
    """Return the groups of binds; the user's own packages come before those of the installation."""
    groups: list[list[Bind | PackagePlace]] = [list(group) for group in plan.binds]
    if plan.own_packages:
        groups[-1:] = [[plan.own_packages, *(groups[-1] if groups else [])]]
    return groups


def _lua_bind(bind: Bind | PackagePlace) -> str:
    if isinstance(bind, PackagePlace):
        source = f"own_packages = {{ name = {lua(bind.name)}, fits = {lua(bind.tag)} }}"
        return f"{{ {source}, to = {lua(bind.mount)}, options = {lua(bind.options)} }}"
    parts = [
        lua(bind.source),
        f"to = {lua(bind.destination)}" if bind.destination else "",
        f"options = {lua(bind.options)}" if bind.options else "",
        "required = true" if bind.required else "",
        "pattern = true" if bind.pattern else "",
    ]
    return f"{{ {', '.join(filter(None, parts))} }}"


def _tcl_bind(bind: Bind | PackagePlace) -> str:
    if isinstance(bind, PackagePlace):
        source, place, more = f"[list {tcl(bind.name)} {tcl(bind.tag)}]", bind.mount, ["own_packages"]
    else:
        source, place = tcl(bind.source), bind.destination
        more = ["pattern" if bind.pattern else "", *(["required"] if bind.required else [])]
    words = [place, bind.options, *more]
    while words and not words[-1]:
        words.pop()
    return " ".join(["[list", source, *(tcl(word) for word in words)]) + "]"


def _bind_reason(bind: Bind | PackagePlace) -> str:
    """Say what a bind is for and who asked for it; without the line of a profile, which changes with lines above it."""
    if isinstance(bind, PackagePlace):
        return "the user's packages (hpcmod add)"
    if bind.origin:
        profile = bind.origin.rpartition("/")[2].partition(":")[0]
        return f"{profile}: {bind.why}" if bind.why else f"site profile {profile}"
    ours = {RUNSCRIPTS_IN_CONTAINER: "the run scripts", USER_LAYER_IN_CONTAINER: "packages of this installation"}
    return ours.get(bind.destination, "the easyconfig")


def render_description(plan: InstallPlan, syntax: str, templates: Templates, *, conflict: str) -> str:
    """Render help, whatis, package list, installation root and conflict, in one of SYNTAXES.

    Any text is shown literally; EasyBuild's own rendering would end at a `]==]` or at an unbalanced brace.
    """
    values = {
        "help": render_help(plan),
        "whatis": _whatis_lines(plan),
        "root": plan.spec.root,
        "conflict": conflict,
        "has_packages": bool(plan.packages),
        "extensions": [f"{package.name}/{package.version}" for package in plan.listed_packages],
    }
    return render_template("description", syntax, templates, values)


def _whatis_lines(plan: InstallPlan) -> list[str]:
    if plan.spec.help_texts.whatis is not None:
        return [_visible(" ".join(line.split())) for line in plan.spec.help_texts.whatis]
    lines = [f"Description: {' '.join(plan.spec.description.split())}"]
    if plan.spec.homepage:
        lines.append(f"Homepage: {plan.spec.homepage}")
    return [_visible(line) for line in lines]


def render_package_list(plan: InstallPlan) -> str:
    """Render libexec/packages: the packages in the image, which `module help` shows as they are; empty if none."""
    listed = ", ".join(_visible(_one_line(f"{package.name}/{package.version}")) for package in plan.packages)
    return f"{_wrap(listed)}\n" if listed else ""


def render_help(plan: InstallPlan) -> str:
    """Render the text of `module help`, after which the modulefile shows the packages.

    Lmod 9 takes a text with headings underlined by = for Markdown, and drops underscores of names.
    """
    root = f"EBROOT{plan.spec.variable}"
    told = plan.spec.help_texts
    sections = [
        ("Description", plan.spec.description.strip()),
        ("Usage", told.usage),
        ("Examples", told.examples),
        ("Citing", told.citing),
        ("Use", _usage(plan)),
        ("Commands", ", ".join((*plan.commands, *(["start-shell"] if plan.has_bash else [])))),
        ("Image", "The first of:\n" + "\n".join(plan.sif_places)),
        ("Image labels", "\n".join(f"{key}: {value}" for key, value in plan.labels if "label-schema.usage" not in key)),
        ("More information", "\n".join(filter(None, [plan.spec.homepage, *list_references(told, root)]))),
    ]
    return _visible("\n\n".join(f"{title}\n{'~' * len(title)}\n{_wrap(text)}" for title, text in sections if text))


def read_help(modulefile: str) -> str:
    """Return the `module help` text from a Lua modulefile made by `render_description`; empty if there is none."""
    match = re.search(r'^ *help\("((?:[^"\\]|\\.)*)"\)$', modulefile, re.MULTILINE)
    return unquote_lua(match[1]) if match else ""


def _wrap(text: str) -> str:
    """Wrap lines that are longer than _COLUMNS; words such as paths are never cut."""
    return "\n".join(
        textwrap.fill(line, width=_COLUMNS, break_long_words=False, break_on_hyphens=False)
        if len(line) > _COLUMNS
        else line
        for line in text.split("\n")
    )


def _usage(plan: InstallPlan) -> str:
    """Render the commands, each with its meaning on a separate line: the commands are too long for columns."""
    variable, has_bash = plan.spec.variable, plan.has_bash
    has_python = bool(plan.packages) or any(name.startswith("python") for name in plan.commands)
    python = {
        "singularity exec $SIF conda-python-simple ARGS": "one process with the image's Python",
        "srun ... singularity exec $SIF conda-python-distributed ARGS": "one rank of a distributed job",
    }
    own_packages = {
        f"hpcmod add {plan.spec.name} PACKAGES": "your own packages, from then on",
        "HPCMOD_PACKAGES=none": "without them; SET or SET@STATE: with others",
    }
    usage = {
        **(python if has_bash and has_python else {}),
        **({"start-shell [COMMAND ARGS]": "a shell in the container, or one command"} if has_bash else {}),
        **(own_packages if plan.own_packages else {}),
        f"$SIF, $SIF{variable}": "the image",
        f"$RUNSCRIPTS, $RUNSCRIPTS{variable}": "the run scripts; inside the container: /runscripts",
        "$CONTAINERROOT/README": "what each file does, and where to change what",
    }
    return "\n".join(f"{typed}\n    {meaning}" for typed, meaning in usage.items())

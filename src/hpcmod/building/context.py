"""The build context of an image: the Dockerfile or definition file, the component scripts and their sources."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from hpcmod.building.text.recipe import render_context, render_definition, render_dockerfile
from hpcmod.building.values.build_plan import BuildPlan
from hpcmod.core.errors import NotFoundError
from hpcmod.core.resources import module_templates
from hpcmod.core.values.reference import ImageReference


def write_context(plan: BuildPlan, context: Path, *, form: str) -> Path:
    """Write the build context of a plan, and return the path of the file for the engine.

    `form`: Kind and name of that file: `Dockerfile` or `definition`.

    Raises NotFoundError if one of the plan's sources is a broken link.
    """
    file = context / form
    if plan.own_text:
        file.write_text(plan.own_text)
        return file
    placed, templates = replace(plan, base=_from_anywhere(plan.base)), module_templates()
    render = render_dockerfile if form == "Dockerfile" else render_definition
    file.write_text(render(placed, templates=templates))
    for name, text in render_context(placed).items():
        target = context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path, inside in plan.inputs:
        _put(Path(path), context / inside)
    return file


def _from_anywhere(text: str) -> str:
    """Return a base reference with an absolute path, because engines run in their own directory."""
    if not text:
        return ""
    base = ImageReference.parse(text)
    path = os.fspath(Path(base.path).absolute()) if base.path else ""
    return replace(base, path=path, text=path or base.text).canonical


def _put(path: Path, target: Path) -> None:
    """Copy a file or a directory tree into the build context."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, copy_function=_link)
    else:
        _link(os.fspath(path), os.fspath(target))


def _link(source: str, target: str) -> None:
    """Hard-link a file if it is on the same disk and ours, else copy it; symbolic links are followed."""
    try:
        os.link(os.path.realpath(source), target)  # os.link does not follow symbolic links on Linux
    except FileNotFoundError as err:
        raise NotFoundError(
            f"{source}: broken symbolic link", "Fix the link, or remove it from the directory."
        ) from err
    except OSError:
        shutil.copyfile(source, target)

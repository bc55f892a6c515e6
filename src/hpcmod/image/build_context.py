"""The directory that an image is built from: what an engine reads, the scripts of the components, and their sources."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from hpcmod import resources
from hpcmod.errors import NotFoundError
from hpcmod.model.recipes.build_plan import BuildPlan
from hpcmod.model.reference import ImageReference
from hpcmod.render.recipe import render_context, render_definition, render_dockerfile


def write_context(plan: BuildPlan, context: Path, *, form: str) -> Path:
    """Fill the build context of a plan, and give the file in it that the engine is to read.

    Parameters
    ----------
    form
        What that file is, and is called: `Dockerfile` or `definition`.

    Raises
    ------
    NotFoundError
        If one of the plan's sources is a link that leads to nothing.
    """
    found, templates = replace(plan, base=_from_anywhere(plan.base)), resources.module_templates()
    render = render_dockerfile if form == "Dockerfile" else render_definition
    file = context / form
    file.write_text(render(found, templates=templates))
    for name, text in render_context(found).items():
        target = context / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for path, inside in plan.inputs:
        _put(Path(path), context / inside)
    return file


def _from_anywhere(text: str) -> str:
    """Name a base as it is found from every directory, for engines work in their own."""
    if not text:
        return ""
    base = ImageReference.parse(text)
    path = os.fspath(Path(base.path).absolute()) if base.path else ""
    return replace(base, path=path, text=path or base.text).canonical


def _put(path: Path, target: Path) -> None:
    """Put a file, or a directory with all below it, into the build context."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, copy_function=_link)
    else:
        _link(os.fspath(path), os.fspath(target))


def _link(source: str, target: str) -> None:
    """Give a file a second name where it is on the same disk and ours, else copy it; links are followed."""
    try:
        os.link(os.path.realpath(source), target)  # link itself follows none on Linux
    except FileNotFoundError as err:
        raise NotFoundError(f"{source}: leads to nothing", "Fix the link, or leave it out of the directory.") from err
    except OSError:
        shutil.copyfile(source, target)

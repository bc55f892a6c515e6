"""Find the module of a job before the job is written: which copy, by its full name, and how a fresh shell gets it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue.copies import loading_commands
from hpcmod.cli.containers import find_meant, find_ready, look_around
from hpcmod.cli.output import tell
from hpcmod.errors import HpcmodError, NotFoundError
from hpcmod.install.installed import Installed, find_installed
from hpcmod.install.module_tool import find_init, find_modulefile, has_module_tool, module_name
from hpcmod.install.runtime import find_runtime
from hpcmod.model.jobs.module import JobModule
from hpcmod.model.site import Site

_SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/local/sbin")
"""Directories that are on PATH in every shell."""


def find_module(text: str, site: Site, *, elsewhere: bool) -> tuple[JobModule, Installed | None]:
    """Find the module of a job, and its installation: None where it is not one of hpcmod's, or nothing is known here.

    Parameters
    ----------
    elsewhere
        Whether the job is for another machine, of which only the profile is known.

    Raises
    ------
    NotFoundError
        If there is none, with the nearest name.
    """
    if not text or text.endswith(".py"):  # a missing name is the request's to refuse
        return JobModule(text), None
    if elsewhere:
        return JobModule(text, init=site.job.module_init), _find_quietly(text)
    here = look_around(None)
    init, modulecmd = find_init(os.environ)
    shell = JobModule(text, init=site.job.module_init or init, modulecmd=modulecmd, path=_runtime_directory())
    try:
        found = find_ready(here, text)
    except NotFoundError:
        modulefile = find_modulefile(text, os.environ)
        name = module_name(modulefile, os.environ) if modulefile else ""
        if modulefile and name:  # a module of somebody else's that sets SIF, as LUMI's do
            return replace(shell, name=name, trees=(str(modulefile.parents[name.count("/")]),)), None
        if has_module_tool(os.environ) or here.catalogues or next(find_installed(here.trees), None):
            raise
        tell(f"there is no module tool and no catalogue here, so it was not checked that there is a module {text}")
        return shell, None
    commands = loading_commands(found, os.environ, fresh=True)
    return replace(
        shell,
        name=found.module,
        trees=tuple(words[2] for words in commands if words[1] == "use"),
        unused=tuple(words[2] for words in commands if words[1] == "unuse"),
        sha256=found.of_image("sha256"),
        source=_source(found),
    ), found


def _find_quietly(text: str) -> Installed | None:
    """Return what is installed here under a name that is meant for another machine, for what its image tells."""
    try:
        here = look_around(None, say=lambda _: None)
        copies = here.copies(find_meant(here, text)[0])
    except HpcmodError:
        return None
    return copies.meant if copies else None


def _source(found: Installed) -> str:
    """Return what the image was made of, with its digest; empty if the record does not say."""
    record = found.record.get("provenance")
    known = record if isinstance(record, dict) else {}
    reference, digest = str(known.get("reference") or ""), str(known.get("digest") or "")
    return reference if not digest or digest in reference else f"{reference}@{digest}"


def _runtime_directory() -> str:
    """Return the directory of the container runtime, if a fresh shell might not have it on PATH."""
    path = os.environ.get("PATH", "").split(":")
    own = f"{os.environ.get('CONTAINERROOT', '')}/bin"  # the wrappers of a loaded module
    found = find_runtime({"PATH": ":".join(place for place in path if place != own)})
    directory = str(Path(found).parent) if found else ""
    return "" if directory in _SYSTEM else directory

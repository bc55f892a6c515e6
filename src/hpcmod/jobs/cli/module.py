"""Find the module of a job: its full name, which copy, and how a fresh shell loads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hpcmod.catalogue import find_meant, find_ready, loading_commands, look_around
from hpcmod.core.cli.output import tell
from hpcmod.core.errors import HpcmodError, NotFoundError
from hpcmod.jobs.values.request import JobModule
from hpcmod.machine import find_init, find_module_tool, find_modulefile, find_runtime, module_name
from hpcmod.machine.values.site import Site
from hpcmod.modules import Installed, find_installed, find_own_state, host_environment
from hpcmod.modules.values.place import CHOOSING

_SYSTEM = ("/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin", "/sbin", "/usr/local/sbin")
"""Directories that are on PATH in every shell."""


def find_module(
    text: str, site: Site, environ: Mapping[str, str], *, chosen: bool, elsewhere: bool
) -> tuple[JobModule, Installed | None]:
    """Return the module of a job, and its installation; None if it was not installed by hpcmod or is not known here.

    `environ`: Has the variables that choose packages, also those that only the job gets.
    `chosen`: Whether the user named the profile: the catalogues are still those of this machine's own.
    `elsewhere`: Whether the job is for another machine, where only the profile is known.

    Raises NotFoundError if the module does not exist; its cure has the closest name.
    """
    if not text or text.endswith(".py"):  # a missing name is reported when the request is made
        return JobModule(text), None
    if elsewhere:
        return JobModule(text, init=site.job.module_init), _find_quietly(text)
    here = look_around(None, profile=None if chosen else site)
    init, modulecmd = find_init(os.environ)
    shell = JobModule(text, init=site.job.module_init or init, modulecmd=modulecmd, path=_runtime_directory())
    try:
        installed = find_ready(here, text)
    except NotFoundError:
        modulefile = find_modulefile(text, os.environ)
        name = module_name(modulefile, os.environ) if modulefile else ""
        retired = modulefile and any(catalogue.modules in modulefile.parents for catalogue in here.catalogues)
        if modulefile and name and not retired:  # a container module not made by hpcmod that sets SIF, as LUMI's do
            return replace(shell, name=name, trees=(str(modulefile.parents[name.count("/")]),)), None
        if find_module_tool(os.environ) or here.catalogues or next(find_installed(here.trees), None):
            raise
        tell(f"no module tool and no catalogue found, so the module {text} was not checked")
        return shell, None
    commands, own = loading_commands(installed, os.environ, fresh=True), installed.record.own_packages
    return replace(
        shell,
        name=installed.module,
        trees=tuple(words[2] for words in commands if words[1] == "use"),
        unused=tuple(words[2] for words in commands if words[1] == "unuse"),
        sha256=installed.image.sha256,
        source=_source(installed),
        packages=find_own_state(own, environ) if own else "",
        choice=tuple((name, environ[name]) for name in CHOOSING if own and environ.get(name)),
    ), installed


def _find_quietly(text: str) -> Installed | None:
    """Return the local installation of a module for another machine, to read its image; None if not installed."""
    try:
        here = look_around(None, say=lambda _: None)
        copies = here.copies(find_meant(here, text)[0])
    except HpcmodError:
        return None
    return copies.meant if copies else None


def _source(found: Installed) -> str:
    """Return the reference that the image was made from, with its digest; empty if the record has none."""
    known = found.record.provenance
    if known is None:
        return ""
    reference, digest = known.reference, known.digest
    return reference if not digest or digest in reference else f"{reference}@{digest}"


def _runtime_directory() -> str:
    """Return the directory of the container runtime, if a fresh shell might not have it on PATH."""
    runtime = find_runtime(host_environment(os.environ))
    directory = str(Path(runtime).parent) if runtime else ""
    return "" if directory in _SYSTEM else directory

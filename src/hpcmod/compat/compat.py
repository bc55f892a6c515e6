"""Check whether an image fits this machine, only from its files and the host's: nothing is started.

The container's file system is assembled as the module would: the image, over it the binds that exist on this node, the
captured host libraries first on the search path, and what --nv or --rocm add last. Then the loader's rules determine
the file of each needed library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from hpcmod.compat.host_stack import HostLibraries, find_injected, read_host, read_libraries
from hpcmod.compat.inspect.files import ContainerFiles
from hpcmod.compat.inspect.library_path import INJECTED
from hpcmod.compat.inspect.search import find_search
from hpcmod.compat.inspect.stack import find_directories, find_stack, open_files
from hpcmod.compat.values.loader import Closure, Search, find_closure, find_library
from hpcmod.compat.values.mpi import HOST, MPICH, OPEN_MPI_4, OPEN_MPI_5
from hpcmod.compat.values.rules import RULES
from hpcmod.compat.values.stack import (
    COLLECTIVES,
    DRIVER,
    FABRIC,
    MPI,
    MPI4PY,
    OPEN_MPI,
    PART,
    PLUGIN,
    Fabric,
    Mpi,
    StackFacts,
)
from hpcmod.compat.values.stack import MPICH as MPICH_FAMILY
from hpcmod.compat.values.verdict import Case, HostFacts, Loaded, Unmet, Verdict, find_unmet, judge
from hpcmod.core.errors import HpcmodError
from hpcmod.core.values.finding import FAIL, WARN, Finding
from hpcmod.images import Sif
from hpcmod.machine import read_version
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import IN_CONTAINER, Site
from hpcmod.modules import explain_binds
from hpcmod.modules.values.swap import swaps_libraries

_Kind = TypeVar("_Kind", Fabric, Mpi)
_FOLLOWED = re.compile(r"lib(?:fabric|mpi|mpich|mpi_abi|cxi)\.so")  # libraries that need these are checked themselves


def check_compat(sif: Path, site: Site, environ: Mapping[str, str]) -> Verdict:
    """Return whether an image fits this machine; parameters and errors are those of make_case."""
    return judge(make_case(sif, site, environ), RULES)


def explain_image(image: Path, site: Site, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each problem of an image on this machine."""
    try:
        verdict = check_compat(image, site, environ)
    except HpcmodError as err:
        yield err.message
        return
    yield from map(describe_finding, (*verdict.at(FAIL), *verdict.at(WARN)))


def describe_finding(finding: Finding) -> str:
    """Return a finding with its level and cure, in a line."""
    return f"{finding.level}: {finding.found}. {finding.cure}".strip()


def read_image_mpi(image: Path, site: Site, environ: Mapping[str, str]) -> str:
    """Return the name of an image's MPI from hpcmod.compat.values.mpi; empty if it has none, or cannot be read."""
    if not image.is_file():
        return ""
    try:
        return name_mpi(make_case(image, site, environ))
    except HpcmodError:  # the checks of the image report the error
        return ""


def name_mpi(case: Case) -> str:
    """Return the name of the MPI that programs use, from everything known about an image on a machine."""
    own = case.image.mpi
    if own is None:
        return ""
    if any((mpi.family, mpi.soname) == (own.family, own.soname) for mpi in case.host.mpis):
        return HOST
    if own.family == OPEN_MPI:
        return OPEN_MPI_4 if own.has_orte else OPEN_MPI_5
    return MPICH if own.family == MPICH_FAMILY else ""


def make_case(
    sif: Path,
    site: Site,
    environ: Mapping[str, str],
    *,
    binds: Sequence[Bind] = (),
    libraries: HostLibraries | None = None,
    root: Path = Path("/"),
) -> Case:
    """Collect everything that the rules need.

    `environ`: The user's own binds are read from it.
    `binds`: Binds of the easyconfig, in addition to the site's.
    `libraries`, `root`: Libraries and root of the host, if it is not this machine.

    Raises HpcmodError if the image cannot be read.
    """
    facts = Sif(sif).facts()
    libraries = libraries or read_libraries()
    swaps = swaps_libraries(facts, site)
    bound = _find_binds(site, environ, binds, swaps=swaps)
    injected = tuple(find_injected(site, libraries, root=root))
    with open_files(sif) as files:
        image = find_stack(files, facts)
        view = files.with_binds((*bound, *injected))
        first = (IN_CONTAINER,) if swaps and IN_CONTAINER in dict(bound) else ()
        search, _ = find_search(view, facts.architecture, first)
        last = site.network.netstack.search_last if swaps else ()
        own = [directory for directory in search.library_path if directory != INJECTED]
        search = replace(search, library_path=(*own, *last, INJECTED))
        seen = find_stack(view, facts, first)
        host = _see_host(read_host(libraries, root=root), seen, view, search, next(iter(first), ""))
        more = replace(search, defaults=(*search.defaults, *find_directories(view, search, facts)))
        if image.compression == "zstd":  # only then does it matter
            host = replace(host, runtime=read_version(environ))
        loader = _Loader((image, seen), files, view, (search, more))
        loaded = tuple(_load_all(image, loader, injected)) if image.libc != "musl" else ()
        hidden = tuple(_find_hidden(host.netstack, files, view, search)) if host.netstack else ()
    return Case(image, host, site, loaded, hidden)


def _find_binds(
    site: Site, environ: Mapping[str, str], binds: Sequence[Bind], *, swaps: bool
) -> tuple[tuple[str, str], ...]:
    """Return what is bound on this node: path in the container, and source."""
    groups = (*(site.all_binds if swaps else site.binds.always), *((bind,) for bind in binds))
    kept = [finding.bind for finding in explain_binds(groups, environ) if finding.kept]
    return tuple((bind.place, bind.source) for bind in kept)


def _see_host(host: HostFacts, seen: StackFacts, view: ContainerFiles, search: Search, netstack: str) -> HostFacts:
    """Return the facts with what containers see of the host's libraries."""
    mpis = [mpi for mpi in seen.mpis if view.on_host(view.real(mpi.path))]
    return replace(
        host,
        mpis=tuple(mpi for mpi in mpis if view.real(find_library(mpi.soname, view, search)) == view.real(mpi.path)),
        fabrics=tuple(fabric for fabric in seen.fabrics if view.on_host(view.real(fabric.path))),
        netstack=netstack,
    )


def _find_hidden(netstack: str, own: ContainerFiles, view: ContainerFiles, search: Search) -> Iterator[Unmet]:
    """Yield host libraries that replace one of the image's own that defines more versions."""
    for name in view.listdir(netstack):
        path = find_library(name, own, search)
        mine, theirs = own.elf(path) if path else None, view.elf(f"{netstack}/{name}")
        if mine and theirs and theirs.versions_defined and not _FOLLOWED.match(name):
            missing = [version for version in mine.versions_defined if version not in theirs.versions_defined]
            yield from (Unmet(version, f"{netstack}/{name}", path) for version in missing if "PRIVATE" not in version)


def _load_all(image: StackFacts, loader: _Loader, injected: Sequence[tuple[str, str]]) -> Iterator[Loaded]:
    if image.mpi is not None:
        yield loader.load(MPI, image.mpi.soname, image.mpi.path)
    plugins = [loader.load(PLUGIN, plugin.path.rpartition("/")[2], plugin.path) for plugin in image.plugins]
    yield from {loaded.path: loaded for loaded in plugins}.values()  # of several with one name, NCCL gets the first
    before = (image.mpi.path,) if image.mpi else ()  # what a program has loaded before it loads a part of its MPI
    others = [loader.load(kind, "", path, before=before if kind == PART else ()) for kind, path in image.others]
    yield from (loaded for loaded in others if loaded.what != MPI4PY)
    variants = [loaded for loaded in others if loaded.what == MPI4PY]  # one for each family of MPI
    yield from [loaded for loaded in variants if not loaded.missing and not loaded.unmet] or variants[:1]
    if image.fabric is not None:
        yield loader.load(FABRIC, "libfabric.so.1", image.fabric.path)
    for path, _ in injected:
        yield loader.load(DRIVER, path.rpartition("/")[2], path)


class _Loader:
    """Loads the image's libraries as a container on this machine would."""

    def __init__(
        self,
        stacks: tuple[StackFacts, ...],
        own: ContainerFiles,
        view: ContainerFiles,
        searches: tuple[Search, Search],
    ) -> None:
        self._own, self._view = own, view
        self._search, self._everywhere = searches
        self._fabrics = {view.real(fabric.path): fabric for stack in stacks for fabric in stack.fabrics}
        self._mpis = {view.real(mpi.path): mpi for stack in stacks for mpi in stack.mpis}

    def load(self, what: str, name: str, path: str, *, before: tuple[str, ...] = ()) -> Loaded:
        """Load the library found by name, or else the file at a path; `before` is already loaded."""
        named = find_library(name, self._view, self._search) if name else path
        if named and self._machine(named) != self._machine(path):
            named = path  # a program for this machine skips files for another
        roots = (*before, named or path)
        closure = find_closure(roots, self._view, self._search)
        elsewhere: tuple[tuple[str, str], ...] = ()
        if closure.missing:
            names = {name for name, _ in closure.missing}
            closure = find_closure(roots, self._view, self._everywhere)
            elsewhere = tuple((library.name, library.path) for library in closure.libraries if library.name in names)
        guessed = {guess for _, guess in elsewhere}  # these are only guesses, so nothing is reported about them
        return Loaded(
            what,
            named or path,
            by_name=bool(named),
            missing=closure.missing,
            elsewhere=elsewhere,
            unmet=tuple(need for need in find_unmet(closure) if not guessed & {need.provider, need.wanted_by}),
            fabric=self._one_of(self._fabrics, closure, guessed),
            mpi=self._one_of(self._mpis, closure, guessed),
            from_host=tuple(library.path for library in closure.libraries if self._view.on_host(library.real)),
            replaced=tuple(self._replaced(closure)) if what == COLLECTIVES else (),
        )

    def _machine(self, path: str) -> str:
        elf = self._view.elf(path)
        return elf.machine if elf else ""

    def _one_of(self, known: Mapping[str, _Kind], closure: Closure, guessed: set[str]) -> _Kind | None:
        sure = (library for library in closure.libraries if library.path not in guessed and library.real in known)
        return next((replace(known[library.real], path=library.path) for library in sure), None)

    def _replaced(self, closure: Closure) -> Iterator[tuple[str, str]]:
        for library in closure.libraries:
            own = find_library(library.name, self._own, self._search) if self._view.on_host(library.real) else ""
            if own:
                yield library.path, own

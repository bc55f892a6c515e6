"""Shared by the commands of users: list the containers on this machine, and find one by name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from hpcmod.catalogue.finding.copies import Copies, find_copies, find_loaded_by, loading_lines
from hpcmod.catalogue.finding.find import OTHER_PREFIX, Container, did_you_mean, find_container, find_variant
from hpcmod.catalogue.records.store import Catalogue, catalogue_directories, is_catalogue, open_catalogue
from hpcmod.catalogue.values.order import begins_with, release_key
from hpcmod.core.cli.arguments import complete_file
from hpcmod.core.cli.output import tell
from hpcmod.core.errors import BusyError, HpcmodError, NotFoundError, explain_os_error
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.facts import architecture_name
from hpcmod.machine import find_machine
from hpcmod.machine.values.site import Site
from hpcmod.machine.values.targets import runs_on
from hpcmod.modules import (
    Installed,
    find_installed,
    find_without_modulefile,
    module_trees,
    own_module_trees,
    own_prefixes,
    own_trees,
)
from hpcmod.modules.values.install_record import MODULES

if TYPE_CHECKING:
    from hpcmod.catalogue.finding.listing import Listed
    from hpcmod.catalogue.records.index import Index
    from hpcmod.catalogue.values.record import CatalogueRecord


def complete_image(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete a container name, or else a file path."""
    return complete_container(ctx, parameter, incomplete) or complete_file(ctx, parameter, incomplete)


@dataclass(frozen=True)
class Here:
    """A machine as it looks to a user."""

    site: Site
    catalogues: tuple[Catalogue, ...]
    trees: tuple[Path, ...]
    """Directories of modulefiles, except those of the catalogues."""
    all_trees: tuple[Path, ...]
    """All directories of modulefiles, in search order: MODULEPATH, the user's own, catalogues."""
    say: Callable[[str], None]
    """Called with messages, e.g. one for each catalogue that cannot be used; the others still are."""

    def gpu_targets(self) -> tuple[str, ...]:
        """Return the micro-architectures of this machine's GPUs; empty if not known."""
        from hpcmod.machine import find_gpu_targets  # few commands ask

        return find_gpu_targets(self.site)

    def indexes(self) -> list[Index]:
        """Return the index of each catalogue, and report damaged entries."""
        from hpcmod.catalogue.records.index import read_index  # what finds one container by its name need not import it

        indexes = [read_index(catalogue) for catalogue in self.catalogues]
        for message in (message for index in indexes for message in index.damaged):
            self.say(message)
        return indexes

    def own(self) -> list[Installed]:
        """Return the user's own installations."""
        return list(find_installed(self.own_trees()))

    def own_trees(self) -> tuple[Path, ...]:
        """Return the trees of the user's own installations; a catalogue that is not configured (any more) has none."""
        return tuple(tree for tree in own_trees(self.trees) if not is_catalogue(tree / "../.."))

    def copies(self, module: str) -> Copies | None:
        """Return the installed copies of a module, by its full name; None if not installed."""
        return find_copies(module, self.all_trees, os.environ)

    def is_own(self, copy: Installed) -> bool:
        """Return whether a copy is the user's own rather than the site's."""
        return any(tree in copy.modulefile.parents for tree in self.own_trees())

    def is_published(self, copy: Installed) -> bool:
        """Return whether a copy is that of a catalogue."""
        return any(catalogue.modules in copy.modulefile.parents for catalogue in self.catalogues)

    def unpublished(self, environ: Mapping[str, str]) -> list[str]:
        """Return the directories of MODULEPATH that are not those of a catalogue."""
        published = {os.path.realpath(catalogue.modules) for catalogue in self.catalogues}
        places = environ.get("MODULEPATH", "").split(":")
        return [place for place in places if place and os.path.realpath(place) not in published]

    def containers(self) -> list[Listed]:
        """Return all published and installed containers."""
        from hpcmod.catalogue.finding.listing import list_containers

        architecture = architecture_name(os.uname().machine)
        containers = list_containers(self.indexes(), self.own(), site=self.site.name, architecture=architecture)
        return [self._with_copy(listed) for listed in containers]

    def _with_copy(self, listed: Listed) -> Listed:
        """Add which copy of a listed container is used; the module tool is asked only if there are two."""
        from hpcmod.catalogue.finding.listing import READY

        if listed.place != READY:
            return listed
        copies = self.copies(listed.module) if listed.yours and listed.catalogue else None
        own = self.is_own(copies.meant) if copies else listed.yours
        return replace(listed, copy="own" if own else "site")


def look_around(site: str | None, *, say: Callable[[str], None] | None = None, profile: Site | None = None) -> Here:
    """Return the site profile, catalogues and module trees of this machine.

    `profile`: The site profile, if it was read before.

    Raises HpcmodError if the site profile is not valid.
    """
    found = profile or find_machine(None, os.environ, flag=site).site
    catalogues = []
    for directory in catalogue_directories(found, os.environ):
        try:
            catalogues.append(open_catalogue(directory))
        except (HpcmodError, OSError) as err:  # a file system may be down; the other catalogues still work
            fault = explain_os_error(err) if isinstance(err, OSError) else err
            (say or tell)(f"{fault.message}; its containers are not listed. Contact your site's support.")
    own = own_module_trees(found, os.environ)
    published = [catalogue.modules for catalogue in catalogues]
    trees = module_trees(os.environ, more=own, without=published)
    everywhere = module_trees(os.environ, more=[*own, *published])
    return Here(found, tuple(catalogues), trees, everywhere, say or tell)


def names_image(text: str) -> bool:
    """Return whether a word of a user names an image: a reference with its transport, a SIF, the path of a layout."""
    from hpcmod.core.values.reference import OCI_KINDS, TRANSPORT, ImageReference  # not needed for `ls`
    from hpcmod.images import recognize

    if TRANSPORT.match(text) or text.endswith((".sif", ".simg", ".img", ".def")):
        return True
    is_path = text.startswith(("./", "../", "/")) and not text.endswith((".eb", ".def", "/"))
    return is_path and recognize(ImageReference.parse(text)).kind in OCI_KINDS


def find_own(here: Here, text: str, *, writable: bool = False) -> Installed | None:
    """Return the installed module that matches, outside the catalogues; of several versions, the highest."""
    trees, name = here.own_trees() if writable else here.trees, text.partition("/")[0]
    installed = sorted(find_installed(trees, name), key=lambda copy: release_key(copy.version)) if name else []
    every = [own for own in installed if own.name == text]
    matching = every or [own for own in installed if text.startswith(f"{own.name}/") and begins_with(own.module, text)]
    exact = [own for own in installed if own.module == text]
    if len(matching) > 1 and not every and not exact:
        raise NotFoundError(f"{text} is ambiguous", "Choose one of: " + ", ".join(own.module for own in matching))
    return (exact or matching)[-1] if matching else None


def find_published(here: Here, text: str) -> Container:
    """Return the container of the catalogues that matches NAME, NAME/VERSION or NAME/ALIAS.

    Raises NotFoundError if none matches; its cure has the closest name in the catalogues, else the closest installed
    name.
    """
    try:
        return find_container(here.catalogues, text, machine=os.uname().machine, gpus=here.gpu_targets)
    except NotFoundError as err:
        cure = did_you_mean(text, (copy.name for copy in find_installed(here.trees)))
        if "Did you mean" in err.cure or "Available: " in err.cure or "Did you mean" not in cure:
            raise
        raise NotFoundError(err.message, f"{cure}. {OTHER_PREFIX}") from err


def name_variant(here: Here, module: str, targets: Sequence[str]) -> str:
    """Return a line that names a published variant for the GPUs of this machine, for a module that is built for others.

    Empty if the module may be for these GPUs, or there is no such variant.
    """
    gpus = here.gpu_targets()
    if runs_on(targets, gpus) is not False:
        return ""
    fits = find_variant(here.catalogues, module.partition("/")[0], machine=os.uname().machine, gpus=gpus)
    return f"{module} is not built for the GPUs here ({' '.join(gpus)}); {fits} is" if fits else ""


def find_ready(here: Here, text: str, *, even_retired: bool = False) -> Installed:
    """Return the installed copy of a container to use, and report which one if there are several.

    `even_retired`: Return also one that no longer loads.

    Raises NotFoundError if it is not installed; its cure is the command that installs it.
    """
    module, container = find_meant(here, text)
    record = container.read() if container else None
    if container and record:
        from hpcmod.catalogue.publishing.terms import check_terms  # `hpcmod ls` does not need it

        check_terms(container.catalogue, record, os.environ)
    copies = here.copies(module)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    published = None if copies and here.is_own(copies.meant) else record
    if published and published.state == "retired" and published.notice.until <= today and not even_retired:
        own = next((copy for copy in copies.others if here.is_own(copy)), None) if copies else None
        raise retired_error(published, " ...", own)
    if copies is None:
        raise NotFoundError(f"{module} is not installed here", f"Install it: hpcmod install {module}")
    if published:
        _report_state(published)
    report_copy(here, copies)
    return copies.meant


def find_meant(here: Here, text: str) -> tuple[str, Container | None]:
    """Return the full name of the module that `module load TEXT` would load, and its container if it is published.

    A module that the module tool does not know, because it is not on MODULEPATH or the text is an alias, is looked for
    among the user's own installations and then in the catalogues.

    Raises NotFoundError if no module matches.
    """
    own = find_loaded_by(text, os.environ) or find_own(here, text)
    if own is None:
        container = find_published(here, text)
        return container.module, container
    publishing = (catalogue for catalogue in here.catalogues if catalogue.record_path(own.name, own.version).is_file())
    return own.module, next((Container(catalogue, own.name, own.version) for catalogue in publishing), None)


def find_copy(here: Here, text: str) -> Installed:
    """Return the installed copy of a container that `module load` would load.

    If there is none, it may be an installation of the user whose modulefile was deleted.

    Raises NotFoundError if it is not installed; LackingError if only others may use it.
    """
    broken = find_broken(here, text)
    if broken:
        return broken
    module, container = find_meant(here, text)
    copies = here.copies(module)
    if container and (copies is None or here.is_published(copies.meant)):
        container.read_if_allowed()
    if copies is None:
        raise NotFoundError(f"{module} is not installed here", f"Install it: hpcmod install {sh_word(module)}")
    return copies.meant


def find_broken(here: Here, text: str) -> Installed | None:
    """Return the user's installation that matches and whose modulefile was deleted; None if there is none.

    A name without a version matches only if the user has no other version of it.
    """
    prefixes = own_prefixes(here.site, os.environ)
    trees = [*here.own_trees(), *(prefix / MODULES for prefix in prefixes)]
    broken = list(find_without_modulefile(trees, text))
    return broken[-1] if broken and ("/" in text or find_own(here, text) is None) else None


def report_copy(here: Here, copies: Copies) -> None:
    """Report once in a command which copy is used, if there is more than one."""
    context = click.get_current_context(silent=True)
    if not copies.others or (context and context.meta.get(__name__) == copies.meant.module):
        return
    if context:
        context.meta[__name__] = copies.meant.module
    if here.is_own(copies.meant):
        tell(f"using your own copy of {copies.meant.module}, in {copies.meant.root}")
        return
    own = next((copy for copy in copies.others if here.is_own(copy)), None)
    if own:
        line = "; ".join(loading_lines(own, os.environ)[:-1])
        tell(f"using the site's copy of {own.module}; to use your own, in {own.root}: {line}")


def _report_state(record: CatalogueRecord) -> None:
    notice = record.notice
    if record.state != "published":
        until = f" until {notice.until}" if notice.until else ""
        use = f"; use {notice.successor}" if notice.successor else ""
        tell(f"{record.module} is {record.state}{until}{f': {notice.reason}' if notice.reason else ''}{use}")


def check_not_loaded(module: str) -> None:
    """Raise BusyError if a version of a module is loaded in this shell; `eb` does so too, but suggests no fix."""
    for loaded in loaded_modules():
        if loaded.rpartition("/")[0] == module.rpartition("/")[0]:
            cure = f"module unload {sh_word(loaded)}, and run this again."
            raise BusyError(f"{loaded} is loaded in this shell", cure)


def loaded_modules() -> tuple[str, ...]:
    """Return the modules that may be loaded containers: if a container is loaded, all modules of this shell."""
    first = os.environ.get("_HPCMOD_CONTAINER", "").rpartition(" ")[2]
    others = os.environ.get("LOADEDMODULES", "").split(":") if first else []
    return tuple(dict.fromkeys(name for name in (first, *others) if name))


def retired_error(record: CatalogueRecord, more: str = "", own: Installed | None = None) -> NotFoundError:
    """Return the error for a retired container; its cure is the same command with the successor, and more words.

    `own`: The user's own copy, which still loads.
    """
    context = click.get_current_context(silent=True)
    notice = record.notice
    why = f": {notice.reason}" if notice.reason else ""
    command = f": hpcmod {context.info_name} {notice.successor}{more}" if context and "/" in notice.successor else ""
    cure = f"Use {notice.successor}{command}" if notice.successor else "See: hpcmod ls"
    if own:
        cure = f"To use your own copy, in {own.root}: {'; '.join(loading_lines(own, os.environ)[:-1])}\n{cure}"
    return NotFoundError(f"{record.module} is retired{why}", cure)


def complete_container(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a container, with its versions once only one name matches."""
    given = ctx.params.get(parameter.name or "") or ()
    if isinstance(given, tuple) and any(not word.startswith("-") for word in given):
        return []
    try:
        listed = look_around(None, say=lambda _: None).containers()
    except (HpcmodError, OSError):  # a shell shows no errors of completion
        return []
    modules = [container.module for container in listed if container.yours or container.state != "retired"]
    names = list(dict.fromkeys(module.rpartition("/")[0] for module in modules))
    matching = [name for name in names if name.lower().startswith(incomplete.lower())]
    if "/" in incomplete or len(matching) == 1:
        matching = [module for module in modules if module.lower().startswith(incomplete.lower())]
    return [CompletionItem(name) for name in matching]


container_argument = click.argument("container", metavar="NAME[/VERSION]", shell_complete=complete_container)

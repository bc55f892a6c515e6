"""The commands that find containers: ls, search, info."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hpcmod.catalogue.cli.containers import Here, complete_container, find_meant, find_own, find_published, look_around
from hpcmod.catalogue.cli.outputs import (
    ContainerComparison,
    ContainerList,
    ImageContent,
    InstalledCopies,
    InstalledCopy,
    OwnContainer,
    PublishedContainer,
    SearchResult,
)
from hpcmod.catalogue.finding.copies import Copies, loading_lines
from hpcmod.catalogue.finding.find import NO_CATALOGUE, Container, did_you_mean
from hpcmod.catalogue.finding.listing import ELSEWHERE, READY, Listed
from hpcmod.catalogue.records.store import is_refused
from hpcmod.catalogue.values.record import CatalogueRecord, ContainerContent, for_all, refusal
from hpcmod.core.cli.arguments import site_option
from hpcmod.core.cli.output import (
    format_size,
    json_option,
    print_data,
    print_json,
    print_table,
    print_wrapped,
    tell,
    terminal_width,
)
from hpcmod.core.errors import NotFoundError
from hpcmod.core.text.quote import sh_word
from hpcmod.core.values.facts import comparable_name
from hpcmod.modules import Installed
from hpcmod.modules.values.install_record import InstallRecord
from hpcmod.modules.values.place import CHOICE_VARIABLE, base_directory

if TYPE_CHECKING:
    from hpcmod.catalogue.finding.compare import ContainerDifference
    from hpcmod.catalogue.finding.search import Hit
    from hpcmod.core.values.facts import ImageFacts, Package


@click.command("ls")
@click.argument("text", metavar="[TEXT]", default="", shell_complete=complete_container)
@click.option("--ready", is_flag=True, help="Only containers that are ready to use.")
@click.option("--all", "everything", is_flag=True, help="Include retired containers, and those for other machines.")
@site_option
@json_option(ContainerList)
def list_verb(text: str, ready: bool, everything: bool, site: str | None, as_json: bool) -> None:
    """List the containers on this machine.

    Each is ready to use, available to install, or deprecated.

    TEXT is part of a name. Columns: name and version, state, size of the image, machine, aliases and notes. With --all,
    also the files in the site's directories of images.

    \b
    Examples:
      hpcmod ls
      hpcmod ls --ready torch
      hpcmod ls --json | jq -r '.containers[] | select(.state == "deprecated").module'
    """
    here = look_around(site)
    listed_here = here.containers()
    shown = [
        listed
        for listed in listed_here
        if text.lower() in listed.module.lower()
        and (everything or (listed.place != ELSEWHERE and (listed.state != "retired" or listed.yours)))
        and (listed.place == READY or not ready)
    ]
    if as_json:
        print_json(ContainerList(tuple(shown)))
    elif shown:
        print_table(("MODULE", "STATE", "SIZE", "MACHINE", "NOTES"), map(_row, shown))
    elif not text:
        hidden = ". For other machines, or retired: hpcmod ls --all" if listed_here and not everything else ""
        tell(f"no containers found{hidden}" if here.catalogues else f"no containers found. {NO_CATALOGUE}")
    if everything and not as_json:
        for path in (path for place in here.site.images.central for path in _images_in(Path(place), text)):
            print_data(f"{path}  an image of the site: hpcmod install {sh_word(str(path))}")
    if text and not shown and any(text.lower() in listed.module.lower() for listed in listed_here):
        why = f"each container with {text} in its name is {'not installed, ' * ready}retired or for another machine"
        raise NotFoundError(why, f"To list them: hpcmod ls --all {sh_word(text)}")
    if text and not shown:
        names = (listed.module.rpartition("/")[0] for listed in listed_here)
        raise NotFoundError(f"no container has {text} in its name", did_you_mean(text, names))


def _images_in(directory: Path, text: str) -> Iterator[Path]:
    """Yield the files of a directory that have a text in their name; none if it cannot be read."""
    with suppress(OSError), os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.is_file() and text.lower() in entry.name.lower()]
        yield from (directory / name for name in sorted(names))


def _row(listed: Listed) -> tuple[str, ...]:
    word = listed.state if listed.state != "published" else listed.place
    instead = "to use it" if listed.state == "retired" else "but the site's is used"
    yours = "yours" if listed.copy != "site" else f"yours, {instead}: hpcmod info"
    notes = [",".join(listed.aliases), yours if listed.yours else ""]
    notes += [f"until {listed.until}" if listed.until else "", f"use {listed.successor}" if listed.successor else ""]
    return listed.module, word, format_size(listed.size), listed.machine or "any", "; ".join(filter(None, notes))


@click.command("search")
@click.argument("text")
@site_option
@json_option(SearchResult)
def search_verb(text: str, site: str | None, as_json: bool) -> None:
    """Search containers and their Python packages.

    TEXT==VERSION finds packages whose version starts with VERSION, and 'TEXT>=VERSION,<VERSION' those in a range. If
    nothing matches, similar names do: flash-attention finds flash_attn. gfx90a or sm_90 finds images built for these
    GPUs. Your own installations are searched too.

    \b
    Examples:
      hpcmod search flash-attention
      hpcmod search torch==2.7
      hpcmod search gfx90a
      hpcmod search --json vllm | jq -r '.found[].module'
    """
    from hpcmod.catalogue.finding.search import search, split_conditions

    here = look_around(site)
    own = here.own()
    yours = {copy.module for copy in own}
    found = search(here.indexes(), text, installed=own)
    hits = [hit for hit in found if hit.state != "retired" or hit.module in yours]
    hits += _search_added(here, text)
    if as_json:
        print_json(SearchResult(tuple(hits)))
        if not hits:
            sys.exit(NotFoundError.exit_code)
        return
    if found and not hits:
        retired = ", ".join(hit.module for hit in found)
        raise NotFoundError(f"only retired containers have {text}: {retired}", "Others: hpcmod ls")
    if not hits:
        name, conditions = split_conditions(text)
        others = search(here.indexes(), name, installed=own) if conditions else ()
        versions = sorted({f"{package.name} {package.version}" for hit in others for package in hit.packages})
        if versions:
            raise NotFoundError(
                f"no container has {name} {conditions.removeprefix('==')}", f"There is {', '.join(versions)}."
            )
        raise NotFoundError(f"no container or package is named {text}", "See: hpcmod ls")
    print_table(("MODULE", "STATE", "PACKAGES"), map(_hit_row, hits))


def _hit_row(hit: Hit) -> tuple[str, ...]:
    state = hit.state if hit.state != "published" else ""
    return hit.module, state, ", ".join(f"{package.name} {package.version}" for package in hit.packages)


@click.command("info")
@click.argument("container", metavar="NAME[/VERSION]|IMAGE", shell_complete=complete_container)
@click.option(
    "--diff", "other", metavar="NAME[/VERSION]", shell_complete=complete_container, help="Compare with another."
)
@site_option
@json_option(PublishedContainer, OwnContainer, ImageContent, ContainerComparison)
def info_verb(container: str, other: str | None, site: str | None, as_json: bool) -> None:
    """Show what a container or SIF contains, without starting it.

    Source, tests, packages, commands and environment.

    NAME/ALIAS works, too.

    With --diff: one line for each package or setting that differs, the first -> the other; `-` means missing. Packages
    that you added to your own copy are included. For an installation that is not in a catalogue, the image is compared.

    \b
    Examples:
      hpcmod info PyTorch
      hpcmod info PyTorch/stable --json | jq .container.stack
      hpcmod info PyTorch/2.6 --diff PyTorch/2.7
      hpcmod info image.sif
    """
    if other:
        _show_difference(look_around(site), container, other, as_json=as_json)
        return
    if container.endswith(".sif"):
        _show_image(Path(container), as_json=as_json)
        return
    here = look_around(site)
    try:
        module, published = find_meant(here, container)
    except NotFoundError:
        if not Path(container).is_file():
            raise
        _show_image(Path(container), as_json=as_json)
        return
    copies = here.copies(module)
    if published:
        _show_published(here, published, copies, as_json=as_json)
    elif copies:
        _show_installed(here, copies, as_json=as_json)


def _show_published(here: Here, published: Container, copies: Copies | None, *, as_json: bool) -> None:
    record = published.read()
    refused = is_refused(published.catalogue, record)
    record = for_all(record) if refused else record
    advisories = _advisories(here, record)
    if as_json:
        directory, installed = published.catalogue.directory, _list_copies(here, copies)
        print_json(PublishedContainer(record, record.tested, directory, advisories, installed))
        return
    command = _loading(copies.meant) if copies else f"hpcmod install {record.module}"
    command = refusal(record) if refused else command
    rows = [
        *_describe(record),
        ("commands", " ".join((_commands(copies.meant) if copies else ()) or record.content.commands)),
        ("to use it", command if record.state != "retired" else ""),
        *_explain_copies(here, copies),
    ]
    rows += [("advisory", advisory) for advisory in advisories]
    _show([*rows, *_packages(record.content), *_describe_added(copies)])


def _list_copies(here: Here, copies: Copies | None) -> InstalledCopies:
    installed = (copies.meant, *copies.others) if copies else ()
    listed = tuple(
        InstalledCopy(
            copy.root, copy.modulefile, own=here.is_own(copy), used=copy == installed[0], commands=_commands(copy)
        )
        for copy in installed
    )
    return InstalledCopies(copies.meant.root if copies else None, listed, _user_packages(copies))


def _commands(copy: Installed) -> tuple[str, ...]:
    """Return the commands of the image that a module puts on PATH; empty if not known."""
    from hpcmod.modules.values.spec import OWN_COMMANDS

    return tuple(name for name in copy.record.commands if name not in OWN_COMMANDS)


def _explain_copies(here: Here, copies: Copies | None) -> Iterator[tuple[str, str]]:
    if copies is None or not (copies.others or here.is_own(copies.meant)):
        return
    yield "copy", f"{_whose(here, copies.meant)}, in {copies.meant.root}"
    for copy in copies.others:
        yield "other copy", f"{_whose(here, copy)}, in {copy.root}; to use it: {_loading(copy)}"


def _whose(here: Here, copy: Installed) -> str:
    return "your own" if here.is_own(copy) else "the site's"


def _loading(copy: Installed) -> str:
    return "; ".join(loading_lines(copy, os.environ))


def _show_image(image: Path, *, as_json: bool) -> None:
    from hpcmod.images import Sif
    from hpcmod.machine.values.targets import find_targets

    facts = Sif(image).facts()
    targets = find_targets(facts.labels, facts.environment)
    if as_json:
        print_json(ImageContent(image, facts, targets))
        return
    python = f"{facts.python.version} {facts.python.executable}" if facts.python else "none found"
    rows = [
        ("image", str(image)),
        ("architecture", facts.architecture),
        ("built for", " ".join(targets)),
        ("size", f"{format_size(facts.size)}, {facts.size} bytes"),
        ("python", python),
    ]
    rows += [("label", f"{name}: {value}") for name, value in facts.labels]
    _show([*rows, *_packages(facts)])


def _show_installed(here: Here, copies: Copies, *, as_json: bool) -> None:
    """Show the record of an installation that is not in a catalogue."""
    own = copies.meant
    if as_json:
        print_json(OwnContainer(None, own.module, own.record, _list_copies(here, copies)))
        return
    rows = [("module", own.module), ("root", str(own.root)), ("to use it", _loading(own))]
    rows += _explain_copies(here, copies)
    rows += [(key, str(getattr(own.image, key))) for key in ("path", "sha256", "size", "source")]
    rows += [("built for", " ".join(own.record.fit.targets)), ("commands", " ".join(_commands(own)))]
    _show([*rows, *_packages(own.record), *_describe_added(copies)])


def _describe(record: CatalogueRecord) -> Iterator[tuple[str, str]]:
    content, publication, notice = record.content, record.publication, record.notice
    yield "module", record.module
    yield from (("description", publication.description), ("homepage", publication.homepage), ("state", record.state))
    yield from (("until", notice.until), ("successor", notice.successor), ("reason", notice.reason))
    yield "aliases", " ".join(record.aliases)
    yield "restricted to", record.readers
    if record.licence:
        from hpcmod.catalogue.publishing.terms import is_accepted  # slow to import

        accepting = f"to read and accept it: hpcmod install --accept-licence {sh_word(record.module)}"
        yield "licence", "accepted" if is_accepted(record, os.environ) else accepting
    yield "machine", publication.site
    yield "architecture", content.architecture
    yield "built for", " ".join(content.targets)
    yield "compat", publication.compat
    yield "size", format_size(record.size)
    yield from (("sha256", record.sha256), ("reference", publication.origin), ("verified", publication.signature))
    yield from (("easyconfig", publication.easyconfig), ("sbom", content.sbom))
    yield "published", f"{publication.published} by {publication.publisher}" if publication.published else ""
    for check in record.checks:
        under = " under Slurm" if check.under else ""
        yield "check", f"{'passed' if check.passed else 'failed'}{under} {check.when}: {check.name}"
    yield "python", content.python
    yield from (("stack", f"{name} {version}") for name, version in content.stack)


def _packages(of: ContainerContent | InstallRecord | ImageFacts) -> Iterator[tuple[str, str]]:
    yield from (("package", f"{package.name} {package.version}") for package in of.packages)


def _describe_added(copies: Copies | None) -> Iterator[tuple[str, str]]:
    yield from (("your package", f"{package.name} {package.version}") for package in _user_packages(copies))


def _user_packages(copies: Copies | None) -> tuple[Package, ...]:
    """Return the packages that the user added to the copy in use, or to a set that is active for it."""
    if copies is None:
        return ()
    from hpcmod.modules import find_packages, read_packages

    return read_packages(find_packages(copies.meant.root, copies.meant.record.own_packages, os.environ))


def _search_added(here: Here, text: str) -> list[Hit]:
    """Return the containers to which the user added a package of this name."""
    from hpcmod.catalogue.finding.search import search

    base, chosen = Path(base_directory(os.environ)), os.environ.get(CHOICE_VARIABLE)
    modules = sorted({listed.module for listed in here.containers()})
    with_sets = (module for module in modules if chosen or (base / module.partition("/")[0]).is_dir())
    copies = [found for found in map(here.copies, with_sets) if found]
    added = [
        replace(found.meant, record=replace(found.meant.record, packages=_user_packages(found))) for found in copies
    ]
    return [hit for hit in search((), text, installed=added) if hit.packages]


def _show(rows: Iterable[tuple[str, str]]) -> None:
    for name, value in rows:
        if value:
            print_wrapped(f"{name}: {' '.join(value.split())}")


def _advisories(here: Here, record: CatalogueRecord) -> tuple[str, ...]:
    from hpcmod.catalogue.text.notice import render_advisory
    from hpcmod.catalogue.visible.advisories import matching_advisories

    advisories = matching_advisories(
        here.catalogues, record.module, record.sha256, environ=os.environ, packages=record.content.packages
    )
    return tuple(f"{advisory.title}. {render_advisory(advisory)}" for advisory in advisories)


def _show_difference(here: Here, first: str, second: str, *, as_json: bool) -> None:
    from hpcmod.catalogue.finding.compare import compare

    before, after = _describe_known(here, first), _describe_known(here, second)
    changes = compare(before, after)
    if as_json:
        print_json(ContainerComparison(before.module, after.module, changes))
        return
    brief = terminal_width() is not None
    rows = [(change.kind, change.name, _show_values(change, brief=brief)) for change in changes]
    print_table(("KIND", "NAME", f"{before.module} -> {after.module}"), rows)
    if not changes:
        tell(f"no differences between {before.module} and {after.module}")


def _show_values(change: ContainerDifference, *, brief: bool) -> str:
    """Return both values of a difference; if `brief`, a sha256 is cut to its first 12 digits."""
    values = ("-" if value is None else value or "present" for value in (change.before, change.after))
    return " -> ".join(value[:12] if brief and change.name == "sha256" else value for value in values)


def _describe_known(here: Here, text: str) -> CatalogueRecord:
    """Return the record of a container with the user's packages; one that is only installed is read from its image."""
    try:
        record = find_published(here, text).read_if_allowed()
    except NotFoundError:
        own = find_own(here, text)
        if own is None:
            raise
        from hpcmod.catalogue.publishing.facts import describe_installed

        record = describe_installed(own)
    copies = here.copies(record.module)
    if copies is None or not here.is_own(copies.meant):
        return record
    added = _user_packages(copies)
    if added:
        tell(f"{record.module}: including the packages that you added to your own copy in {copies.meant.root}")
    packages = {comparable_name(package.name): package for package in (*record.content.packages, *added)}
    return replace(record, content=replace(record.content, packages=tuple(packages.values())))

"""Document a catalogue: pages for people, generated from the records and put in place as a unit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from itertools import groupby
from pathlib import Path

from hpcmod.catalogue.finding.compare import ContainerDifference, compare
from hpcmod.catalogue.records.sharing import find_closed
from hpcmod.catalogue.records.store import Catalogue, software_of
from hpcmod.catalogue.text.notice import render_cure
from hpcmod.catalogue.text.page import Documentation
from hpcmod.catalogue.values.advisory import Advisory
from hpcmod.catalogue.values.container_page import ContainerPage, Example, PageRow, make_problem, page_address
from hpcmod.catalogue.values.order import release_key
from hpcmod.catalogue.values.record import CatalogueRecord, for_all
from hpcmod.catalogue.visible.advisories import read_advisories
from hpcmod.catalogue.visible.kept import read_module
from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.core.fs.ownership import others_may_change
from hpcmod.core.fs.reading import read_whole
from hpcmod.core.fs.replacing import replacing_directory
from hpcmod.core.fs.tree import Tree, write_file
from hpcmod.core.lock import hold_file
from hpcmod.core.registry import offered
from hpcmod.core.resources import read_texts
from hpcmod.core.values.text import format_size
from hpcmod.machine import load_site
from hpcmod.machine.values.site import Site
from hpcmod.modules import read_help
from hpcmod.modules.values.plan import WELL_KNOWN_COMMANDS
from hpcmod.modules.values.spec import COMMAND_NAME, OWN_COMMANDS

MARK = ".hpcmod-docs"
"""A file in each directory of documentation that lists its pages; `hpcmod catalogue docs` replaces nothing else."""

_MARK_LINE = "hpcmod catalogue docs replaces this whole directory, which contains these files:"
_MARK_LIMIT = 64 << 20  # bytes

_TRAINERS = {"torch", "jax", "tensorflow", "tensorflow-cpu", "tensorflow-rocm"}
"""Packages with which one program runs on several nodes, as with MPI."""

_LISTED_COMMANDS = 8
"""Maximum number of a tool's commands in the title of an example."""


def make_documentation(
    catalogues: Sequence[Catalogue],
    environ: Mapping[str, str],
    *,
    title: str,
    now: float,
    tell: Callable[[str], None] = lambda _: None,
) -> Documentation:
    """Return all pages for some catalogues; if two containers have the same name, the first catalogue's is documented.

    `environ`: The environment, used to find site profiles.
    `now`: Seconds since 1970.
    `tell`: Called with a line for the user about each advisory that cannot be read, and so is on no page.
    """
    found = {module: (of, for_all(record)) for module, (of, record) in _read_records(catalogues).items()}
    records = [record for _, record in found.values()]
    pairs = ((old, new) for old, new in zip(records, records[1:]) if not (old.readers or new.readers))
    previous = {new.module: old for old, new in pairs if old.name == new.name}
    advisories = list(_current(read_advisories(catalogues), now, tell))

    def make_page(catalogue: Catalogue, record: CatalogueRecord) -> ContainerPage:
        site, before = _site_of(record.publication.site, tuple(environ.items())), previous.get(record.module)
        about = [
            advisory
            for advisory in advisories
            if advisory.concerns(record.module, record.sha256, record.content.packages)
        ]
        return ContainerPage(
            record,
            examples=tuple(make_examples(record, site, _commands_on_path(catalogue, record))),
            help="" if record.readers else read_help(read_module(catalogue, record, "Lua") or ""),
            advisories=tuple(make_problem(advisory, render_cure(advisory)) for advisory in about),
            previous=before.version if before else "",
            changes=tuple(_describe_changes(before, record)) if before else (),
            successor=page_address(record.notice.successor) if record.notice.successor in found else "",
        )

    pages = tuple(make_page(*found[record.module]) for record in _newest_first(records))
    return Documentation(title, pages, time.strftime("%Y-%m-%d", time.gmtime(now)))


def find_with_package(catalogues: Sequence[Catalogue], package: str) -> list[tuple[CatalogueRecord, Path]]:
    """Return the containers that load for all and have a Python package, newest version first, with their directories.

    Raises NotFoundError if there is none.
    """
    found = _read_records(catalogues)
    listed = (for_all(record) for _, record in found.values() if record.state != "retired")
    records = [record for record in listed if any(each.name == package for each in record.content.packages)]
    if not records:
        raise NotFoundError(
            f"no container of the catalogue has {package}", f"Publish one whose image has the Python package {package}."
        )
    return [(record, software_of(found[record.module][0], record)) for record in _newest_first(records)]


def _read_records(catalogues: Sequence[Catalogue]) -> dict[str, tuple[Catalogue, CatalogueRecord]]:
    """Return the records of catalogues by module, sorted by name and version; the first catalogue's if two have it."""
    found = {record.module: (catalogue, record) for catalogue in reversed(catalogues) for record in catalogue.records()}
    return dict(sorted(found.items(), key=lambda item: _order(item[1][1])))


def _order(record: CatalogueRecord) -> tuple[object, ...]:
    return record.name.lower(), record.name, release_key(record.version), record.version


def _newest_first(records: Iterable[CatalogueRecord]) -> Iterator[CatalogueRecord]:
    for _, of_one_name in groupby(records, key=lambda record: record.name):
        yield from reversed(list(of_one_name))


def page_files() -> dict[str, str]:
    """Return the templates, styles and scripts of the pages: text by file name."""
    return read_texts(Path(__file__).parents[1] / "text" / "pages", "")


def _current(read: Iterable[Advisory | BadInputError], now: float, tell: Callable[[str], None]) -> Iterator[Advisory]:
    for advisory in read:
        if isinstance(advisory, BadInputError):
            tell(advisory.message)
        elif now < advisory.until:
            yield advisory


def _describe_changes(before: CatalogueRecord, record: CatalogueRecord) -> Iterator[PageRow]:
    for change in compare(before, record):
        if change.name != "sha256":
            name = f"{change.kind} {change.name}" if change.kind in ("variable", "command") else change.name
            yield PageRow(name, _shown(change, change.before), _shown(change, change.after))


def _shown(change: ContainerDifference, value: str | None) -> str:
    if value is None:
        return ""
    return format_size(int(value)) if (change.kind, change.name) == ("image", "size") else value or "there"


@lru_cache(maxsize=8)
def _site_of(name: str, environ: tuple[tuple[str, str], ...]) -> Site:
    """Return the profile that a container was published with; this machine's, if its name matches or none is found."""
    here = load_site(None, dict(environ))
    if name and name != here.name:
        with suppress(NotFoundError):
            return load_site(name, {key: value for key, value in environ if key != "HPCMOD_SITE"})
    return here


def _commands_on_path(catalogue: Catalogue, record: CatalogueRecord) -> Collection[str] | None:
    """Return the commands that the module of a container puts on PATH; None if they may not or cannot be listed."""
    try:
        return None if record.readers else catalogue.tree.names(software_of(catalogue, record) / "bin") or None
    except OSError:
        return None


def make_examples(record: CatalogueRecord, site: Site, on_path: Collection[str] | None = None) -> Iterator[Example]:
    """Yield examples for users of a container to copy and run on a machine; none if it no longer loads.

    `on_path`: Names of the commands that its module puts on PATH; None for the well-known ones in the image.
    """
    if record.state == "retired":
        return
    module = record.module
    if record.licence:
        yield Example("Read and accept its licence, once", f"hpcmod install --accept-licence {module}")
    wrapped = WELL_KNOWN_COMMANDS if on_path is None else on_path
    python = next((name for name in ("python", "python3") if name in record.content.commands), "")
    has_python = bool(record.content.python and (python or not record.content.commands))
    packages = {package.name for package in record.content.packages}
    is_trainer = has_python and bool(_TRAINERS & packages or "mpi" in dict(record.content.stack))
    command = f"{python or 'python'} {'train.py' if is_trainer else 'program.py'}"
    own = _own_commands(wrapped, record)
    if own or not has_python:
        chosen, title = _choose_command(record, wrapped)
        command = command if is_trainer else chosen
        lines = [f"module load {module}", chosen if own else f"start-shell {chosen}"]
        lines += [name for name in own if name != chosen][: _LISTED_COMMANDS - 1]
        yield Example("Load it and run its commands" if own[1:] else title, "\n".join(lines))
    if is_trainer or (has_python and not own):
        runs = command if python in wrapped else f"start-shell {command}"
        yield Example("Load it and run a program with its Python", f"module load {module}\n{runs}")
    if is_trainer:
        yield from (Example(*each) for render in offered("examples") for each in render(module, site))
    yield Example("Without loading the module", f"hpcmod exec {module} {command}\nhpcmod shell {module}")
    yield Example("Install your own copy, which stays if this one is removed", f"hpcmod install {module}")


def _choose_command(record: CatalogueRecord, wrapped: Collection[str]) -> tuple[str, str]:
    names = _own_commands(wrapped, record) or [name for name in record.content.commands if COMMAND_NAME.fullmatch(name)]
    chosen = [name for name in names if name.lower() == record.name.lower()] or names
    if len(chosen) == 1 or (chosen[:1] and chosen[0] in wrapped):
        return chosen[0], f"Load it and run {chosen[0]}"
    listed = ", ".join([*names[:_LISTED_COMMANDS], *["..."][: len(names) - _LISTED_COMMANDS]])
    return "COMMAND", f"Load it and run one of its commands: {listed}" if names else "Load it and run a command in it"


def _own_commands(wrapped: Collection[str], record: CatalogueRecord) -> list[str]:
    """Return the commands on PATH that belong to the tool, not to hpcmod or to every Python."""
    others = {*WELL_KNOWN_COMMANDS, *OWN_COMMANDS, f"python{record.content.python}", f"pip{record.content.python}"}
    return [name for name in wrapped if name not in others and COMMAND_NAME.fullmatch(name)]


def write_documentation(
    files: Iterable[tuple[str, str]],
    directory: Path,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> int:
    """Write all files to a new directory or over former documentation; return their number.

    Readers see the former files until all the new ones are in place.

    `files`: Paths below the directory, and texts; those that start with `#!` are programs.
    `tell`: Called with a line for the user about another process that writes there.

    Raises BadInputError if the directory is not empty, or contains more than pages that `hpcmod catalogue docs` wrote.
    """
    final = Path(os.path.realpath(directory))  # a link that a web server uses stays a link
    if final.exists() and not (final.is_dir() and ((final / MARK).is_file() or not any(final.iterdir()))):
        raise BadInputError(f"{final}: directory is not empty", "Choose an empty or new directory.")
    names = []
    with hold_file(final, tell=tell), replacing_directory(final, partial(_check_pages, final)) as new:
        for name, text in files:
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text.startswith("#!"):
                write_file(path, text, mode=0o755)
            else:
                path.write_text(text, encoding="utf-8")
            names.append(name)
        write_file(new / MARK, "".join(f"{line}\n" for line in (_MARK_LINE, *sorted(names))))
    return len(names)


def _check_pages(final: Path, old: Path) -> None:
    """Raise BadInputError if former documentation has other files than its pages, or a mark of another user.

    Others who may write the parent directory can rename anything to its name, with a copy of the mark in it.
    """
    if not any(old.iterdir()):
        return
    lines, is_ours = _read_mark(old)
    cure = f"Check its content. If it is not needed, remove it: rm -r {final}"
    if not is_ours and find_closed(old, final.parent.stat().st_gid):
        raise BadInputError(f"{final}: not documentation that you wrote, and only its owner can remove it", cure)
    known = {MARK, *lines[1:]}
    for place, _, files in os.walk(old):
        for name in (str(Path(place, name).relative_to(old)) for name in files):
            if name not in known:
                raise BadInputError(f"{final}: {name} is not a page that hpcmod catalogue docs wrote", cure)


def _read_mark(old: Path) -> tuple[list[str], bool]:
    """Return the lines of the mark, and whether only this user may write it."""
    with Tree(old).open_file(MARK) as file:
        lines = read_whole(file, old / MARK, _MARK_LIMIT).decode(errors="surrogateescape").splitlines()
        return lines or [""], not others_may_change(os.fstat(file.fileno()))

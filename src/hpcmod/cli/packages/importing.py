"""`hpcmod add --from`: take over packages that were installed or listed elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

from hpcmod.cli.output import print_json, print_text, tell
from hpcmod.cli.packages.outputs import ImportedPackages
from hpcmod.cli.packages.show import show_change, tell_active
from hpcmod.cli.packages.target import Found, choose_data, find_hidden, tell_hidden, tell_loaded
from hpcmod.cli.signals import terminate_cleanly
from hpcmod.errors import CheckFailedError
from hpcmod.install.packages.builder import make_builder
from hpcmod.install.packages.importing import Import, ImportOptions, import_packages, plan_import, read_source
from hpcmod.install.packages.sets import make_set
from hpcmod.model.packages.compare import SAME
from hpcmod.render.quote import sh_word


def add_from(
    found: Found, origin: str, options: ImportOptions, *, prefix: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Take over the packages of a path, or print what that would do, and report what becomes of each."""
    data = choose_data(found, prefix)
    source = read_source(Path(origin))
    builder = make_builder(os.environ)
    is_first = found.set.active_number(found.target.place.tag) is None
    if not as_json:
        for one in source.left_out:
            tell(f"not taken over: {one.name} ({one.reason})")
    tell(f"resolving {len(source.asked.lines)} packages with pip of {found.target.module} ...")
    with terminate_cleanly():
        if dry_run:
            done = plan_import(found.target, found.set, source, builder, options)
        else:
            make_set(found.set, data)
            done = import_packages(found.target, found.set, source, builder, options, tell)
    if not as_json:
        _print_report(done, len(source.left_out))
    if done.rebase.failures:
        _refuse(found, origin, done, options, as_json=as_json)
    if as_json:
        parent = done.rebase.plan.parent
        before = parent if parent and parent.number else None
        change = show_change(found, before=before, state=done.state, changes=done.rebase.differences, dry_run=dry_run)
        print_json(ImportedPackages(change, done.left_out))
    elif done.state:
        tell_active(found, done.state)
    tell_hidden(found, is_first=is_first and find_hidden(found) != Path(origin).absolute())
    if done.state:
        tell_loaded(found, is_first=is_first)


def _print_report(done: Import, told: int) -> None:
    for one in done.rebase.differences:
        print_text(str(one))
    for left in done.left_out[told:]:
        tell(f"not taken over: {left.name} ({left.reason})")
    same = sum(one.verdict == SAME for one in done.rebase.differences)
    tell(f"{same} of {len(done.rebase.differences)} packages keep their versions")


def _refuse(found: Found, origin: str, done: Import, options: ImportOptions, *, as_json: bool) -> None:
    failures = done.rebase.failures
    names = [one.name for one in failures]
    message = f"{', '.join(names)} cannot be installed for {found.target.module}; nothing was changed"
    detail = "".join(f"\n  {one}" for one in failures) if as_json else ""
    without = " ".join(f"--without {name}" for name in (*options.without, *names))
    raise CheckFailedError(
        f"{message}{detail}", f"Leave it out: hpcmod add {sh_word(found.name)} --from {sh_word(origin)} {without}"
    )

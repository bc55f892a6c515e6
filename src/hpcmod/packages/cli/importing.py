"""`hpcmod add --from`: take over packages that were installed or listed elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

from hpcmod.core.cli.output import print_json, print_text, tell
from hpcmod.core.cli.signals import terminate_cleanly
from hpcmod.core.text.quote import sh_word
from hpcmod.packages.builder import make_builder
from hpcmod.packages.cli.outputs import ImportedPackages
from hpcmod.packages.cli.rebase import refuse
from hpcmod.packages.cli.show import show_change, tell_active
from hpcmod.packages.cli.target import Found, choose_data, find_hidden, tell_hidden, tell_loaded
from hpcmod.packages.importing import import_packages, plan_import, read_source
from hpcmod.packages.sets import make_set
from hpcmod.packages.values.compare import SAME
from hpcmod.packages.values.plan import PackageChange


def add_from(
    found: Found, origin: str, change: PackageChange, *, prefix: Path | None, dry_run: bool, as_json: bool
) -> None:
    """Take over the packages of a path, or print what that would do, and report what becomes of each."""
    data = choose_data(found, prefix)
    source = read_source(Path(origin))
    builder = make_builder(os.environ, tell=tell)
    is_first = found.set.active_number(found.target.place.tag) is None
    if not as_json:
        for left in source.left_out:
            tell(f"not taken over: {left.name} ({left.reason})")
    tell(f"resolving {len(source.asked.lines)} packages with pip of {found.target.module} ...")
    with terminate_cleanly():
        if dry_run:
            rebase, state = plan_import(found.target, found.set, source, change, builder), None
        else:
            make_set(found.set, data)
            rebase, state = import_packages(found.target, found.set, source, change, builder, tell)
    if not as_json:
        for difference in rebase.differences:
            print_text(str(difference))
        same = sum(difference.verdict == SAME for difference in rebase.differences)
        tell(f"{same} of {len(rebase.differences)} packages keep their versions")
    if rebase.failures:
        command = f"hpcmod add {sh_word(found.name)} --from {sh_word(origin)}"
        refuse(found, rebase, command, without=change.dropped, as_json=as_json)
    if as_json:
        parent = rebase.plan.parent
        before = parent if parent and parent.number else None
        shown = show_change(found, before=before, state=state, changes=rebase.differences, dry_run=dry_run)
        print_json(ImportedPackages(shown, source.left_out))
    elif state:
        tell_active(found, state)
    tell_hidden(found, is_first=is_first and find_hidden(found) != Path(origin).absolute())
    if state:
        tell_loaded(found, is_first=is_first)

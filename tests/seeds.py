"""Rows of the documents that hpcmod was measured against: what a reader does there, and the proof that hpcmod does it.

A row is proved by tests, or by texts that a view must contain or must not contain. Views are written as

    $ hpcmod ...        what the command prints on stdout and stderr
    module SITE         the modulefile of PyTorch 2.7.1 on a site
    rank SITE           what the last rank of two nodes is told there
    binds SITE          candidates for bind paths, one per line
    profile SITE        the profile with what it extends, as `hpcmod site show --origin` prints it
    file PATH           a file of the checkout
"""

from __future__ import annotations

import ast
import functools
import shlex
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from hpcmod.core.cli.main import main
from hpcmod.core.resources import module_templates
from hpcmod.core.values.documents import load_toml
from hpcmod.machine.machine import load_site
from hpcmod.modules.text.modulefile import render_body
from tests.plans import make_example
from tests.walkthroughs import CHECKOUT

TOLD = "tests/unit/runscripts/golden/{}.explain.txt"


@dataclass(frozen=True)
class Row:
    """One row of a seed's table, and its proof."""

    number: int
    what: str
    view: str = ""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    """Tests that prove it, as FILE::NAME."""
    status: int = 0
    """Expected exit status of the command."""


def read_rows(path: Path) -> tuple[Row, ...]:
    """Read the rows of a table."""
    tree = load_toml(path.read_text(encoding="utf-8"), path.name)
    rows = [{key: tuple(each) if isinstance(each, list) else each for key, each in row.items()} for row in tree["row"]]
    proved = (Row(number, what, tests=tuple(rest)) for number, what, *rest in tree["proved"])
    return (*(Row(**row) for row in rows), *proved)


def read_accounted(path: Path) -> tuple[list[int], int]:
    """Read the numbers of all rows of a table, proved or listed under `others`, and the expected number of rows."""
    tree = load_toml(path.read_text(encoding="utf-8"), path.name)
    return sorted([*(row.number for row in read_rows(path)), *map(int, tree["others"])]), tree["rows"]


def check(one: Row) -> None:
    """Check the proof of a row."""
    assert one.view or one.tests, "a row without a proof"
    for name in one.tests:
        assert is_test(name), f"no such test: {name}"
    if one.view:
        text = view(one.view, one.status)
        assert [part for part in one.has if part not in text] == [], f"not in {one.view}"
        assert [part for part in one.lacks if part in text] == [], f"in {one.view}"


def is_test(name: str) -> bool:
    """Return whether FILE::NAME is a test of the checkout."""
    file, _, function = name.partition("::")
    path = CHECKOUT / file
    return path.is_file() and any(
        isinstance(node, ast.FunctionDef) and node.name == function for node in ast.parse(path.read_text()).body
    )


@functools.cache
def view(name: str, status: int = 0) -> str:
    """Return the text of a view."""
    kind, _, rest = name.partition(" ")
    if kind == "$":
        done = CliRunner(env={"HOME": "/nowhere"}).invoke(main, shlex.split(rest)[1:])
        assert done.exit_code == status, done.output
        return done.stdout + done.stderr
    if kind == "module":
        return render_body(make_example(rest), "Lua", module_templates())
    if kind == "binds":
        return "\n".join(str(bind) for group in load_site(rest, {}).all_binds for bind in group)
    if kind == "profile":
        return view(f"$ hpcmod site show --origin {rest}")
    return (CHECKOUT / (TOLD.format(rest) if kind == "rank" else rest)).read_text(encoding="utf-8")

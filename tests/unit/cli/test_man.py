"""The man pages are generated from the commands: `./dev/test --golden` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hpcmod.cli.main import main
from tests.man_pages import escape, every_page
from tests.verbs import verbs_of

MAN = Path(__file__).resolve().parents[3] / "man"


@cache
def man_pages() -> dict[str, str]:
    return every_page()


def test_man_pages_match_the_commands(golden: Callable[[Path, str], None]) -> None:
    for name, text in man_pages().items():
        golden(MAN / name, text)


def test_every_verb_has_a_man_page_and_no_page_is_left_over() -> None:
    pages = man_pages()
    assert {path.name for path in MAN.iterdir()} == set(pages)
    assert {f"hpcmod-{name}.1" for name in verbs_of(main)} <= set(pages)


def test_every_option_is_in_its_man_page() -> None:
    pages = man_pages()
    missing = [
        f"{name} {option}"
        for name, command in verbs_of(main).items()
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and escape(option) not in pages[f"hpcmod-{name}.1"]
    ]
    assert missing == []


def test_man_pages_name_only_pages_that_exist() -> None:
    pages = man_pages()
    named = {
        name.replace("\\-", "-")
        for text in pages.values()
        for name in re.findall(r"^\\fB(hpcmod\S*)\\fR\(1\)$", text, re.M)
    }
    assert {f"{name}.1" for name in named} - set(pages) == set()


def test_text_that_roff_would_interpret_is_escaped() -> None:
    assert escape(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert escape(r"a\fB 'b'") == r"a\efB \(aqb\(aq"

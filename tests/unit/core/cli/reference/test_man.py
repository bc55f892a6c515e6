"""Man pages: every command and option is in them, and roff interprets nothing of their text."""

from __future__ import annotations

import re
from functools import cache

from hpcmod.core.cli.reference import man
from hpcmod.core.cli.reference.commands import every_command, names_of, options_of
from hpcmod.core.cli.reference.man import escape


@cache
def man_pages() -> dict[str, str]:
    return man.man_pages()


def test_every_command_has_a_page_with_all_its_options() -> None:
    pages = man_pages()
    commands = list(every_command())
    assert {"-".join(("hpcmod", *words)) + ".1" for words, _ in commands} == set(pages)
    assert [
        f"{words} {name}"
        for words, command in commands
        for option in options_of(command)
        for name in names_of(option)
        if rf"\fB{escape(name)}\fR" not in pages["-".join(("hpcmod", *words)) + ".1"]
    ] == []


def test_pages_name_only_pages_that_exist() -> None:
    text = "".join(man_pages().values())
    named = {name.replace("\\-", "-") for name in re.findall(r"^\\fB(hpcmod\S*)\\fR\(1\)$", text, re.MULTILINE)}
    assert len(named) > 40
    assert {f"{name}.1" for name in named} - set(man_pages()) == set()


def test_examples_keep_their_lines() -> None:
    page = man_pages()["hpcmod-fetch.1"]
    assert re.search(r"\.SH EXAMPLES\n\.nf\n\.RS 4\n(hpcmod fetch .+\n)+\.RE\n\.fi\n", page)


def test_text_that_roff_would_interpret_is_escaped() -> None:
    assert escape(".so /etc/passwd") == "\\&.so /etc/passwd"
    assert escape(r"a\fB 'b'") == r"a\efB \(aqb\(aq"

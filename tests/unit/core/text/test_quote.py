from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError
from hpcmod.core.text import quote

HOSTILE = [
    pytest.param("", id="empty"),
    pytest.param("a b  c\t ", id="blanks"),
    pytest.param('it\'s "so" `id` $(id) ${HOME} $HOME', id="quotes and substitutions"),
    pytest.param("one\ntwo\n\nthree\n", id="line feeds"),
    pytest.param("one\rtwo\r\nthree\r", id="carriage returns"),
    pytest.param("]] ]=] ]==] [[ [=[ --[[ -- ]]--", id="long brackets of Lua"),
    pytest.param("{ } {{ }} }{ [exit 9] ; # \\{", id="braces, commands and comments of Tcl"),
    pytest.param("\\ \\\\ \\n \\x41 \\u0041 \\101 \\", id="backslashes"),
    pytest.param("!! !x ^a^b ~ ~root * ? [a-z] {a,b}", id="history, tilde and globs"),
    pytest.param("<b>&amp; &#65; &lt 'a' \"b\" --> ]]> </script>", id="markup"),
    pytest.param("{{ settings }} {% raw %} {# #} {## ##}", id="Jinja2"),
    pytest.param("größe 数 e\u0301 \U0001f600 \u2028 \ufeff \x85", id="Unicode"),
    pytest.param("".join(map(chr, [*range(1, 32), 127])), id="control characters"),
    pytest.param("\x011 \x1b7 \x7f0", id="control characters before digits"),
    pytest.param("-n", id="an option"),
    pytest.param("a=b", id="an assignment"),
    pytest.param("if", id="a keyword"),
    pytest.param("x'y\"z\n$(id)" * 9000, id="very long"),
]

IN_MEMORY = settings(database=None, deadline=None)
"""Settings of Hypothesis without its database, because the checkout may be read-only."""

ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


def spoken_by(argv: list[str], script: str) -> str:
    """Pass a script to an interpreter on stdin and return what it prints."""
    program = argv[-1 if argv[0] == "env" else 0]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} on this machine")
    done = subprocess.run(argv, input=script.encode(), capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def printed_by_a_shell(texts: list[str]) -> str:
    return "".join(f"printf '%s\\0' {quote.sh(text)}\n" for text in texts)


def through_bash(texts: list[str]) -> str:
    return spoken_by(["bash"], printed_by_a_shell(texts))


def through_bash_in_utf8(texts: list[str]) -> str:
    return spoken_by(["env", "LC_ALL=C.UTF-8", "bash"], printed_by_a_shell(texts))


def through_dash(texts: list[str]) -> str:
    return spoken_by(["dash"], printed_by_a_shell(texts))


def through_lua(texts: list[str]) -> str:
    return spoken_by(["lua5.3", "-"], "".join(f'io.write({quote.lua(text)}, "\\0")\n' for text in texts))


def through_tcl(texts: list[str]) -> str:
    # Use a procedure: as in a modulefile, the text is then within braces, too.
    body = "".join(f"puts -nonewline {quote.tcl(text)}\nputs -nonewline \\0\n" for text in texts)
    script = f"fconfigure stdout -translation lf -encoding utf-8\nproc body {{}} {{\n{body}}}\nbody\n"
    return spoken_by(["env", "LC_ALL=C.UTF-8", "tclsh"], script)


LANGUAGES = [
    pytest.param(through_bash, id="bash"),
    pytest.param(through_bash_in_utf8, id="bash in UTF-8"),
    pytest.param(through_dash, id="dash"),
    pytest.param(through_lua, id="lua"),
    pytest.param(through_tcl, id="tcl"),
]


@pytest.mark.parametrize("through", LANGUAGES)
@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.slow
def test_a_quoted_text_means_exactly_itself(through: Callable[[list[str]], str], text: str) -> None:
    assert through([text]) == text + "\0"


@pytest.mark.parametrize("through", LANGUAGES)
@settings(IN_MEMORY, max_examples=25, deadline=None)
@given(texts=st.lists(ANY_TEXT, max_size=40))
def test_any_texts_come_back_unchanged(through: Callable[[list[str]], str], texts: list[str]) -> None:
    assert through(texts) == "".join(text + "\0" for text in texts)


QUOTES = [
    pytest.param(quote.sh, id="sh"),
    pytest.param(quote.sh_comment, id="sh comment"),
    pytest.param(quote.lua, id="lua"),
    pytest.param(quote.tcl, id="tcl"),
]


@pytest.mark.parametrize("quoted", QUOTES)
@pytest.mark.parametrize(
    "text", [pytest.param("a\0b", id="NUL"), pytest.param("caf\udce9", id="a byte that is not UTF-8")]
)
def test_refuses_values_that_no_language_can_express(quoted: Callable[[str], str], text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        quoted(text)
    assert caught.value.cure


@pytest.mark.parametrize("quoted", [pytest.param(quote.lua, id="lua"), pytest.param(quote.tcl, id="tcl")])
@settings(IN_MEMORY)
@given(text=ANY_TEXT)
def test_a_literal_stays_on_one_line(quoted: Callable[[str], str], text: str) -> None:
    assert not set(quoted(text)) & set("\n\r\x0b\x0c\x1a")


@settings(IN_MEMORY)
@given(text=ANY_TEXT)
def test_a_comment_stays_one_line(text: str) -> None:
    assert len(f"# {quote.sh_comment(text)}.".splitlines()) == 1


def test_a_comment_keeps_its_printable_characters() -> None:
    assert quote.sh_comment("PyTorch/2.7.1 größer\n`id`") == "PyTorch/2.7.1 größer?`id`"


@pytest.mark.parametrize("char", "\u202e\u202a\u2066\u2069\u200f\u200e\u061c\u2028\u2029")
def test_a_terminal_gets_no_character_that_turns_text_round(char: str) -> None:
    assert quote.terminal(f"invoice{char}fdp.sif") == "invoice?fdp.sif"


def test_a_line_for_a_terminal_stays_one_line() -> None:
    assert quote.terminal_line("a\nhpcmod: done\x1b]0;x\x07") == "a?hpcmod: done?]0;x?"


def test_a_terminal_gets_lines_and_tabs_and_no_other_control_characters() -> None:
    assert quote.terminal("a\tb\nc\x1b[31m\r\x7f\x9b\x00é\udcff") == "a\tb\nc?[31m????é\udcff"


@pytest.mark.parametrize("text", HOSTILE)
def test_a_literal_of_lua_can_be_read_back(text: str) -> None:
    assert quote.unquote_lua(quote.lua(text)[1:-1]) == text

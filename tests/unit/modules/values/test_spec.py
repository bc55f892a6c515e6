from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.spec import (
    HelpTexts,
    list_references,
    parse_commands,
    parse_environment,
    parse_help_texts,
    parse_install_mode,
)


def test_keeps_the_order_of_commands_and_drops_repeats() -> None:
    found = parse_commands(["torchrun", "python3.12", "g++", "torchrun"])
    assert found == (("torchrun", ("torchrun",)), ("python3.12", ("python3.12",)), ("g++", ("g++",)))
    assert parse_commands([]) == ()


@pytest.mark.parametrize("name", ["", "bin/python", "..", "-c", ".hidden", "a b", "a;b", "python\n"])
def test_refuses_an_invalid_file_name_in_bin(name: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_commands(["python", name])
    assert repr(name) in caught.value.message
    assert "'python'" not in caught.value.message


def test_names_all_bad_commands_at_once() -> None:
    with pytest.raises(BadInputError, match=r"'a/b' is not .*; 'c d' is not"):
        parse_commands(["a/b", "ok", "c d"])


@pytest.mark.parametrize("word", ["", "Copy", "symlink"])
def test_refuses_other_install_modes_and_lists_the_right_ones(word: str) -> None:
    assert parse_install_mode("copy") == "copy"
    with pytest.raises(BadInputError, match="auto, copy, link, central"):
        parse_install_mode(word)


def test_a_table_of_commands_says_what_each_runs() -> None:
    found = parse_commands({"fork": ["/code/salad", "fork", "a b\n"], "R4": ["R"]})
    assert found == (("fork", ("/code/salad", "fork", "a b\n")), ("R4", ("R",)))


@pytest.mark.parametrize("name", ["module", "srun", "bash", "start-shell", "../x", "a b", "", "x\n", 3])
def test_no_wrapper_hides_a_command_of_the_host_or_has_an_odd_name(name: str) -> None:
    with pytest.raises(BadInputError, match="wrapped_commands"):
        parse_commands({"good": ["x"], name: ["x"]})
    with pytest.raises(BadInputError, match="wrapped_commands"):
        parse_commands(["good", name])


@pytest.mark.parametrize(
    "words", [[], "x y", None, [""], ["-c"], ["a b"], ["bin/x"], ["../x"], ["x", 3], ["x", "\0"], {}]
)
def test_refuses_commands_that_a_wrapper_cannot_run(words: list[str]) -> None:
    with pytest.raises(BadInputError, match="'good'"):
        parse_commands({"good": words})


@pytest.mark.parametrize("given", ["python", 7, 3])
def test_commands_are_a_list_or_a_table(given: list[str]) -> None:
    with pytest.raises(BadInputError, match="is not a list"):
        parse_commands(given)


def test_variables_of_the_container_keep_their_values() -> None:
    given = {"OMP_NUM_THREADS": "4", "EMPTY": "", "_x": 'it\'s "quoted" \u00e9 %(name)s'}
    assert parse_environment(given) == tuple(given.items())
    assert parse_environment({}) == ()


@pytest.mark.parametrize(
    "name",
    [
        *("", "1A", "A-B", "A B", "A\n", "\u00c4", 3),
        *("PATH", "PREPEND_PATH", "LD_LIBRARY_PATH", "HOME", "SIF", "SIFPYTORCH"),
        *("RUNSCRIPTS", "SINGULARITY_BIND", "APPTAINERENV_X", "_HPCMOD_TOY", "VIRTUAL_ENV", "PYTHONPATH", "WITH_VENV"),
    ],
)
def test_a_name_that_is_not_a_variables_or_the_modules_own_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match="environment") as caught:
        parse_environment({"GOOD": "1", name: "x"})
    assert "GOOD" not in caught.value.message


@pytest.mark.parametrize("value", ["$(touch owned)", "`x`", "$HOME", "a\\b", "a\nb", "\0", 4, None, ["x"]])
def test_a_value_that_the_runtime_would_change_is_refused(value: str) -> None:
    with pytest.raises(BadInputError, match="GOOD is"):
        parse_environment({"GOOD": value})


def test_variables_are_a_table() -> None:
    with pytest.raises(BadInputError, match="is not a table"):
        parse_environment(["A=1"])  # type: ignore[arg-type]


def test_strings_and_lists_of_strings_are_read_and_none_is_nothing() -> None:
    given = {"usage": "run\n", "examples": ["a", "b"], "whatis": [], "docurls": None, "site_contacts": "me@example.org"}
    assert parse_help_texts(given) == HelpTexts(
        whatis=(), usage="run", examples="a\nb", site_contacts=("me@example.org",)
    )


@pytest.mark.parametrize("value", [7, [1], {"a": "b"}], ids=str)
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(BadInputError, match="docurls"):
        parse_help_texts({"docurls": value})


def test_documents_and_contacts_are_listed_as_easybuild_does() -> None:
    texts = HelpTexts(docpaths=("doc/x",), docurls=("https://e.org",), upstream_contacts=("a",))
    assert list(list_references(texts, "EBROOTTOY")) == [
        " - Documentation:",
        "    - $EBROOTTOY/doc/x",
        "    - https://e.org",
        " - Upstream contacts:",
        "    - a",
    ]

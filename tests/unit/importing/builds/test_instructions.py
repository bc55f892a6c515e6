from __future__ import annotations

from hpcmod.importing.builds.instructions import Instruction, read_instructions, read_json_words, split_flags, unquote


def test_instructions_are_read_as_docker_does() -> None:
    text = "# syntax=x\nfrom a\nRUN a \\\n\n# c\n  b\nENV A=1 \\\n    B=2\nRUN <<-E cat\n\tx\n\tE\nCMD x"
    found = read_instructions(text)
    assert [(one.name, one.text, one.line) for one in found] == [
        ("FROM", "a", 2),
        ("RUN", "a \\\n  b", 3),
        ("ENV", "A=1     B=2", 7),
        ("RUN", "<<-E cat", 9),
        ("CMD", "x", 12),
    ]
    assert found[3].documents == (("E", "x\n", True),)


def test_flags_are_split_off() -> None:
    assert split_flags("--from=a --link b --c") == ({"from": "a", "link": ""}, "b --c")
    assert split_flags("b --from=a") == ({}, "b --from=a")


def test_quotes_are_removed_and_a_literal_dollar_stays_one() -> None:
    assert unquote('\'a b\'c"d\\""') == 'a bcd"'
    assert unquote("'$A'") == "\\$A"


def test_a_list_of_words_is_told_from_a_command() -> None:
    one = Instruction("RUN", '["a", "b c"]', (), 1)
    assert read_json_words(one) == ["a", "b c"]
    assert read_json_words(one, "[ -d x ]") is None
    assert read_json_words(one, "[1]") is None

"""Shell text as simple commands, and its syntax errors."""

from __future__ import annotations

import pytest

from hpcmod.lint.jobs.reading.calls import read_calls
from hpcmod.lint.jobs.reading.script import read_batch_script
from hpcmod.lint.jobs.reading.syntax import find_syntax_error, read_shell_commands


def words(text: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in read_shell_commands(text)]


@pytest.mark.parametrize(
    "before",
    [
        "args=(\n  --epochs 3   # don't change\n)",
        "X=$'it\\'s'",
        "TEXT=$(cat <<EOF\nit's fine\nEOF\n)",
        "read -ra hosts <<< ${ips}",
        "cat <<'EOF' > run.sh\necho don't\nEOF",
        "f() { local a=${1:-'}'}; }",
        "case $X in a|b) true;; *) false;; esac",
        "(( i++ )) || true",
    ],
    ids=["array", "ansi-c", "document in a substitution", "here-string", "document", "function", "case", "arithmetic"],
)
def test_what_follows_a_hard_construct_is_read(before: str) -> None:
    assert words(f"{before}\nsrun -n 2 \\\n  ./a.out")[-1] == ["srun", "-n", "2", "./a.out"]


def test_a_command_knows_where_it_is() -> None:
    text = "f() { a; }\nfor i in 1; do b & done\nif c; then d; else e; fi\n{ g; h; } &\n"
    found = {each.words[0].text: (set(each.places), each.background) for each in read_shell_commands(text)}
    assert found == {
        "a": ({"function"}, False),
        "for": (set(), False),
        "b": ({"loop"}, True),
        "c": (set(), False),
        "d": ({"branch"}, False),
        "e": ({"branch"}, False),
        "g": (set(), True),
        "h": (set(), True),
    }


def test_documents_and_outputs_belong_to_their_command() -> None:
    written, piped = (
        each
        for text in ("cat <<'EOF' > run.sh\nls $X\nEOF\n", "cat <<EOF | srun bash\nls\nEOF\n")
        for each in read_shell_commands(text)[-1:]
    )
    assert [(each.line, each.text, each.literal) for each in written.documents] == [(2, "ls $X", True)]
    assert (written.outputs, [word.text for word in piped.words]) == (("run.sh",), ["srun", "bash"])


def test_arrays_are_expanded_where_they_are_used() -> None:
    text = '#!/bin/bash\nA=(--nodes=2 # two\n  python)\nA+=(train.py)\nsrun "${A[@]}" --lr 1\n'
    call = read_calls(read_batch_script(text))[-1]
    assert [(option.name, option.value) for option in call.srun or ()] == [("nodes", "2")]
    assert call.arguments() == "python train.py --lr 1"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("echo ${X\n", 1),
        ("for i in 1; do\ndone\n", 2),
        ("if true; then\n  echo\n", 3),
        ("a\ncat <your text>\n", 2),
        ('a\necho "b\n', 2),
        ("a\ncat <<EOF\nb\n", 4),
    ],
)
def test_bash_names_the_line_of_a_syntax_error(text: str, line: int) -> None:
    error = find_syntax_error(text)
    assert error is not None
    assert error[0] in (line, line - 1)  # releases of bash differ at the end of a file


def test_patterns_of_a_shell_option_are_no_error() -> None:
    text = "rm !(*.sif)\n"
    assert find_syntax_error(text) is not None
    assert find_syntax_error(f"shopt -s extglob\n{text}") is None


def test_a_script_for_another_shell_is_not_read_as_bash() -> None:
    script = read_batch_script("#!/usr/bin/env python3\n#SBATCH -N 2\nprint('a' if b else \"it's\")\n")
    assert (script.commands, script.error, script.options[0].value) == ((), None, "2")

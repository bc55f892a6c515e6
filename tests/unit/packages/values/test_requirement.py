from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.packages.values.requirement import (
    Requirements,
    name_of,
    normalize_package,
    parse_file,
    parse_typed,
    place_of,
)

FILES = {
    "/w/requirements.txt": """\
\ufeff# what people write
einops>=0.7  # comment
transformers[torch] < 5 ; python_version >= "3.9"
--extra-index-url https://user:secret@example.org/simple
-f wheels
numpy==2.1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
git+https://example.org/x.git@v1#egg=x
fast @ https://example.org/fast-1.0-py3-none-any.whl
./local/one-1.0-py3-none-any.whl
-r more/dev.txt
-c more/constraints.txt
--only-binary :all:
""",
    "/w/more/dev.txt": "pytest\neinops>=0.7\n",
    "/w/more/constraints.txt": "numpy<3\n",
}


def parse(path: str = "/w/requirements.txt", **files: str) -> Requirements:
    return parse_file(path, {**FILES, **files}.__getitem__, lambda _: True)


def test_requirements_files_are_read_as_people_write_them() -> None:
    assert parse() == Requirements(
        lines=(
            "einops>=0.7",
            'transformers[torch] < 5 ; python_version >= "3.9"',
            "numpy==2.1.0     --hash=sha256:aa     --hash=sha256:bb",
            "git+https://example.org/x.git@v1#egg=x",
            "fast @ https://example.org/fast-1.0-py3-none-any.whl",
            "/w/local/one-1.0-py3-none-any.whl",
            "pytest",
        ),
        constraints=("numpy<3",),
        options=("--extra-index-url=https://user:secret@example.org/simple", "--find-links=/w/wheels"),
    )


def test_several_options_may_be_on_one_line() -> None:
    text = '--index-url "https://a.org/simple" --trusted-host a.org --pre\n-f wheels --prefer-binary  # fast\neinops\n'
    found = parse(**{"/w/requirements.txt": text})
    given = ("--index-url=https://a.org/simple", "--trusted-host=a.org", "--pre")
    assert (found.lines, found.options) == (("einops",), (*given, "--find-links=/w/wheels", "--prefer-binary"))


def test_relative_paths_are_found_where_pip_looks_and_else_beside_the_file() -> None:
    text = "./project[dev]\n./only.whl\n--find-links wheels\n--find-links other\n"
    there = {"/w/project", "/w/more/project", "/w/more/only.whl", "/w/wheels", "/w/more/wheels", "/w/other"}
    found = parse_file("/w/more/dev.txt", lambda _: text, there.__contains__, "/w")
    assert found.lines == ("/w/project[dev]", "/w/more/only.whl")
    assert found.options == ("--find-links=/w/more/wheels", "--find-links=/w/other")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("one \\\n# comment\ntwo\n", id="before a comment"),
        pytest.param("one\\\n# comment\ntwo\n", id="before a comment, without a space"),
        pytest.param("# C:\\wheels\\\none\ntwo\n", id="at the end of a comment"),
        pytest.param("one # C:\\wheels\\\nthree\ntwo\n", id="at the end of a comment after a package"),
    ],
)
def test_a_backslash_continues_a_line_as_in_pip(text: str) -> None:
    assert parse(**{"/w/requirements.txt": text}).lines == ("one", "two")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Foo.Bar_baz>=1", "foo-bar-baz"),
        ("foo[extra]==1", "foo"),
        ("foo @ https://example.org/foo.whl", "foo"),
        ("git+https://example.org/x.git@v1#egg=My_X", "my-x"),
        ("https://example.org/some_thing-1.0-py3-none-any.whl", "some-thing"),
        ("/w/one-1.0-cp312-cp312-linux_x86_64.whl", "one"),
        ("/w/project", ""),
    ],
)
def test_the_name_of_a_requirement(line: str, name: str) -> None:
    assert name_of(line) == name
    assert normalize_package("A__b.-C") == "a-b-c"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-e .", "editable"),
        ("--editable=git+https://example.org/x.git#egg=x", "editable"),
        ("--target /etc", "not supported"),
        ("../../etc", "/w/requirements.txt:1"),
        ("$(touch pwned)", "not a requirement"),
        ("a b", "not a requirement"),
        ("x;touch pwned", "not a requirement"),
        ("-r /w/requirements.txt", "includes itself"),
        ("x\x1b[31m", "not a requirement"),
        ("x @ file:///w/x-1.0.whl#sha256=aa", "/w/x-1.0.whl: no such file"),
    ],
)
def test_faults_name_file_and_line(text: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        parse_file("/w/requirements.txt", {"/w/requirements.txt": text}.__getitem__, lambda _: False)


def test_words_of_a_command_line_are_checked_and_paths_made_absolute() -> None:
    found = parse_typed(("einops", "./dist/x-1.0-py3-none-any.whl[extra]"), "/here", lambda _: True)
    assert found.lines == ("einops", "/here/dist/x-1.0-py3-none-any.whl[extra]")
    assert place_of(found.lines[1]) == "/here/dist/x-1.0-py3-none-any.whl"
    for word in ("--target=/x", "-e", "", "a b", "./missing"):
        with pytest.raises(BadInputError):
            parse_typed((word,), "/here", lambda _: False)

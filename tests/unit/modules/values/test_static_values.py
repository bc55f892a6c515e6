from __future__ import annotations

import tracemalloc

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.static_values import read_static_values


def value(text: str) -> object:
    read = read_static_values(text, "x.eb")
    assert "v" not in read.unknown, read.unknown
    return read.known["v"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v = 'a'", "a"),
        ("v = 'a' 'b'", "ab"),
        ("v = ('a' + 'b')", "ab"),
        ("x = '1'\nv = f'-{x}-{x}.sif'", "-1-1.sif"),
        ("x = 'a.b'\nv = x.split('.')[0]", "a"),
        ("v = '%s-%d%%' % ('a', 3)", "a-3%"),
        ("v = '%s' % 'a'", "a"),
        ("v = '%(x)s%%' % {'x': 'a'}", "a%"),
        ("v = '{} {1} {n} {{}}'.format('a', 'b', n='c')", "a b c {}"),
        ("v = '-'.join(['a', 'b']).upper().lower().strip()", "a-b"),
        ("v = '$x'.replace('$', '\\\\$')", "\\$x"),
        ("v = [1, 'a', {'b': ('c', None, True)}]", [1, "a", {"b": ("c", None, True)}]),
        ("v = 'a'\nv += 'b'", "ab"),
        ("v = w = 'a'", "a"),
        ("'a docstring'\npass\nv = '%(version)s'", "%(version)s"),
        ("v = '\\d'", "\\d"),
    ],
)
def test_evaluates_the_expressions_of_easyconfigs(text: str, expected: object) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("v = open('/etc/passwd').read()", "v = __import__('os').getcwd()", "import os\nv = os.sep"),
        *("v = ''.__class__", "v = '{0.__class__}'.format('a')", "v = '{:>999999999}'.format('a')"),
        *("v = f'{1:>999999999}'", "v = f'{v!r}'", "v = '%999999999s' % 'a'", "v = '%s' % ()", "v = '%s' % ['a']"),
        *("v = 'a' * 999999999", "v = 'a' + 1", "v = nowhere", "v = [][0]", "v = {**{}}", "v = {[]: 1}"),
        *("v = [x for x in 'abc']", "v = lambda: 1", "v = 'a'\nif True:\n    v = 'b'", "v = 'a'\nfor v in 'b': pass"),
        *("v, w = 'a', 'b'", "v = 'a'\ndef v(): pass", "v = 'a'\nimport os as v", "v = 'a'.zfill(999999999)"),
        *("v = 'a'.join(1)", "v = 'a'.split('')", "v = (1).upper()", "v += 'a'", "v = '{'.format()"),
        "v = '{x}'.format(**{'x': 'a'})",
    ],
)
def test_values_that_need_execution_stay_unknown_with_a_reason(text: str) -> None:
    read = read_static_values(text, "x.eb")
    assert "v" not in read.known
    assert read.unknown["v"]


@pytest.mark.parametrize(
    "text",
    [
        "v = 'aaaaaaaaaaaaaaaa'\n" + "v = v + v\n" * 60,
        "v = ['a']\n" + "v = v + v\n" * 60,
        "v = 'aaaaaaaaaaaaaaaa'\n" + "v = f'{v}{v}'\n" * 60,
        "v = 'aaaaaaaaaaaaaaaa'\n" + "v = '%s%s' % (v, v)\n" * 60,
        "v = 'aaaaaaaaaaaaaaaa'\n" + "v = '{}{}'.format(v, v)\n" * 60,
        "v = 'aaaaaaaaaaaaaaaa'\n" + "v = v.replace('a', v)\n" * 60,
        "v = 'aaaaaaaaaaaaaaaa'\n" + "v = v.join([v, v, v])\n" * 60,
    ],
    ids=["sum", "list", "f-string", "percent", "format", "replace", "join"],
)
def test_a_text_that_grows_and_grows_is_given_up(text: str) -> None:
    assert "v" in read_static_values(text, "x.eb").unknown


def test_a_name_may_become_known_again() -> None:
    read = read_static_values("v = open('x')\nv = 'a'", "x.eb")
    assert (read.known, read.unknown) == ({"v": "a"}, {})


def test_constants_are_known_but_not_given_back() -> None:
    read = read_static_values("v = SYSTEM", "x.eb", constants={"SYSTEM": "s"})
    assert read.known == {"v": "s"}


@pytest.mark.parametrize("text", ["v = 'a", "v = \0", "(" * 5000, "v = " + "-" * 100_000 + "1"], ids=len)
def test_refuses_a_program_that_is_not_python(text: str) -> None:
    with pytest.raises(BadInputError, match="not a valid easyconfig"):
        read_static_values(text, "x.eb")


@pytest.mark.slow
@pytest.mark.parametrize("grown", ["[x, x]", "(x, x)", "{'a': x, 'b': x}", "[{'a': (x, x)}]", "x + x"])
def test_a_list_that_holds_another_twice_forty_times_over_ends(grown: str) -> None:
    read = read_static_values("x = ['a']\n" + f"x = {grown}\n" * 40 + "name = 'a'\n", "x.eb")
    assert "x" in read.unknown
    assert read.known == {"name": "a"}


def test_a_number_too_long_to_be_written_is_not_seen() -> None:
    read = read_static_values(f"x = 0x{'f' * 50000}\nv = 'a-%s' % x\nw = f'{{x}}'\n", "x.eb")
    assert {"v", "w"} <= set(read.unknown) or len(read.known["v"]) > 50000  # some versions of Python 3.9 lack the limit


@pytest.mark.parametrize("text", ["'" + "{0}" * 400 + "'.format(x)", "'" + "%(x)s" * 400 + "' % {'x': x}"])
def test_a_text_is_not_made_that_would_be_too_long(text: str) -> None:
    tracemalloc.start()
    read = read_static_values("x = 'aa'\n" + "x = x + x\n" * 16 + f"v = {text}\n", "x.eb")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "v" in read.unknown
    assert peak < 10_000_000

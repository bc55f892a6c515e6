from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.documents import load_toml, load_yaml


def test_reads_a_table() -> None:
    assert load_toml('[a]\nb = "c"\n', "site profile x.toml") == {"a": {"b": "c"}}


def test_names_the_file_and_the_line_of_a_mistake() -> None:
    with pytest.raises(BadInputError, match=r"site profile x\.toml is not valid TOML: .*line 2"):
        load_toml("a = 1\nb = \n", "site profile x.toml")


def test_refuses_deep_nesting() -> None:
    with pytest.raises(BadInputError, match="nested too deeply"):
        load_toml("a = " + "[" * 100_000, "site profile x.toml")


def test_scalars_are_strings() -> None:
    assert load_yaml("a: 1.10\nb: [yes, x=1.2]\n", "f") == {"a": "1.10", "b": ["yes", "x=1.2"]}


@pytest.mark.parametrize("text", ["a: [", "!!python/object/apply:os.getcwd []", "x" * (1 << 21), "[" * 5000])
@pytest.mark.slow
def test_yaml_that_is_not_plain_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="f: "):
        load_yaml(text, "f")


@pytest.mark.parametrize("text", ["[" * 3000, "{ [\n" * 60])
def test_deeply_nested_yaml_is_refused_before_it_is_scanned(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("yaml.SafeLoader", None)
    with pytest.raises(BadInputError, match="nested too deeply"):
        load_yaml(text, "x.yml")

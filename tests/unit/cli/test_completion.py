from __future__ import annotations

import pytest
from click.shell_completion import ShellComplete

from hpcmod.cli.main import main


def complete(*words: str) -> set[tuple[str, str]]:
    completion = ShellComplete(main, {}, "hpcmod", "_HPCMOD_COMPLETE")
    return {(one.value, one.type) for one in completion.get_completions(list(words[:-1]), words[-1])}


@pytest.mark.parametrize("words", [("site", "show"), ("ls", "--site"), ("lint", "--site"), ("job", "--site")])
def test_names_of_site_profiles_are_completed(words: tuple[str, ...]) -> None:
    assert complete(*words, "lu") == {("lumi", "plain")}
    assert complete(*words, "./x") == {("./x", "file")}


@pytest.mark.parametrize("words", [("publish",), ("lint",)])
def test_files_are_completed(words: tuple[str, ...]) -> None:
    assert complete(*words, "a") == {("a", "file")}

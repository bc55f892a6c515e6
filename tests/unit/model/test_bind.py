from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.errors import BadInputError
from hpcmod.model.bind import Bind


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        pytest.param("/opt/cray", Bind("/opt/cray"), id="source alone"),
        pytest.param("/a:/b", Bind("/a", "/b"), id="source and destination"),
        pytest.param("/a:/b:ro", Bind("/a", "/b", "ro"), id="with options"),
        pytest.param("/a::ro", Bind("/a", "", "ro"), id="options without a destination"),
        pytest.param("/a:/b:image-src=/x:y", Bind("/a", "/b", "image-src=/x:y"), id="colon in the options"),
        pytest.param("/with space:/b", Bind("/with space", "/b"), id="space"),
    ],
)
def test_parses_what_apptainer_reads(text: str, bind: Bind) -> None:
    assert Bind.parse(text) == bind


def test_remembers_that_a_bind_is_required() -> None:
    assert Bind.parse("/a", required=True).required
    assert not Bind.parse("/a").required


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "absolute", id="empty"),
        pytest.param("relative", "absolute", id="relative source"),
        pytest.param("/a:b", "absolute", id="relative destination"),
        pytest.param("$HOME/x", "absolute", id="unexpanded variable"),
        pytest.param("/a,/b", "comma", id="two binds in one"),
        pytest.param("/a:/b:ro,image-src=/", "comma", id="two options"),
        pytest.param("/a\n/b", "control character", id="newline"),
    ],
)
def test_refuses_what_apptainer_would_misread_and_shows_it(text: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words) as caught:
        Bind.parse(text)
    assert repr(text) in caught.value.message
    assert caught.value.cure


@pytest.mark.parametrize(
    ("bind", "text"),
    [
        pytest.param(Bind("/a"), "/a", id="source alone"),
        pytest.param(Bind("/a", "/b"), "/a:/b", id="source and destination"),
        pytest.param(Bind("/a", "", "ro"), "/a:/a:ro", id="options need a destination"),
        pytest.param(Bind("/a,b", "/c", "ro"), r"/a\,b:/c:ro", id="comma of an installation's own path"),
    ],
)
def test_prints_the_form_of_the_bind_variables(bind: Bind, text: str) -> None:
    assert str(bind) == text


parts = st.text(st.characters(blacklist_characters=":,", blacklist_categories=["Cs", "Cc"]), max_size=10)


@given(parts, parts, parts)
def test_what_is_printed_parses_to_the_same_bind(source: str, destination: str, options: str) -> None:
    bind = Bind(f"/{source}", f"/{destination}", options)
    assert Bind.parse(str(bind)) == bind

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError
from hpcmod.machine.values.bind import Bind, can_be_bound, parse_elements, version_key


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        pytest.param("/opt/cray", Bind("/opt/cray"), id="source alone"),
        pytest.param("/a:/b", Bind("/a", "/b"), id="source and destination"),
        pytest.param("/a:/b:ro", Bind("/a", "/b", "ro"), id="with options"),
        pytest.param("/a::ro", Bind("/a", "", "ro"), id="options without a destination"),
        pytest.param("/a:/b:image-src=/x:y", Bind("/a", "/b", "image-src=/x:y"), id="colon in the options"),
        pytest.param("/with space:/b", Bind("/with space", "/b"), id="space"),
        pytest.param(r"/a\,b:/c\:d:ro", Bind("/a,b", "/c:d", "ro"), id="comma and colon of a path"),
        pytest.param("/a/*/b:/c", Bind("/a/*/b", "/c", pattern=True), id="pattern"),
        pytest.param("/a-{uname_r}", Bind("/a-{uname_r}", pattern=True), id="kernel"),
    ],
)
def test_parses_the_same_binds_as_apptainer(text: str, bind: Bind) -> None:
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
        pytest.param(Bind("/a:b", "", "ro"), r"/a\:b:/a\:b:ro", id="colon of a path"),
    ],
)
def test_prints_the_form_of_the_bind_variables(bind: Bind, text: str) -> None:
    assert str(bind) == text


parts = st.text(st.characters(blacklist_characters=":,*?{\\", blacklist_categories=["Cs", "Cc"]), max_size=10)


@given(parts, parts, parts)
def test_a_printed_bind_parses_to_the_same_bind(source: str, destination: str, options: str) -> None:
    bind = Bind(f"/{source}", f"/{destination}", options)
    assert Bind.parse(str(bind)) == bind


@given(st.lists(st.sampled_from([*"a:, {", "/"])).map("".join))
def test_a_path_with_commas_and_colons_is_printed_so_that_it_is_read_again(path: str) -> None:
    bind = Bind(f"/{path}", f"/x{path}")
    assert Bind.parse(str(bind)) == bind


def test_the_value_of_a_variable_is_read_as_apptainer_does() -> None:
    found = parse_elements(r",data:/d,/a\,b,,/c:/d:ro,/e", origin="$X")
    assert found == (Bind("data", "/d"), Bind("/a,b"), Bind("/c", "/d", "ro"), Bind("/e"))
    assert {bind.origin for bind in found} == {"$X"}


@pytest.mark.parametrize(
    ("candidate", "other", "fits"),
    [
        pytest.param(Bind("/a"), Bind("/a"), True, id="the same"),
        pytest.param(Bind("/a", "/b"), Bind("/a", "/b", "ro"), True, id="other options"),
        pytest.param(Bind("/a", "/b"), Bind("/a"), False, id="other destination"),
        pytest.param(Bind("/a", "/b"), Bind("/c", "/b"), False, id="other source"),
        pytest.param(Bind("/a/*/b", "/c", pattern=True), Bind("/a/1.2/b", "/c"), True, id="pattern"),
        pytest.param(Bind("/a.b/?", pattern=True), Bind("/a.b/1"), True, id="pattern without a destination"),
        pytest.param(Bind("/a.b/?", pattern=True), Bind("/axb/1"), False, id="a dot is a dot"),
        pytest.param(Bind("/a/*"), Bind("/a/1"), False, id="no pattern"),
        pytest.param(Bind("/a-{uname_r}", pattern=True), Bind("/a-6.1"), True, id="kernel"),
        pytest.param(Bind("/a-{uname_r}", pattern=True), Bind("/a-5.4"), False, id="another kernel"),
    ],
)
def test_a_candidate_knows_the_binds_it_can_become(candidate: Bind, other: Bind, fits: bool) -> None:
    assert candidate.stands_for(other, "6.1") is fits


def test_releases_are_sorted_as_people_do() -> None:
    paths = ["/default", "/v1.9", "/1.9", "/1.10.1", "/1.10", "/2"]
    assert sorted(paths, key=version_key) == ["/default", "/v1.9", "/1.9", "/1.10", "/1.10.1", "/2"]


@pytest.mark.parametrize(
    ("path", "can"), [("/a b,c:d", True), ("/a\\b", True), ("/a\\,b", False), ("/a\\", False), ("/\n", False)]
)
def test_no_bind_holds_a_backslash_before_a_sign_of_its_own(path: str, can: bool) -> None:
    assert can_be_bound(path) is can

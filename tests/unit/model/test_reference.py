from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.errors import BadInputError
from hpcmod.model.reference import ImageReference


@pytest.mark.parametrize(
    ("text", "kind", "file_name"),
    [
        pytest.param("torch.sif", "name", "torch.sif", id="bare name"),
        pytest.param("with space.sif", "name", "with space.sif", id="name with a space"),
        pytest.param("torch:2.7.sif", "name", "torch:2.7.sif", id="name with a colon"),
        pytest.param("/appl/images/torch.sif", "path", "torch.sif", id="absolute path"),
        pytest.param("./torch.sif", "path", "torch.sif", id="relative path"),
        pytest.param("https://host/a/torch.sif", "url", "torch.sif", id="https"),
        pytest.param("HTTP://host:8080/torch.sif?download=1", "url", "torch.sif", id="http with a query"),
        pytest.param("https://host/a%20b.sif", "url", "a b.sif", id="escaped space"),
    ],
)
def test_reads_the_kinds_it_knows_and_keeps_what_was_typed(text: str, kind: str, file_name: str) -> None:
    reference = ImageReference.parse(text)
    assert (reference.kind, reference.file_name, str(reference)) == (kind, file_name, text)


@pytest.mark.parametrize(
    "text", ["", "  ", "images/", "..", "a/..", "https://host/", "https:///x.sif", "https://[x/a.sif"]
)
def test_refuses_what_names_no_file(text: str) -> None:
    with pytest.raises(BadInputError):
        ImageReference.parse(text)


@pytest.mark.parametrize("text", ["a\nb.sif", "https://host/a%0Ab.sif", "https://host/%2e%2e", "https://host/x%2F.."])
def test_refuses_names_that_could_leave_their_directory_or_line(text: str) -> None:
    with pytest.raises(BadInputError):
        ImageReference.parse(text)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("docker://host/repo:tag", "apptainer pull NAME.sif docker://host/repo:tag"),
        ("oras://host/repo:tag", "apptainer pull NAME.sif oras://host/repo:tag"),
        ("docker-archive:x.tar", "apptainer build NAME.sif docker-archive:x.tar"),
        ("file:///x.sif", "Give the path"),
    ],
)
def test_says_what_to_do_with_kinds_it_does_not_support(text: str, cure: str) -> None:
    with pytest.raises(BadInputError, match="not supported") as caught:
        ImageReference.parse(text)
    assert cure in caught.value.cure


@given(st.text(max_size=40))
def test_any_text_is_a_reference_that_prints_as_typed_or_bad_input(text: str) -> None:
    try:
        assert str(ImageReference.parse(text)) == text
    except BadInputError as err:
        assert err.message

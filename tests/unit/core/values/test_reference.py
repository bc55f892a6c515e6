from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.reference import OCI_KINDS, ImageReference

DIGEST = "sha256:" + "0123456789abcdef" * 4


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
        pytest.param(f"docker://h.io/a/b@{DIGEST}", "docker", "b-sha256-0123456789abcdef.sif", id="digest"),
        pytest.param(f"docker://h.io/a/b:1@{DIGEST}", "docker", "b-1-sha256-0123456789abcdef.sif", id="tag and digest"),
        pytest.param("docker-archive:/a/torch.tar", "docker-archive", "torch.sif", id="docker-archive"),
        pytest.param("docker-archive:a.tar:x/y:1", "docker-archive", "a-x-y-1.sif", id="docker-archive with a tag"),
        pytest.param("oci:/a/layout:v1", "oci", "layout-v1.sif", id="layout with a tag"),
    ],
)
def test_reads_known_kinds_and_keeps_the_typed_text(text: str, kind: str, file_name: str) -> None:
    reference = ImageReference.parse(text)
    assert (reference.kind, reference.file_name, str(reference)) == (kind, file_name, text)


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest"),
    [
        ("docker://docker.io/ubuntu", "docker.io", "library/ubuntu", "latest", ""),
        ("docker://index.docker.io/pytorch/pytorch:2.7", "docker.io", "pytorch/pytorch", "2.7", ""),
        ("docker://localhost/x:1", "localhost", "x", "1", ""),
        ("docker://127.0.0.1:5000/a/b_c/d.e--f:v1.0", "127.0.0.1:5000", "a/b_c/d.e--f", "v1.0", ""),
        ("docker://[::1]:5000/x", "[::1]:5000", "x", "latest", ""),
        (f"docker://ghcr.io/a/b@{DIGEST}", "ghcr.io", "a/b", "", DIGEST),
        (f"docker://ghcr.io/a/b:1@{DIGEST}", "ghcr.io", "a/b", "1", DIGEST),
        ("oras://ghcr.io/a/b:1", "ghcr.io", "a/b", "1", ""),
        ("docker://GHCR.io/a/b:V1", "ghcr.io", "a/b", "V1", ""),
        ("docker://Docker.IO/ubuntu", "docker.io", "library/ubuntu", "latest", ""),
    ],
)
def test_takes_a_registrys_reference_apart(text: str, registry: str, repository: str, tag: str, digest: str) -> None:
    found = ImageReference.parse(text)
    assert (found.registry, found.repository, found.tag, found.digest) == (registry, repository, tag, digest)
    assert found.pinned == bool(digest)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("docker://docker.io/ubuntu", "docker://docker.io/library/ubuntu:latest"),
        (f"docker://ghcr.io/a/b:1@{DIGEST}", f"docker://ghcr.io/a/b:1@{DIGEST}"),
        ("https://user:secret@host/a.sif?key=secret", "https://host/a.sif?..."),
        ("HTTPS://Host/A.sif", "https://host/A.sif"),
        ("oci-archive:///a/b.tar", "oci-archive:/a/b.tar"),
        ("docker-archive:a.tar:x/y:1", "docker-archive:a.tar:x/y:1"),
        ("torch.sif", "torch.sif"),
    ],
)
def test_canonical_adds_what_was_omitted_and_drops_secrets(text: str, canonical: str) -> None:
    assert ImageReference.parse(text).canonical == canonical


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("docker://ubuntu", "docker://docker.io/library/ubuntu"),
        ("docker://ubuntu:22.04", "docker://docker.io/library/ubuntu:22.04"),
        ("docker://pytorch/pytorch", "docker://docker.io/pytorch/pytorch"),
        (f"docker://pytorch/pytorch@{DIGEST}", f"docker://docker.io/pytorch/pytorch@{DIGEST}"),
        ("oras://a/b:1", "oras://REGISTRY/NAME:TAG"),
    ],
)
def test_refuses_a_name_without_a_registry_and_suggests_the_full_one(text: str, full: str) -> None:
    with pytest.raises(BadInputError, match="the registry is missing") as caught:
        ImageReference.parse(text)
    assert full in caught.value.cure


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "images/", "..", "a/..", "https://host/", "https:///x.sif", "https://[x/a.sif", "x" * 9000),
        *("docker://", "docker:///x", "docker://h.io/", "docker://h.io/a//b", "docker://h.io/a:", "docker://h.io/a@"),
        *("docker://h.io/A", "docker://h.io/a:.b", "docker://h.io/a:" + "t" * 129, "docker://h.io/" + "a" * 251),
        *("docker://h.io/a@sha256:0", f"docker://h.io/a@{DIGEST}0", f"docker://h.io/a@{DIGEST.upper()}"),
        *(f"docker://h.io/a@{DIGEST}@{DIGEST}", "docker://-h.io/a", "docker://h.io:x/a", "docker://h..io/a"),
        *("docker://h.io/../a", "docker://h.io/a b", "docker://h.io/a?b", "docker://h.io/a#b", "docker://h.io/é"),
        *("oci:", "oci:x:", "docker-archive:/", "library://x/y/z:1"),
        *("docker-daemon:x", "a/x.def", "file:///x.sif"),
    ],
)
def test_refuses_what_names_no_image(text: str) -> None:
    with pytest.raises(BadInputError):
        ImageReference.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *("docker://me:hunter2@ghcr.io/a/b:1", "docker://me:hunter2@ghcr.io", "docker://me:hunt/er2@ghcr.io/a"),
        *("oras://me:hunter2@h.io/a:1", "ftp://me:hunter2@h.io/a.sif", "https://me:hunter2@h.io/"),
    ],
)
def test_a_password_is_refused_before_a_registry_and_in_no_message(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        ImageReference.parse(text)
    assert "er2" not in str(caught.value)


@pytest.mark.parametrize("text", ["a\nb.sif", "https://host/a%0Ab.sif", "https://host/%2e%2e", "https://host/x%2F.."])
def test_refuses_names_that_could_leave_their_directory_or_line(text: str) -> None:
    with pytest.raises(BadInputError):
        ImageReference.parse(text)


def test_images_whose_names_end_alike_get_files_of_different_names() -> None:
    texts = ["docker://a.io/x/torch:1", "docker://b.io/x/torch:1", "oras://a.io/y/torch:1"]
    assert len({ImageReference.parse(text).file_name for text in texts}) == len(texts)


ALPHABET = st.sampled_from(
    [*"aB0.:/@-_ \n[]%?#\udc80é", "docker://", "oras://", "oci:", "sha256:", "..", "localhost", DIGEST]
)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(ALPHABET, max_size=12).map("".join)))
def test_any_text_is_a_reference_that_prints_as_typed_or_bad_input(text: str) -> None:
    try:
        reference = ImageReference.parse(text)
    except BadInputError as err:
        assert err.message
        return
    assert str(reference) == text
    assert reference.file_name not in ("", ".", "..")
    assert "/" not in reference.file_name
    if reference.registry:
        again = ImageReference.parse(reference.canonical)
        assert (again.canonical, again.file_name) == (reference.canonical, reference.file_name)
        assert reference.kind in ("oras", *OCI_KINDS)

"""Requirements, channels, and records of conda packages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.packages.values.conda import (
    DEFAULT_CHANNELS,
    NO_CONDA,
    CondaPackage,
    CondaPart,
    check_conda,
    conda_name,
    merge_conda,
    package_of_url,
    parse_channels,
    parse_conda_specs,
    with_times,
)

SAMTOOLS = CondaPackage(
    "samtools", "1.19", "h5_0", "https://example.org/bio/linux-64/samtools-1.19-h5_0.conda", "a" * 64, 10, "2026-01-01"
)
HTSLIB = CondaPackage(
    "htslib", "1.19", "h5_0", "https://example.org/bio/linux-64/htslib-1.19-h5_0.tar.bz2", "b" * 64, 10, "2026-01-01"
)
PART = CondaPart(("samtools=1.19",), ("https://example.org/bio",), (HTSLIB, SAMTOOLS))


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("samtools", "samtools"),
        ("samtools=1.19", "samtools"),
        ("SamTools >=1.19,<2", "samtools"),
        ("bioconda::samtools[build=h*]", "samtools"),
        ("_libgcc_mutex", "_libgcc_mutex"),
        ("-e .", ""),
        ("a b", "a"),
        ("", ""),
    ],
)
def test_the_name_in_a_requirement(spec: str, name: str) -> None:
    assert conda_name(spec) == name


def test_requirements_are_checked() -> None:
    assert parse_conda_specs((" samtools=1.19", "samtools=1.19", "htslib")) == ("samtools=1.19", "htslib")
    for word in ("", "--target=/x", "x\ny"):
        with pytest.raises(BadInputError, match="is not a conda package"):
            parse_conda_specs((word,))
    with pytest.raises(BadInputError, match="Python is the image's"):
        parse_conda_specs(("python=3.12",))


def test_a_directory_becomes_a_url_and_a_name_stays_a_name() -> None:
    words = ("./my channel", "conda-forge", "https://example.org/bio/", "conda-forge")
    assert parse_channels(words, "/home/alice", lambda path: path == "/home/alice/my channel") == (
        "file:///home/alice/my%20channel",
        "conda-forge",
        "https://example.org/bio",
    )


@pytest.mark.parametrize(
    "word",
    [
        "https://alice:secret@example.org/bio",
        "https://example.org/t/secret/bio",
        "https://example.org/bio?token=secret",
    ],
)
def test_a_channel_with_a_password_is_refused_without_printing_it(word: str) -> None:
    with pytest.raises(BadInputError, match="has a password or token") as caught:
        parse_channels((word,), "/", lambda _: False)
    assert "secret" not in f"{caught.value.message}{caught.value.cure}"


def test_other_channels_are_refused() -> None:
    for word in ("ftp://example.org/bio", "a b", "--x", ""):
        with pytest.raises(BadInputError, match="--channel"):
            parse_channels((word,), "/", lambda _: False)


def test_packages_from_before_keep_their_builds_unless_they_are_requested_again() -> None:
    added = CondaPart(("samtools",))
    assert merge_conda(PART, added) == CondaPart(("samtools",), PART.channels, (HTSLIB,))
    assert merge_conda(PART, NO_CONDA) == PART
    assert merge_conda(PART, NO_CONDA, keep=False).packages == ()
    assert merge_conda(PART, NO_CONDA, ["samtools"]) == NO_CONDA
    assert merge_conda(NO_CONDA, added).channels == DEFAULT_CHANNELS
    lock = replace(PART, exact=True)
    assert merge_conda(CondaPart(("other",)), lock) == lock


@pytest.mark.parametrize(
    ("spec", "given", "channels"),
    [
        ("bioconda::samtools", (), ("conda-forge", "bioconda")),
        ("bioconda::samtools >=1", ("bioconda", "conda-forge"), ("bioconda", "conda-forge")),
        ("pytorch/label/nightly::pytorch", ("nvidia",), ("nvidia", "pytorch/label/nightly")),
        ("conda-forge/linux-64::zlib=1.3", ("bioconda",), ("bioconda", "conda-forge")),
        ("samtools", ("bioconda",), ("bioconda",)),
    ],
)
def test_a_channel_that_a_requirement_names_is_used(
    spec: str, given: tuple[str, ...], channels: tuple[str, ...]
) -> None:
    assert merge_conda(NO_CONDA, CondaPart((spec,), given)).channels == channels


@pytest.mark.parametrize(
    "damage",
    [{"requirements": ("--target=/x",)}, {"channels": ("x\ny",)}, {"packages": (replace(SAMTOOLS, name="../x"),)}],
)
def test_conda_packages_of_records_and_locks_are_checked(damage: dict[str, tuple[str, ...]]) -> None:
    check_conda(PART)
    with pytest.raises(BadInputError):
        check_conda(replace(PART, **damage))  # type: ignore[arg-type]


def test_the_url_of_something_else_is_refused() -> None:
    for url in ("https://example.org/x.whl", "https://a:b@example.org/x-1-0.conda", "ssh://example.org/x-1-0.conda"):
        with pytest.raises(BadInputError, match="is not the URL of a conda package"):
            package_of_url(url, "a" * 64)


def test_a_package_keeps_its_time_while_its_build_stays() -> None:
    again = with_times([replace(SAMTOOLS, since=""), replace(HTSLIB, since="", build="h6_0")], PART, "2026-02-02")
    assert [(one.name, one.since) for one in again] == [("htslib", "2026-02-02"), ("samtools", "2026-01-01")]

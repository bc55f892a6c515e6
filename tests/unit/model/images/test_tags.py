from __future__ import annotations

from hpcmod.model.images.tags import newer_tags, sort_tags

DIGITS = "a" * 64


def test_tags_are_sorted_by_their_numbers_and_names_come_last() -> None:
    assert sort_tags(["latest", "1.9", "1.10", "devel", "v2"]) == ["v2", "1.10", "1.9", "latest", "devel"]


def test_signatures_and_attestations_are_not_tags_of_images() -> None:
    assert sort_tags(["1", f"sha256-{DIGITS}.sig", f"sha256-{DIGITS}.att", f"sha256-{DIGITS}"]) == ["1"]


def test_a_newer_tag_has_the_same_words_and_higher_numbers() -> None:
    names = ["1.9-cuda12", "1.10-cuda12", "1.11-rocm6", "2.0", "1.8-cuda12", "1.10-cuda12.1", "latest"]
    assert newer_tags(names, "1.9-cuda12") == ["1.10-cuda12"]


def test_a_name_without_numbers_has_no_newer_one() -> None:
    assert newer_tags(["latest", "stable", "1"], "latest") == []

"""Comparing versions."""

from __future__ import annotations

from hpcmod.catalogue.values.order import release_key


def test_versions_are_sorted_by_their_numbers() -> None:
    ordered = ["0.9", "1.9", "1.10", "2.7.1", "2.7.1-cuda-12.8", "2.7.1-rocm-6.2.4", "2.7.1-rocm-6.10", "24.03"]
    by_text = sorted(ordered)
    by_text.sort(key=release_key)
    assert by_text == ordered

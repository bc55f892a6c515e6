from __future__ import annotations

from hpcmod.images.blobs.tally import Tally

A, B, C = (f"sha256:{letter * 64}" for letter in "abc")


def test_bytes_of_all_blobs_are_added_up_and_each_is_described() -> None:
    told: list[tuple[int, int]] = []
    parts: list[str] = []
    tally = Tally("an image", {A: 100, B: 200, C: 0}, progress=lambda *both: told.append(both), detail=parts.append)
    tally.set(A, 45)
    assert (told, parts) == ([(45, 300)], ["1 of 3 complete; aaaaaa 45 %"])
    tally.set(B, 6)
    assert tally.describe() == "1 of 3 complete; aaaaaa 45 %, bbbbbb 3 %"
    tally.set(B, 200)
    tally.set(A, 100)
    assert told[-1] == (300, 300)
    assert parts[-1] == "3 of 3 complete"


def test_a_blob_that_is_fetched_again_counts_from_its_start() -> None:
    told: list[tuple[int, int]] = []
    tally = Tally("an image", {A: 100}, progress=lambda *both: told.append(both))
    tally.set(A, 90)
    tally.set(A, 0)
    tally.set(A, 100)
    assert told[-1] == (100, 100)

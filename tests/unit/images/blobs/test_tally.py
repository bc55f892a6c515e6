from __future__ import annotations

from hpcmod.images.blobs.tally import Tally


def test_bytes_of_all_blobs_are_added_up_and_one_that_is_fetched_again_counts_from_its_start() -> None:
    told: list[tuple[int, int]] = []
    tally = Tally("an image", {"a": 100, "b": 200, "c": 0}, progress=lambda *both: told.append(both))
    tally.set("a", 45)
    assert told == [(45, 300)]
    for digest, done in (("b", 200), ("a", 0), ("a", 100)):
        tally.set(digest, done)
    assert told[-1] == (300, 300)

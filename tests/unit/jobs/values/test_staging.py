"""Whether nodes get copies of the image: what is faster at assumed rates, with the reason."""

from __future__ import annotations

import re

import pytest

from hpcmod.jobs.values.staging import LEAST_GAIN, PlaceFacts, StagingFacts, decide_staging

GB = 10**9
FACTS = StagingFacts(8 * GB, "lustre", 64, (PlaceFacts("nvme"), PlaceFacts("ram", 100 * GB)))


@pytest.mark.parametrize(
    ("change", "place", "why"),
    [
        pytest.param({}, "nvme", "it saves an estimated", id="many nodes"),
        pytest.param({"nodes": 2}, "", "less than 10 s", id="two nodes of Lustre"),
        pytest.param({"nodes": 1}, "", "on one node", id="one node"),
        pytest.param({"size": 200_000_000, "nodes": 10_000}, "", "starts as fast", id="a small image"),
        pytest.param({"size": None}, "", "size of the image is not known", id="an image that is not here"),
        pytest.param({"file_system": "xfs"}, "", "xfs, which the nodes do not share", id="a disk of the node"),
        pytest.param({"file_system": "nfs4", "nodes": 16}, "nvme", "it saves", id="one server"),
        pytest.param({"file_system": ""}, "nvme", "it saves", id="an unknown file system"),
        pytest.param({"places": ()}, "", "no node-local storage has room for 8 GB (there is none)", id="no place"),
        pytest.param(
            {"places": (PlaceFacts("ram", 5 * GB),)}, "", "has room for 8 GB (ram 5 GB)", id="too little memory"
        ),
    ],
)
def test_the_place_depends_on_the_image_the_file_system_and_the_nodes(
    change: dict[str, object], place: str, why: str
) -> None:
    decision = decide_staging(FACTS._replace(**change))  # type: ignore[arg-type]
    assert decision.place == place
    assert why in decision.why


def test_the_first_place_with_room_is_used() -> None:
    assert decide_staging(FACTS).place == "nvme"
    small = FACTS._replace(places=(PlaceFacts("nvme", GB), PlaceFacts("ram", 100 * GB)))
    assert decide_staging(small).place == "ram"


def test_the_arithmetic_gives_the_seconds_of_both() -> None:
    decision = decide_staging(FACTS)
    assert decision.lines == (
        "--stage auto: nvme, because it saves an estimated 13 s",
        "off: 64 nodes x 25% of 8 GB / 4 GB/s = 32 s",
        "copies: 3 s + 8 GB / 500 MB/s = 19 s",
    )


@pytest.mark.parametrize("nodes", [2, 3, 8, 100, 10_000])
@pytest.mark.parametrize("size", [GB, 30 * GB])
@pytest.mark.parametrize("file_system", ["lustre", "nfs"])
def test_what_is_chosen_is_never_slower_than_reading_in_place(nodes: int, size: int, file_system: str) -> None:
    decision = decide_staging(FACTS._replace(nodes=nodes, size=size, file_system=file_system))
    seconds = {line.partition(":")[0]: int(re.findall(r"= (\d+) s", line)[0]) for line in decision.arithmetic}
    assert bool(decision.place) == (decision.why.startswith("it saves"))
    assert not decision.place or seconds["off"] - seconds["copies"] >= LEAST_GAIN - 1

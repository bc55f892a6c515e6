from __future__ import annotations

from hpcmod.images.acquire.locate import image_directories


def test_an_image_is_looked_for_below_each_parent_by_letter_and_name_and_at_the_sites_places_last() -> None:
    found = image_directories(["/recipes/", "/sources"], "PyTorch", ["/site/images"])
    assert found == [
        *("/recipes/p/PyTorch", "/recipes/PyTorch", "/recipes"),
        *("/sources/p/PyTorch", "/sources/PyTorch", "/sources"),
        "/site/images",
    ]

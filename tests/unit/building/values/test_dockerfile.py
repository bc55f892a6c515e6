from __future__ import annotations

import pytest

from hpcmod.building.values.dockerfile import images_of


@pytest.mark.parametrize(
    ("text", "images"),
    [
        ("FROM a.io/x:1\nRUN true\n", ("a.io/x:1",)),
        ("from --platform=linux/amd64 x AS one\nFROM one\nFROM scratch\n", ("x",)),
        ("FROM \\\n  x\nCOPY --from=b.io/y /a /a\nCOPY --from=0 /b /b\n", ("x", "b.io/y")),
        ("FROM x\nRUN --mount=type=bind,from=z,target=/z true\n", ("x", "z")),
        ("ARG V=1\nFROM x:$V\n", ("x:$V",)),
    ],
)
def test_every_image_of_a_dockerfile_is_found(text: str, images: tuple[str, ...]) -> None:
    assert images_of(text) == images

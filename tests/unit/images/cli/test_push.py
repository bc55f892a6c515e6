from __future__ import annotations

import pytest

from tests.calls import hpcmod

pytestmark = pytest.mark.usefixtures("image_places")


@pytest.mark.parametrize(
    ("image", "target", "said"),
    [
        ("a.sif", "docker://ghcr.io/a/b:1", "oras://HOST/NAME:TAG"),
        ("oci:layout", "oras://ghcr.io/a/b:1", "docker://HOST/NAME:TAG"),
        ("a.sif", f"oras://ghcr.io/a/b@sha256:{'0' * 64}", "the digest follows from the image"),
    ],
)
def test_a_target_that_does_not_fit_the_image_is_refused(image: str, target: str, said: str) -> None:
    done = hpcmod("push", image, target)
    assert done.exit_code == 2
    assert said in done.stderr

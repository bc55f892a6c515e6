"""`hpcmod build` has every option for packages."""

from __future__ import annotations

from hpcmod.cli.images.build import build
from hpcmod.cli.images.package_options import FOR_PACKAGES, NOT_FOR_PACKAGES


def test_the_named_options_exist() -> None:
    known = {option.name: option.opts for option in build.params}
    for parameter, option in {**FOR_PACKAGES, **NOT_FOR_PACKAGES}.items():
        assert option in known[parameter]
    assert {"requirements", "conda"} <= set(known)

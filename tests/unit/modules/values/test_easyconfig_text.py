from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.easyconfig_text import NamedImage, fill_values, read_named_image

HEAD = "name = 'PyTorch'\nversion = '2.7.1'\nversionsuffix = '-rocm'\n"


@pytest.mark.parametrize(
    ("text", "reference", "urls", "checksum"),
    [
        ("sources = ['a.sif']", "a.sif", (), None),
        ("sources = ['%(namelower)s-%(version)s%(versionsuffix)s.sif']", "pytorch-2.7.1-rocm.sif", (), None),
        ("image = 'docker://h.io/x:%(version)s'\nsources = []", "docker://h.io/x:2.7.1", (), None),
        ("sources = ['a.sif']\nsource_urls = ['https://h/%(name)s']", "a.sif", ("https://h/PyTorch",), None),
        ("sources = [{'filename': 'a.sif', 'source_urls': ['oras://h.io/a']}]", "a.sif", ("oras://h.io/a",), None),
        ("sources = ['a.sif']\nchecksums = ['" + "0" * 64 + "']", "a.sif", (), "0" * 64),
        ("sources = ['a.sif']\nchecksums = [None]", "a.sif", (), None),
        ("description = f'{1}'\nsources = ['a.sif']", "a.sif", (), None),
    ],
)
def test_the_image_is_read_from_the_text(
    text: str, reference: str, urls: tuple[str, ...], checksum: str | None
) -> None:
    assert read_named_image(HEAD + text, "x.eb") == NamedImage("PyTorch", reference, urls, checksum)


@pytest.mark.parametrize(
    "text",
    ["", "sources = []", "sources = [SOURCE_SIF]", "sources = ['%(arch)s.sif']", "sources = [1]", "sources = 3", "x ="],
)
def test_reports_values_that_need_easybuild(text: str) -> None:
    with pytest.raises(BadInputError):
        read_named_image(HEAD + text, "x.eb")


def test_known_templates_are_filled_in_wherever_a_text_is() -> None:
    value = {"a": ["%(name)s-%(other)s", ("%(name)s", 1)], "b": None}
    assert fill_values(value, {"name": "x"}) == {"a": ["x-%(other)s", ("x", 1)], "b": None}

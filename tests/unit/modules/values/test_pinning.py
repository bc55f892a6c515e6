from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.modules.values.pinning import pin_image

DIGEST = f"sha256:{'a' * 64}"
TEXT = """\
name = 'tool'  # of ours

# source: https://example.org/
image = 'docker://quay.io/org/tool:1.2'
# no public document has the digest: `hpcmod catalogue pin` adds it
checksums = [None]
wrapped_commands = ['tool']
"""


def test_the_digest_is_added_and_the_missing_checksum_removed_with_its_comment() -> None:
    assert pin_image(TEXT, "tool.eb", DIGEST) == (
        "name = 'tool'  # of ours\n\n# source: https://example.org/\n"
        f"image = 'docker://quay.io/org/tool:1.2@{DIGEST}'\nwrapped_commands = ['tool']\n"
    )


def test_a_long_reference_is_broken_before_its_digest_and_templates_are_kept() -> None:
    long = "docker://quay.io/organization/a-tool-with-a-long-name:%(version)s"
    new = pin_image(TEXT.replace("docker://quay.io/org/tool:1.2", long), "tool.eb", DIGEST)
    assert f"image = (\n    '{long}'\n    '@{DIGEST}'\n)\n" in new


def test_an_image_on_several_lines_is_replaced_as_a_whole() -> None:
    text = TEXT.replace("'docker://quay.io/org/tool:1.2'", "(\n    'docker://quay.io/'\n    'org/tool:1.2'\n)")
    assert pin_image(text, "tool.eb", DIGEST) == pin_image(TEXT, "tool.eb", DIGEST)


def test_a_checksum_stays() -> None:
    assert "checksums = ['b']" in pin_image(TEXT.replace("[None]", "['b']"), "tool.eb", DIGEST)


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("image = 'docker://quay.io/org/tool:1.2'", "image = 'docker://' + 'quay.io/org/tool:1.2'"),
        TEXT + "image = 'docker://quay.io/org/other:1'\n",
        TEXT.replace("image =", "sources ="),
        TEXT.replace("docker://quay.io/org/tool:1.2", "tool.sif"),
        "image = (",
    ],
)
def test_an_image_that_is_not_one_plain_string_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        pin_image(text, "tool.eb", DIGEST)

"""What `lfs getstripe` prints; the tool is a fake, as there is no Lustre here."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.fs.striping import count_stripes, parse_stripes

# The forms of the examples in lfs-getstripe(1) and of the Lustre manual, chapter "Managing File Layout".
PLAIN = """{path}
lmm_stripe_count:  {count}
lmm_stripe_size:   4194304
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 3
\tobdidx\t\t objid\t\t objid\t\t group
\t     3\t     1234567\t     0x12d687\t     0
"""
COMPOSITE = """image.sif
  lcm_layout_gen:    3
  lcm_mirror_count:  1
  lcm_entry_count:   3
    lcme_id:             1
    lcme_flags:          init
    lcme_extent.e_start: 0
    lcme_extent.e_end:   4194304
      lmm_stripe_count:  1
      lmm_stripe_size:   1048576
    lcme_id:             2
    lcme_flags:          init
    lcme_extent.e_start: 4194304
    lcme_extent.e_end:   1073741824
      lmm_stripe_count:  4
    lcme_id:             3
    lcme_flags:          0
    lcme_extent.e_start: 1073741824
    lcme_extent.e_end:   EOF
      lmm_stripe_count:  16
"""


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param(PLAIN.format(path="image.sif", count=1), 1, id="one target"),
        pytest.param(PLAIN.format(path="image.sif", count=8), 8, id="eight targets"),
        pytest.param(COMPOSITE, 4, id="a progressive layout, of which the last part is not in use"),
        pytest.param("image.sif has no stripe info\n", None, id="a file without layout"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_reads_the_largest_stripe_count_in_use(text: str, count: int | None) -> None:
    assert parse_stripes(text) == count


@pytest.mark.parametrize(("status", "count"), [(0, 8), (1, None)])
def test_asks_lustres_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, count: int | None) -> None:
    image = tmp_path / "an image.sif"
    (tmp_path / "lfs").write_text(f"""#!/bin/sh
[ "$1 $2" = "getstripe {image}" ] || exit 9
printf '%s' '{PLAIN.format(path=image, count=8)}'
exit {status}
""")
    (tmp_path / "lfs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert count_stripes(image) == count


def test_without_the_tool_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert count_stripes(tmp_path) is None

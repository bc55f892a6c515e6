"""What `lfs getstripe` prints; the tool is a fake, as there is no Lustre here."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.fs.striping import count_stripes, find_stripes, parse_stripes, set_layout
from tests.lustre import pretend_lustre

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


def test_sets_the_layout_of_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, said = pretend_lustre(monkeypatch, tmp_path / "lustre"), list[str]()
    set_layout(tmp_path, "", said.append)
    set_layout(tmp_path, "-E 64M -c 1 -E -1 -c 8", said.append)
    assert log.read_text() == f"setstripe -E 64M -c 1 -E -1 -c 8 {tmp_path}: lustre\n"
    assert said == []


def test_a_file_on_lustre_has_stripes_and_a_directory_or_a_missing_file_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pretend_lustre(monkeypatch, tmp_path / "lustre")
    assert [find_stripes(path) for path in (log, tmp_path, tmp_path / "missing")] == [8, None, None]


def test_says_why_a_layout_could_not_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_lustre(monkeypatch, tmp_path / "lustre", status=1, error="no such pool")
    said: list[str] = []
    set_layout(tmp_path, "-c 8", said.append)
    monkeypatch.setenv("PATH", str(tmp_path))
    set_layout(tmp_path, "-c 8", said.append)
    assert said[0].endswith("because lfs setstripe -c 8 failed: no such pool")
    assert "lfs" in said[1].partition("failed: ")[2]


def test_elsewhere_than_on_lustre_nothing_is_asked_or_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = pretend_lustre(monkeypatch, tmp_path / "lustre")
    monkeypatch.setattr("hpcmod.core.fs.striping.find_file_system", lambda _: "xfs")
    set_layout(tmp_path, "-c 8", lambda _: None)
    assert find_stripes(log) is None
    assert log.read_text() == ""

"""What the benchmarks read from traces."""

from __future__ import annotations

from pathlib import Path

from tests.bench.measure import traced_bytes

TRACE = """\
726 pread64(5</work/a.sif>, "hsqs"..., 4194304, 0) = 4194304
727 pread64(5</work/a.sif>,  <unfinished ...>
727 <... pread64 resumed>"abcd"..., 4194304, 4194304) = 1000
726 pread64(6</node/.part>, "hsqs"..., 4194304, 0) = 4194304
726 sendfile(7<TCP:[1->2]>, 6</node/.part>, [0] => [4096], 4096) = 4096
"""


def test_bytes_that_were_read_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "trace").write_text(TRACE)
    assert traced_bytes(tmp_path / "trace", "/work/a.sif") == (4194304 + 1000, 0)
    assert traced_bytes(tmp_path / "trace", "/node/.part") == (4194304 + 4096, 0)

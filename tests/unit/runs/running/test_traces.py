from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, NotFoundError
from hpcmod.runs.running import traces
from hpcmod.runs.running.traces import find_profiles, read_profiles, write_trace
from hpcmod.runs.values.logs.traces import merge_traces
from tests.unit.runs.values.logs.test_traces import torch_trace


def test_the_files_of_a_job_are_found_and_read(tmp_path: Path) -> None:
    (tmp_path / "hpcmod-profile-7-rank0.json").write_text(json.dumps(torch_trace(0, 1.0)))
    (tmp_path / "hpcmod-profile-7-rank1.json.gz").write_bytes(gzip.compress(json.dumps(torch_trace(1, 1.0)).encode()))
    (tmp_path / "hpcmod-profile-7-rank3" / "nid001").mkdir(parents=True)
    (tmp_path / "hpcmod-profile-7-rank3" / "nid001" / "99_results.pftrace").touch()
    (tmp_path / "hpcmod-profile-7-rank3" / "link").symlink_to("/etc")
    (tmp_path / "hpcmod-profile-70-rank0.json").touch()
    paths = find_profiles(tmp_path, "7")
    found, problems = read_profiles(paths)
    assert [one.rank for one in found] == [0, 1]
    assert problems == (f"{paths[2]}/nid001/99_results.pftrace stays as it is: only traces in JSON are merged",)
    assert find_profiles(tmp_path / "nowhere", "7") == []


def test_unreadable_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traces, "_LARGEST", 100)
    texts = {"rank0.json": b"{", "rank1.json.gz": b"no gzip", "rank2.json": b" " * 200, "x.json": b"[]"}
    texts["rank3.json.gz"] = gzip.compress(b" " * 200)
    for name, data in texts.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "rank4.json").symlink_to("/dev/zero")
    (tmp_path / "rank5.txt").touch()
    paths = [tmp_path / name for name in ("rank0.json", "rank1.json.gz", "rank2.json", "rank3.json.gz", "rank4.json")]
    found, problems = read_profiles([*paths, tmp_path / "rank5.txt"])
    assert found == () and len(problems) == 6, problems
    with pytest.raises(NotFoundError, match="no such file"):
        read_profiles([tmp_path / "rank9.json"])


def test_a_merged_trace_is_written_plain_or_compressed(tmp_path: Path) -> None:
    merged = merge_traces([])
    write_trace(merged, tmp_path / "a.json")
    write_trace(merged, tmp_path / "a.json.gz")
    plain = (tmp_path / "a.json").read_bytes()
    assert json.loads(plain)["traceEvents"] == [] and gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == plain
    with pytest.raises(BadInputError, match="cannot write"):
        write_trace(merged, tmp_path / "no" / "a.json")

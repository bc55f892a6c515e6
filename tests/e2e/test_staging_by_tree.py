"""Staging 1 GB by tree on 4 and 8 virtual nodes: how often the shared file is read, and the cost of a failure."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcmod.modules.values.plan import RunscriptSettings
from tests.bench.measure import traced_bytes
from tests.stack import Cluster, Stack, start_cluster, stop_cluster
from tests.unit.runscripts.scripts import write_runscripts

pytestmark = pytest.mark.stack

SIZE = int(os.environ.get("HPCMOD_TREE_BYTES", "1000000000"))
JOB = """#!/bin/bash
export SIFBIG={top}/big.sif PATH={top}/bin:$PATH
staged=$({top}/stage-image {local}) || exit
eval "$staged"
echo "staged: ${{SIF-no}}"
[[ ! ${{SIF-}} ]] || srun sha256sum "$SIF"
"""
PYTHON = """#!/bin/bash
# In place of the nodes' python3: counts what it reads; on nid002, it fails as the test wants.
run() {{
  exec strace -f -y -qq -e trace=read,pread64,sendfile -o {top}/trace.$SLURMD_NODENAME /usr/bin/python3 "$@"
}}
[[ $SLURMD_NODENAME == nid002 && $4 ]] || run "$@"
{fault}
"""
KILL = """
keeper=$PPID
/usr/bin/python3 "$@" <&0 &
until size=$(stat -c %s "$5") && ((size > {bytes})); do sleep 0.01; done 2>/dev/null
kill -9 {victims} $!
"""
FLIP = """
flip='def flip(connection, source, at, count, done=[]):
    data = bytearray(os.pread(source.fileno(), count, at))
    if at >= 20 * BLOCK and not done:
        done.append(at)
        data[7] ^= 1
    connection.sendall(data)

'
text=${{4/def send_blocks/"$flip"def send_blocks}}
run "${{@:1:3}}" "${{text/connection.sendfile(/flip(connection, }}" "${{@:5}}"
"""


@pytest.fixture(scope="module", params=[4, 8])
def cluster(stack: Stack, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    started = start_cluster(stack, f"tree-{request.param}-{os.getpid()}", "-n", str(request.param))
    yield started
    stop_cluster(started)


def stage(cluster: Cluster, top: Path, fault: str, lost: str = "") -> tuple[str, int, int]:
    """Stage the file on all nodes; return the job's output, the bytes that the tree read, and the number of nodes.

    No copies may be left, except on the lost node, where nothing can remove them.
    """
    nodes = len(list((cluster.dir / "nodes").iterdir()))
    (top / "bin").mkdir()
    settings = RunscriptSettings("big/1", "SIFBIG")
    with (top / "big.sif").open("wb") as file:
        for _ in range(SIZE // 1_000_000):
            file.write(os.urandom(1_000_000))
    write_runscripts(top, settings)
    texts = {
        "bin/python3": PYTHON.format(top=top, fault=fault),
        "job.sh": JOB.format(top=top, local=cluster.dir / "local"),
    }
    for name, text in texts.items():
        (top / name).write_text(text)
        (top / name).chmod(0o755)
    words = ("sbatch", "--wait", f"-N{nodes}", "--ntasks-per-node=1", "-o", "out", "job.sh")
    done = cluster(*words, cwd=top, timeout=580)
    output = (top / "out").read_text()
    read = sum(traced_bytes(trace, "big.sif")[0] for trace in top.glob("trace.*"))
    print(f"{nodes} nodes: read {read} of {SIZE} bytes; {output}")
    assert done.returncode == 0, output
    (top / "big.sif").unlink()
    left = list((cluster.dir / "nodes").glob("*/*"))
    assert [path.parent.name for path in left] == [lost] * bool(lost)
    for path in left:
        shutil.rmtree(path)
    return output, read, nodes


def check_copies(output: str, nodes: int) -> None:
    sums = re.findall(r"^([0-9a-f]{64})  (\S+)", output, re.MULTILINE)
    assert len(sums) == nodes and len(set(sums)) == 1


if os.environ.get("HPCMOD_THOROUGH") == "1":

    def test_the_shared_file_is_read_once(cluster: Cluster, tmp_path: Path) -> None:
        output, read, nodes = stage(cluster, tmp_path, 'run "$@"')
        check_copies(output, nodes)
        assert read == SIZE

    def test_a_flipped_byte_on_the_way_is_sent_again(cluster: Cluster, tmp_path: Path) -> None:
        output, read, nodes = stage(cluster, tmp_path, FLIP.format())
        check_copies(output, nodes)
        assert "block 20 is damaged" in output
        assert read == SIZE

    def test_a_program_killed_in_the_middle_costs_one_more_read(cluster: Cluster, tmp_path: Path) -> None:
        output, read, nodes = stage(cluster, tmp_path, KILL.format(bytes=SIZE // 3, victims=""))
        check_copies(output, nodes)
        assert read == SIZE  # counts the tree's reads only
        assert output.count("copying the file itself") == 1
        assert "from nid002" in output

    def test_a_node_killed_in_the_middle_does_not_stop_the_others(cluster: Cluster, tmp_path: Path) -> None:
        output, read, _ = stage(cluster, tmp_path, KILL.format(bytes=SIZE // 3, victims="$keeper"), "nid002")
        assert read == SIZE
        assert "nid002: no word for 60 s" in output
        assert "continuing without a staged image" in output
        assert "copying the file itself" not in output

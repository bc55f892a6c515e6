"""Known endings, tested on excerpts from public threads, each with its source."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hpcmod.runs.known_endings import read_known_endings
from hpcmod.runs.values.endings.diagnosis import Diagnosis, diagnose
from hpcmod.runs.values.endings.ending import HINT
from hpcmod.runs.values.endings.events import Log, read_events

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[4]
KNOWN, _ = read_known_endings(())


def excerpts(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((HERE / name).read_text()).get("excerpt", [])
    return found


def explain(text: str) -> Diagnosis:
    return diagnose(read_events(Log("job.out", text), KNOWN))


def is_explained(one: dict[str, Any]) -> bool:
    """Return whether the diagnosis of an excerpt is as expected."""
    found = explain(one["text"])
    if "followed" in one:
        return found.cause is None and one["followed"] in [group.rule for group in found.followed]
    main = found.cause if found.cause and found.cause.kind != HINT else None
    return (main.rule if main else "") == one["main"] or (found.cause is not None and found.cause.rule == one["main"])


@pytest.mark.parametrize("one", excerpts("corpus.toml"), ids=lambda one: one["source"].partition("//")[2])
@pytest.mark.slow
def test_an_excerpt_is_explained(one: dict[str, Any]) -> None:
    found = explain(one["text"])
    assert is_explained(one), found
    if "ranks" in one:
        assert found.cause is not None and list(found.cause.ranks) == one["ranks"]
    if "place" in one:
        assert found.cause is not None and found.cause.place == one["place"]
    if "signal" in one:
        assert found.cause is not None and found.cause.signal == one["signal"]


def test_every_excerpt_has_a_public_source() -> None:
    sources = [one["source"] for name in ("corpus.toml", "held_out.toml") for one in excerpts(name)]
    assert all(source.startswith("https://") for source in sources)
    assert len(sources) == len(set(sources)) >= 60
    assert len({source.partition("#")[0] for source in sources}) >= 25


@pytest.mark.parametrize("one", excerpts("held_out.toml"), ids=lambda one: one["source"].partition("//")[2])
@pytest.mark.slow
def test_an_excerpt_that_the_first_rules_did_not_know_is_explained(one: dict[str, Any]) -> None:
    """The first score is in docs/explanation/run-diagnosis.md; excerpts missed then have `first = "missed"`."""
    assert is_explained(one), explain(one["text"])


def test_the_first_scores_are_those_that_the_page_reports() -> None:
    page = (CHECKOUT / "docs" / "explanation" / "run-diagnosis.md").read_text()
    for number in (1, 2, 3):
        held_out = [one for one in excerpts("held_out.toml") if one.get("round", 1) == number]
        explained = [one for one in held_out if "first" not in one]
        assert f"**{len(explained)} of {len(held_out)}**" in page


NETWORK_ERROR = "NCCL error in: NCCLUtils.cpp:77, remote process exited or there was a network error"
LMOD = "Lmod has detected the following error:"


@pytest.mark.parametrize(
    ("text", "rule", "shown", "cure"),
    [
        (f'{LMOD} The following module(s) are unknown:\n"PyTorhc/2.7"\n\nPlease',
         "module-unknown", '"PyTorhc/2.7"', "ls PyTorhc "),
        (f"{LMOD} S/3 is restricted to\nthe group x; ask y@z \nWhile processing",
         "module-refused", "ask y@z", "Ask whom"),
        (f"{LMOD} Tiny/1.0 was retired.\n", "module-refused", "was retired", "hpcmod ls"),
        ("/x/slurm_script: line 3: module: command not found\nexecve(): singularity: No such file or directory",
         "module-command-missing", "line 3", "bash -l"),
        ("P/2: your packages `default` were made for another image, so\nthey are off\nsrun: error: n1: task 0: "
         "Exited with exit code 1\nModuleNotFoundError: No module named 'einops'",
         "packages-off", "`default`", "rebase P "),
        ("singularity: HPCMOD_PACKAGES=x: you have no set of packages `x`; see\nsrun: error: n1: task 0: Exited with "
         "exit code 3", "packages-unknown", "`x`", "HPCMOD_PACKAGES=none"),
        ("RuntimeError: cannot load MPI library\n/v/lib/libmpi.so: cannot open shared object file: No such file or "
         "directory", "mpi-library-missing", "cannot load", "mpich"),
        ("./solve: error while loading shared libraries: libhdf5.so.200: cannot open shared object file: No such file "
         "or directory", "library-missing", "libhdf5", "find / -xdev -name libhdf5.so.200`"),
        ("ImportError: /host/lib/libfabric.so.1: version `FABRIC_1.8' not found (required by /usr/lib64/libmpi.so.12)",
         "library-too-old", "FABRIC_1.8", "hpcmod site netstack check"),
        ("python: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by /host/lib/libcuda.so.1)",
         "glibc-too-old", "GLIBC_2.34", "newer base"),
        *((f"[rank1]: DistBackendError: {NETWORK_ERROR}\n[rank1]: Last error:\n[rank1]: {last}\nsrun: error: n2: "
           "task 1: Exited with exit code 1", "nccl-connect", last, "check NAME --network")
          for last in (
            "socketPollConnect: Connect to 10.0.0.3<54321> returned 113(No route to host) errno 115(Operation now in",
            "socketPollConnect: exceeded timeouts (3)", "Net : Connect to 10.0.0.3<54321> failed : No route to host",
            "socketPollConnect: connect to 10.0.0.3<1> returned No route to host, exceeded error retry count after 35",
          )),
        ("srun: error: n1: task 0: Killed", "task-exit", "Killed", "--mem=0"),
    ],
)  # fmt: skip
def test_what_modules_and_packages_say_is_explained(text: str, rule: str, shown: str, cure: str) -> None:
    cause = explain(text).cause
    assert cause is not None and cause.rule == rule and shown in cause.text and cure in cause.cure


def test_packages_that_are_off_explain_no_other_failure() -> None:
    found = explain("P/2: your packages `default` were made for another image\nHIP out of memory")
    assert found.cause is not None and found.cause.rule == "gpu-memory"


FINE = """
[W socket.cpp:401] [c10d] The server socket has failed to listen on [::]:29500 (errno: 97 - Address family ...).
NCCL INFO NET/Plugin : libnccl-net.so: cannot open shared object file: No such file or directory
NCCL INFO NET/Plugin: libnccl-net.so: /lib/libc.so.6: version `GLIBC_2.34' not found (required by /host/libfabric.so.1)
[c10d] The hostname of the client socket cannot be retrieved. err=-3
libfabric:core:core:ofi_reg_dl_prov():406<warn> dlopen(x-fi.so): x.so.1: version `FABRIC_1.2' not found (required by x)
NCCL INFO socketPollConnect: connect returned No route to host, retrying (26/34) after sleep for 2600 msec
UserWarning: [Errno 28] No space left on device.  joblib will operate in serial mode
Exception ignored in: <function Pool.__del__ at 0x7f>
Traceback (most recent call last):
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 271, in __del__
ResourceWarning: unclosed running multiprocessing pool
epoch 1 loss 0.5
done
"""


def test_a_run_that_went_well_has_no_cause() -> None:
    assert explain(FINE).cause is None

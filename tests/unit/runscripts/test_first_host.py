from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from hpcmod.machine.values.tables import Network
from tests.unit.runscripts.scripts import Scripts
from tests.unit.runscripts.test_launchers import flux, mpich, openmpi, pals

pytestmark = pytest.mark.slow

FIRST_HOSTS = [
    ("nid005023", "nid005023"),
    ("nid[005023,005030-005032]", "nid005023"),
    ("nid[001-004,7],x1", "nid001"),
    ("x1,nid[001-004,7]", "x1"),
    ("gpu[01-02]-[1-4]", "gpu01-1"),
    ("a[1-2][3-4]", "a13"),
    ("a[1]b[2],c", "a1b2"),
    ("a-b[003,007]", "a-b003"),
    ("nid[08-10]", "nid08"),
    ("nid[9-010]", "nid9"),
    ("nid[001-2]", "nid001"),
    ("nid[3-3]", "nid3"),
    ("a[5,3]", "a5"),
    ("[1-3]", "1"),
    ("[001]", "001"),
    ("001,a", "001"),
    ("a_b.c-d", "a_b.c-d"),
    ("a1-2-3,b", "a1-2-3"),
    ("a,,b", "a"),
    (",a", "a"),
    ("a,", "a"),
    ("a[1-65536]", "a1"),
    *((f"{blank}nid[001-002]{blank}", "nid001") for blank in (" ", "\t", "  \t ")),
]

KEPT_SUFFIXES = [
    ("n[1-2]-ib", "n1-ib"),
    ("x1000c[0-1]s[0-3]b0n0", "x1000c0s0b0n0"),
    ("nid[001-002]x,y", "nid001x"),
    ("a.b[1-2].c", "a.b1.c"),
]

NONSENSE = [
    *("", "   ", ",", "-", "-n,b", "a,-b", "x" * 50_000 + "["),  # no host, or an option
    *("nid[01-1a]", "[a,b]", "nid[1x2]", "nid[+1]", "nid[\u0661-\u0663]", "a[1-99999999999999999999]"),  # no numbers
    *("nid[5-3]", "nid[010-9]", "a[1-3,2-1]", "a[1-2]b[2-1]", "x,a[2-1]"),  # ranges that fall
    *("a[1-65537]",),  # a range that is too long for Slurm
    *("nid[]", "nid[1,]", "nid[,1]", "nid[1,,2]", "nid[1-]", "nid[-1]", "nid[1-,3]", "nid[1,-3]"),  # incomplete ranges
    *("nid[1--3]", "nid[1-2-3]"),
    *("nid[1", "nid[1],b[", "nid1]", "a,nid1]", "nid[1]2]", "nid[[1]]", "nid]1["),  # brackets that do not match
    *("a b", "nid[ 1-2]", "a\tb", "a\nb", "a\n", "a\r", "a\x1b[1mb", "a\x7f", "größe"),  # characters of no host
    *("a;b", "$(id)", "`id`", "nid[$(touch${IFS}pwned)]", "nid[a[$(id)]-1]", "nid[HOME-1]", "$HOME"),  # commands
    *("*", "a?", "a/b", "a\\b", "'a'", "a=b", "a:1", "a@b", "a|b", "a&b", "a>b", "%s%n"),
]


@pytest.mark.parametrize(("hosts", "first"), FIRST_HOSTS + KEPT_SUFFIXES)
def test_prints_the_first_host(scripts: Scripts, hosts: str, first: str) -> None:
    ran = scripts("get-master", hosts)
    assert (ran.status, ran.stdout, ran.stderr) == (0, f"{first}\n", "")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "en_US.UTF-8", "xx"])
def test_any_locale_will_do(scripts: Scripts, locale: str) -> None:
    ran = scripts("get-master", "rack[1,3]node[2-3]", env={"LC_ALL": locale})
    assert (ran.status, ran.stdout) == (0, "rack1node2\n")


@pytest.mark.parametrize("hosts", NONSENSE, ids=lambda hosts: ascii(hosts[:30]))
def test_refuses_nonsense_with_one_message_and_no_output(scripts: Scripts, hosts: str, tmp_path: Path) -> None:
    ran = scripts("get-master", hosts, cwd=tmp_path, env={"SLURM_NODELIST": "nid001", "LC_ALL": "C.UTF-8"})
    assert (ran.status, ran.stdout) == (2, "")
    assert ran.stderr.startswith("get-master: ") and ran.stderr.count("\n") == 1 and len(ran.stderr) < 600
    assert ran.stderr.isprintable() or ran.stderr[:-1].isprintable()
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("env", "host"),
    [
        pytest.param({"SLURM_STEP_NODELIST": "a[1-2]", "SLURM_JOB_NODELIST": "b"}, "a1", id="step first"),
        pytest.param({"SLURM_JOB_NODELIST": "b[2]", "SLURM_NODELIST": "c"}, "b2", id="then job"),
        pytest.param({"SLURM_NODELIST": "c"}, "c", id="then the old name"),
        pytest.param({"SLURM_STEP_NODELIST": "", "SLURM_JOB_NODELIST": "b"}, "b", id="empty is not there"),
        pytest.param({"TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "nid7"}, "nid7", id="torchrun"),
        pytest.param({**openmpi(3, 4, 4), "HOSTNAME": "login1"}, socket.gethostname(), id="Open MPI on one node"),
        pytest.param({**mpich(3, 4, 4), "HOSTNAME": "login1"}, socket.gethostname(), id="MPICH on one node"),
        pytest.param({**pals(3, 4, 4), "HOSTNAME": "login1"}, socket.gethostname(), id="PALS on one node"),
        pytest.param({**flux(3, 1, 4), "HOSTNAME": "login1"}, socket.gethostname(), id="Flux on one node"),
        pytest.param({**openmpi(3, 2, 4), "SLURM_JOB_NODELIST": "n[3-4]"}, "n3", id="Open MPI in a job of Slurm"),
    ],
)
def test_without_an_argument_it_is_the_host_that_the_environment_names(
    scripts: Scripts, env: dict[str, str], host: str
) -> None:
    assert scripts("get-master", env=env).stdout == f"{host}\n"


def test_a_file_of_pbs_names_the_first_host(scripts: Scripts, tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("x3001c0s1b0n0\nx3001c0s1b0n0\nx3002\n")
    ran = scripts("get-master", env={"PBS_NODEFILE": str(tmp_path / "nodes")})
    assert ran.stdout == "x3001c0s1b0n0\n"


@pytest.mark.parametrize(
    ("suffix", "hosts", "env", "host"),
    [
        pytest.param("i", ["jwb[0038,0061]"], {}, "jwb0038i", id="an argument"),
        pytest.param("i", [], {"SLURM_JOB_NODELIST": "jwb[0038,0061]"}, "jwb0038i", id="the job"),
        pytest.param("i.juwels", ["jwb0038"], {}, "jwb0038i.juwels", id="a domain"),
        pytest.param("i", ["n1.site,n2.site"], {}, "n1i.site", id="a host with a domain"),
        pytest.param("i.site", ["n1.site"], {}, "n1i.site", id="a domain of both"),
        pytest.param("i", ["10.13.23.40"], {}, "10.13.23.40", id="an address"),
        pytest.param("i", [], {"TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "nid7"}, "nid7", id="torchrun's own"),
    ],
)
def test_a_host_has_its_name_in_the_fast_network(
    scripts: Scripts, suffix: str, hosts: list[str], env: dict[str, str], host: str
) -> None:
    scripts.change_site(network=Network(host_suffix=suffix))
    ran = scripts("get-master", *hosts, env=env)
    assert (ran.status, ran.stdout, ran.stderr) == (0, f"{host}\n", "")


@pytest.mark.parametrize(
    ("env", "lists"),
    [
        pytest.param(openmpi(3, 2, 4), [], id="Open MPI"),
        pytest.param(flux(3, 2, 4), [], id="Flux"),
        pytest.param({"PBS_NODEFILE": "/nowhere"}, [], id="no file"),
        pytest.param({"PBS_NODEFILE": "/proc/self/status"}, [], id="no host"),
        pytest.param({}, [], id="no list"),
        pytest.param({}, ["nid001", "nid002"], id="two lists"),
    ],
)
def test_where_no_one_names_a_host_none_is_guessed(scripts: Scripts, env: dict[str, str], lists: list[str]) -> None:
    ran = scripts("get-master", *lists, env=env)
    assert (ran.status, ran.stdout) == (2, "")
    assert env or lists or "SLURM_STEP_NODELIST" in ran.stderr


def test_an_argument_beats_the_environment(scripts: Scripts) -> None:
    assert scripts("get-master", "a", env={"SLURM_STEP_NODELIST": "b"}).stdout == "a\n"


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_tells_how_to_use_it(scripts: Scripts, option: str) -> None:
    ran = scripts("get-master", option)
    assert ran.status == 0 and ran.stdout.startswith("usage: get-master [NODELIST]\n")


def test_starts_no_program(scripts: Scripts) -> None:
    assert scripts("get-master", "nid[001-004,7],x1", path="/nonexistent").stdout == "nid001\n"


def test_ignores_the_startup_files_of_bash(scripts: Scripts, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("echo read; exit 9\n")
    env = {"BASH_ENV": str(tmp_path / "rc"), "BASH_FUNC_printf%%": "() { echo mine; }", "SHELLOPTS": "xtrace:errexit"}
    assert scripts("get-master", "a", env=env).stdout == "a\n"


def test_takes_the_list_of_the_largest_machine(scripts: Scripts) -> None:
    hosts = ",".join(f"nid{number:06}" for number in range(1, 9409))
    assert scripts("get-master", env={"SLURM_NODELIST": hosts}).stdout == "nid000001\n"


def test_a_list_is_not_split_where_the_user_set_ifs(scripts: Scripts) -> None:
    done = subprocess.run(
        [str(scripts.root / "runscripts" / "get-master"), "n[0-1,4]"], env={"IFS": "0-"}, capture_output=True, text=True
    )
    assert done.stdout == "n0\n"

from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.machine.values.site import Launcher, Nodes, NodeType
from tests.unit.runscripts.scripts import DISTRIBUTED, EIGHT, Rank, make_program, task
from tests.unit.runscripts.test_launchers import mpich, torchrun

pytestmark = pytest.mark.slow

TWO = task(1, (1, 1), ROCR_VISIBLE_DEVICES=EIGHT, SLURM_JOB_ID="7")
PORT = str(10240 + (7 * 13957) % 22511)
TORCHRUN = [
    "-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "8",
    "--node_rank", "1", "--master_addr", "nid001", "--master_port", PORT, "--no-python", "SCRIPT",
]  # fmt: skip
ACCELERATE = [
    "-m", "accelerate.commands.launch", "--num_machines", "2", "--machine_rank", "1", "--num_processes", "16",
    "--main_process_ip", "nid001", "--main_process_port", PORT, "--multi_gpu",
]  # fmt: skip


@pytest.mark.parametrize(("name", "words"), [("torchrun", TORCHRUN), ("accelerate", ACCELERATE), ("srun", [])])
@pytest.mark.parametrize(
    "given",
    [
        pytest.param((), id="by variable"),
        pytest.param(("--launcher", "{}"), id="by option"),
        pytest.param(("--launcher={}", "--"), id="by option with a sign of equality"),
    ],
)
def test_a_launcher_is_run_by_the_images_python(
    rank: Rank, name: str, words: list[str], given: tuple[str, ...]
) -> None:
    env = {**TWO, "HPCMOD_LAUNCHER": "ray" if given else name}
    ran = rank(env, *(word.format(name) for word in given), "train.py", "--launcher", "a b")
    assert (ran.status, ran.stderr) == (0, "")
    script = str(rank.scripts.root / "runscripts" / DISTRIBUTED)
    expected = [word.replace("SCRIPT", script) for word in words]
    assert ran.arguments == [*expected, "train.py", "--launcher", "a b"]


def test_torchrun_gets_its_own_options(rank: Rank) -> None:
    words = rank(TWO, "--launcher=torchrun", "--rdzv=c10d", "--max-restarts", "3", "--tee=3", "x.py").arguments
    own = words[words.index("--nproc_per_node") + 2 : words.index("--no-python")]
    assert own == [
        "--rdzv_backend", "c10d", "--rdzv_endpoint", f"nid001:{PORT}", "--rdzv_id", "7",
        "--max_restarts", "3", "--tee", "3",
    ]  # fmt: skip


def test_a_rank_of_torchrun_does_not_start_torchrun_again(rank: Rank) -> None:
    env = rank({**TWO, "HPCMOD_LAUNCHER": "torchrun", "HPCMOD_TEE": "3", "HPCMOD_SAVE_CACHES": "x"}, "x.py").environment
    assert not {"HPCMOD_LAUNCHER", "HPCMOD_TEE", "HPCMOD_SAVE_CACHES"} & set(env)
    ran = rank({**TWO, **torchrun()}, "x.py")
    assert ran.arguments == ["x.py"] and ran.environment["ROCR_VISIBLE_DEVICES"] == EIGHT


@pytest.mark.parametrize(("more", "threads"), [({"SLURM_CPUS_PER_TASK": "56"}, "7"), ({}, None)])
def test_ranks_of_torchrun_share_the_cores_as_threads(rank: Rank, more: dict[str, str], threads: str | None) -> None:
    for own, expected in (({}, threads), ({"OMP_NUM_THREADS": "2"}, "2")):
        seen = rank({**TWO, **more, **own}, "--launcher=torchrun", "x.py").environment
        assert seen.get("OMP_NUM_THREADS") == expected


def test_a_launcher_ignores_signals_for_the_ranks(rank: Rank, tmp_path: Path) -> None:
    make_program(tmp_path / "python-bin" / "python", "#!/bin/bash\nkill -USR1 $$\nkill -USR2 $$\necho alive\n")
    assert rank(TWO, "--launcher=torchrun", "x.py").stdout == "alive\n"


def test_ranks_of_a_launcher_get_no_rank_variables(rank: Rank) -> None:
    seen = rank(TWO, "--launcher", "torchrun", "x.py").environment
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"} & set(seen)
    assert (seen["NODE_RANK"], seen["ROCR_VISIBLE_DEVICES"]) == ("1", EIGHT)


def test_a_machine_without_gpus_says_how_many_ranks(rank: Rank) -> None:
    env = task(0, (1, 1))
    assert "Set the number of ranks: --ranks-per-node N" in rank(env, "--launcher", "torchrun", "x.py").stderr
    for more in ({"HPCMOD_RANKS_PER_NODE": "3"}, {"SLURM_GPUS_ON_NODE": "3"}):
        words = rank({**env, **more}, "--launcher", "torchrun", "x.py").arguments
        assert words[words.index("--nproc_per_node") + 1] == "3"


def test_accelerate_on_nodes_without_gpus_starts_every_rank(rank: Rank) -> None:
    ran = rank(task(0, (1, 1)), "--launcher=accelerate", "--ranks-per-node=2", "x.py")
    assert ran.arguments[:6] == ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "2"]
    assert ran.environment["ACCELERATE_USE_CPU"] == "true"
    one = rank(task(0, (1,)), "--launcher=accelerate", "--ranks-per-node=1", "x.py").arguments
    assert one[1] == "accelerate.commands.launch" and one[-2:] == ["--cpu", "x.py"]


@pytest.mark.parametrize(
    ("layout", "more", "end"),
    [
        pytest.param((1, 1), {}, "--multi_gpu", id="GPUs of the node type"),
        pytest.param((1, 1), {"SLURM_JOB_PARTITION": "cpu"}, None, id="a partition without GPUs"),
        pytest.param(
            (1, 1), {"SLURM_JOB_PARTITION": "cpu", "SLURM_GPUS_ON_NODE": "2"}, "--multi_gpu", id="GPUs of Slurm"
        ),
        pytest.param((1,), {"HPCMOD_RANKS_PER_NODE": "1"}, None, id="one rank on one GPU"),
    ],
)
def test_accelerate_uses_the_gpus_that_no_variable_tells_of(
    rank: Rank, layout: tuple[int, ...], more: dict[str, str], end: str | None
) -> None:
    kinds = (NodeType("gpu", partitions=("gpu",), gpus=4), NodeType("cpu", partitions=("cpu",)))
    rank.scripts.change_site(nodes=Nodes(kinds))
    env = {"SLURM_JOB_PARTITION": "gpu", "HPCMOD_RANKS_PER_NODE": "4", **more}
    words = rank(task(0, layout, **env), "--launcher=accelerate", "x.py").arguments
    assert [word for word in words if word in ("--multi_gpu", "--cpu")] == ([end] if end else [])


def test_a_launcher_needs_the_number_of_the_node(rank: Rank) -> None:
    env = {**mpich(1, 1, 2), "MASTER_ADDR": "nid001", "HPCMOD_RANKS_PER_NODE": "2", "HPCMOD_LAUNCHER": "torchrun"}
    ran = rank(env, "x.py")
    assert (
        ran.status == 2
        and "mpiexec does not provide the node's number. Set NODE_RANK" in rank({**env, "PMI_RANK": "0"}).stderr
    )
    words = rank({**env, "NODE_RANK": "1"}, "x.py").arguments
    assert words[words.index("--node_rank") + 1] == "1"


def test_a_launcher_that_the_site_refuses_is_refused_with_the_reason(rank: Rank) -> None:
    rank.scripts.change_site(launcher=Launcher(refused=(("torchrun", "10 s become 10 minutes $(id)"),)))
    ran = rank(task(0, (1, 1)), "--launcher", "torchrun", "x.py")
    expected = "torchrun must not be used on this machine: 10 s become 10 minutes $(id)"
    assert (ran.status, ran.stdout, ran.stderr) == (2, "", f"{DISTRIBUTED}: {expected}\n")
    assert rank(task(0, (1, 1)), "--launcher", "accelerate", "--ranks-per-node", "1", "x.py").status == 0


FAULTS = [
    pytest.param(["--launcher", "mpirun"], "--launcher is 'mpirun', expected srun, torchrun", id="launcher"),
    pytest.param(["--ranks-per-node=x"], "--ranks-per-node is 'x', which is not a number", id="ranks"),
    pytest.param(["--debug", "nccl,gpu"], "--debug is 'gpu', expected rccl, nccl", id="debug"),
    pytest.param(["--profile-rank", "4"], "--profile-rank is '4', but the ranks are 0 to 3", id="a rank too high"),
    pytest.param(["--profile-rank", "a[$(touch pwned)]"], "but the ranks are 0 to 3", id="no rank"),
    pytest.param(
        ["--profile-rank=0", "--launcher=torchrun"], "needs one task per rank", id="profile of a launcher's rank"
    ),
    pytest.param(["--profile-rank", "3", "--profiler", "vtune -x"], "profiler 'vtune' not found", id="profiler"),
    pytest.param(
        ["--profile-rank", "0", "--profiler=torch", "--profile-steps=x"], "expected a number", id="steps to profile"
    ),
    pytest.param(
        ["--profile-rank", "0", "--profiler=nsys", "--profile-steps=2"], "with --profiler torch", id="steps of another"
    ),
    pytest.param(["--rdzv", "etcd", "--launcher=torchrun"], "--rdzv is 'etcd', expected static or c10d", id="rdzv"),
    pytest.param(["--max-restarts=x", "--launcher=torchrun"], "--max-restarts is 'x'", id="restarts"),
    pytest.param(["--tee=4", "--launcher=torchrun"], "--tee is '4', expected 0 to 3", id="tee"),
    pytest.param(["--tee=3"], "--tee needs --launcher torchrun", id="an option of torchrun for srun"),
    pytest.param(["--launcher=torchrun"], "tasks per node. Use srun --ntasks-per-node=1", id="more than a task a node"),
]


@pytest.mark.parametrize(("options", "message"), FAULTS)
def test_a_wrong_option_is_refused_once_for_all_ranks(
    rank: Rank, tmp_path: Path, options: list[str], message: str
) -> None:
    ran = [rank(task(number, (3, 1)), *options, "x.py") for number in range(3)]
    assert [each.status for each in ran] == [2, 2, 2] and all(each.stdout == "" for each in ran)
    assert message in ran[0].stderr and ran[0].stderr.count("\n") == 1
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("number", [0, 1])
def test_an_option_without_its_value_is_refused_once(rank: Rank, number: int) -> None:
    ran = rank(task(number), "--launcher")
    message = f"--launcher needs a value. See: {DISTRIBUTED} --help\n"
    assert (ran.status, ran.stderr) == (2, f"{DISTRIBUTED}: {'rank 1: ' * number}{message}")


def test_options_after_the_program_are_the_programs(rank: Rank) -> None:
    words = ["-u", "x.py", "--launcher", "torchrun", "--help", "--debug=hip"]
    assert rank(task(0), *words).arguments == words


@pytest.mark.parametrize("words", [["--", "x.py"], ["-h"], ["--version"], ["--debugger"], ["--launchers=a"]])
def test_unknown_options_are_passed_on_unchanged(rank: Rank, words: list[str]) -> None:
    assert rank(task(0), *words).arguments == words


@pytest.mark.parametrize("option", ["--help", "--hpcmod-help"])
def test_help_names_every_option_and_its_variable(rank: Rank, option: str) -> None:
    ran = rank({}, option)
    assert ran.status == 0
    words = "--gpus-visible --ranks-per-node --profile-rank --profiler --debug --save-caches --restore-caches"
    words += " --profile-steps --launcher --hpcmod-explain HPCMOD_LAUNCHER HPCMOD_TIMING HPCMOD_CPUS"
    for word in words.split():
        assert word in ran.stdout


ROCPROFV3 = ("--hip-trace", "--stats", "--output-directory", "{}", "--")


@pytest.mark.parametrize(
    ("profiler", "given", "words"),
    [
        pytest.param("rocprofv3", (), [*ROCPROFV3, "python", "x.py"], id="AMD, as of today"),
        pytest.param("rocprof", (), ["--hip-trace", "--stats", "-o", "{}.csv", "python", "x.py"], id="AMD"),
        pytest.param("nsys", (), ["profile", "--force-overwrite=true", "--output={}", "python", "x.py"], id="NVIDIA"),
        pytest.param("py-spy", (), ["record", "--output", "{}.svg", "--", "python", "x.py"], id="CPU"),
        pytest.param("nsys", ("--profiler", "py-spy"), ["record", "--output", "{}.svg", "--", "python", "x.py"]),
        pytest.param(
            "nsys",
            ("--profiler", "py-spy:speedscope"),
            ["record", "--format", "speedscope", "--idle", "--output", "{}.speedscope.json", "--", "python", "x.py"],
            id="py-spy with times",
        ),
        pytest.param("perf", (), ["record", "-g", "--output={}.perf.data", "--", "python", "x.py"], id="kernel too"),
        pytest.param("nsys", ("--profiler=mine -o  'a *",), ["-o", "'a", "*", "python", "x.py"], id="the user's own"),
    ],
)
def test_one_rank_is_profiled(
    rank: Rank, tmp_path: Path, profiler: str, given: tuple[str, ...], words: list[str]
) -> None:
    for name in (profiler, "py-spy", "mine"):  # the image has only one of AMD's two
        make_program(tmp_path / "python-bin" / name)
    profilers = ("rocprofv3", "rocprof") if profiler.startswith("rocprof") else (profiler,)
    rank.scripts.change(profilers=profilers)
    ran = [rank(task(number), "--profile-rank", "02", *given, "x.py") for number in (1, 2)]
    output = f"{Path.cwd()}/hpcmod-profile-4711-rank2"
    assert ran[0].arguments == ["x.py"]
    assert ran[1].arguments == [word.format(output) for word in words]


@pytest.mark.parametrize(
    ("kind", "variables"),
    [
        ("nccl", {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL", "NCCL_DEBUG_FILE": "{}/nccl-rank2.log"}),
        ("rccl", {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "{}/rccl-rank2.log"}),
        ("hip", {"AMD_LOG_LEVEL": "4", "AMD_LOG_LEVEL_FILE": "{}/hip-rank2.log"}),
        ("miopen", {"MIOPEN_ENABLE_LOGGING": "1"}),
        ("torch", {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_CPP_LOG_LEVEL": "INFO"}),
        ("mpi", {"MPICH_OFI_VERBOSE": "1", "MPICH_ENV_DISPLAY": "1"}),
    ],
)
def test_debug_output_is_one_file_a_rank(rank: Rank, tmp_path: Path, kind: str, variables: dict[str, str]) -> None:
    place = str(tmp_path / "a b")
    ran = rank(task(2, HPCMOD_DEBUG_DIR=place), "--debug", f"{kind}", "x.py")
    assert {name: ran.environment[name] for name in variables} == {
        name: value.format(place) for name, value in variables.items()
    }
    assert Path(place).is_dir() and ran.stderr == ""


def test_a_level_of_the_users_own_wins(rank: Rank, tmp_path: Path) -> None:
    env = task(2, HPCMOD_DEBUG_DIR=str(tmp_path), NCCL_DEBUG="TRACE", HPCMOD_DEBUG="nccl")
    assert rank.sees(env, "NCCL_DEBUG") == ("TRACE",)


@pytest.mark.parametrize("kind", ["miopen", "torch"])
def test_a_log_on_stderr_gets_a_file_and_the_first_rank_says_so(rank: Rank, tmp_path: Path, kind: str) -> None:
    make_program(tmp_path / "python-bin" / "python", "#!/bin/bash\necho logged >&2\n")
    ran = [rank(task(number, HPCMOD_DEBUG_DIR=str(tmp_path)), f"--debug={kind}", "x.py") for number in (0, 1)]
    assert "with all of its stderr" in ran[0].stderr and ran[1].stderr == ""
    assert [(tmp_path / f"{kind}-rank{number}.log").read_text() for number in (0, 1)] == ["logged\n"] * 2


def test_explain_prints_the_command_and_runs_nothing(rank: Rank, tmp_path: Path) -> None:
    ran = rank(TWO, "--launcher=torchrun", "--debug=nccl", "--hpcmod-explain", "x.py", "a b")
    words = " ".join(TORCHRUN).replace("SCRIPT", str(rank.scripts.root / "runscripts" / DISTRIBUTED))
    assert ran.stdout.splitlines()[-1] == f"# runs: python {words} x.py a\\ b"
    assert not (tmp_path / "caches").exists() and "\nRANK=" not in ran.stdout

"""Jobs as values: where ranks run, on which cores, and what is requested from Slurm."""

from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.jobs.values.job import JobPlan, make_job
from hpcmod.jobs.values.request import JobContainer, Staging
from hpcmod.machine.values.profile import parse_profile
from hpcmod.machine.values.site import JobRules, Launcher, Nodes, NodeType, Site, StagePlace
from hpcmod.machine.values.tables import Gpus
from tests.unit.jobs.requests import make_request

GPU_NODE = NodeType("gpu", cores=8, gpus=4, gpu_cores=((6, 7), (4, 5), (2, 3), (0, 1)), partitions=("whole", "shared"))
CPU_NODE = NodeType("cpu", cores=16, partitions=("cpu",))
SITE = Site(
    "ours",
    nodes=Nodes(types=(GPU_NODE, CPU_NODE)),
    gpu=Gpus(runtime_flags=("--nv",)),
    launcher=Launcher(cpu_bind="mask", srun=("--mpi=pmix", "--gpu-bind=closest")),
    job=JobRules(
        exclusive=("whole",),
        stage_places=(StagePlace("ram", "/tmp"), StagePlace("nvme", "/mnt/$USER", "-C nvme")),
    ),
)


def plan(*program: str, site: Site = SITE, **request: object) -> JobPlan:
    return make_job(make_request(*program, **request), site)


def directives(made: JobPlan) -> list[str]:
    return [each.option for each in made.directives]


def test_each_gpu_of_a_whole_node_has_a_rank_with_the_cores_near_it() -> None:
    made = plan(nodes=2)
    assert {"--nodes=2", "--ntasks-per-node=4", "--cpus-per-task=2", "--partition=whole", "--gpus-per-node=4"} <= set(
        directives(made)
    )
    assert made.step.command[-1] == "--cpu-bind=mask_cpu:0xc0,0x30,0xc,0x3"


def test_a_job_with_all_cores_of_a_shared_node_has_masks() -> None:
    made = plan(options=(("partition", "shared"),))
    assert made.step.command[-1] == "--cpu-bind=mask_cpu:0xc0,0x30,0xc,0x3"


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param({"options": (("partition", "shared"),), "cpus": 1}, id="some cores of shared nodes"),
        pytest.param({"gpus": 2}, id="half a node"),
    ],
)
def test_omits_cpu_masks_that_would_not_fit(request_of: dict[str, object]) -> None:
    made = plan(**request_of)
    assert not any("mask_cpu" in flag for flag in made.step.command)
    assert made.step.why.startswith("No masks")


def test_a_shared_partition_gives_whole_nodes_when_asked_to() -> None:
    assert "mask_cpu" in plan(options=(("partition", "shared"),), more=("--exclusive",)).step.command[-1]


def test_half_the_gpus_come_with_the_cores_near_them() -> None:
    made = plan(gpus=2)
    assert "--partition=shared" in directives(made)  # in the other one, you would pay for the whole node
    assert {"--ntasks-per-node=2", "--cpus-per-task=2", "--gpus-per-node=2"} <= set(directives(made))


def test_a_node_type_is_found_by_name_or_partition_and_has_no_gpu_flags_if_it_has_none() -> None:
    for made in (plan(node_type="cpu"), plan(options=(("partition", "cpu"),))):
        assert {"--partition=cpu", "--ntasks-per-node=1", "--cpus-per-task=16"} <= set(directives(made))
        assert "--nv" not in made.step.container
        assert not any("gpus" in option for option in directives(made))


def test_ranks_without_gpus_share_the_cores() -> None:
    made = plan(node_type="cpu", per_node=4, more=("--exclusive",))
    assert made.step.command[-1] == "--cpu-bind=mask_cpu:0xf,0xf0,0xf00,0xf000"


def test_other_launchers_get_one_task_a_node_and_no_flags_of_ranks() -> None:
    made = plan(nodes=2, launcher="torchrun")
    assert {"--ntasks-per-node=1", "--cpus-per-task=8"} <= set(directives(made))
    assert "--mpi=pmix" in made.step.command and "--gpu-bind=closest" not in made.step.command
    assert made.step.program == ("conda-python-distributed", "--launcher", "torchrun", "train.py")


def test_a_ratio_of_the_site_goes_before_the_cores() -> None:
    site = SITE._replace(launcher=Launcher(cpus_per_gpu=20))
    assert "--cpus-per-task=20" in directives(plan(site=site))
    assert "--cpus-per-task=40" in directives(plan(site=site, gpus=2, per_node=1))


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (("train.py", "-x"), ("conda-python-distributed", "train.py", "-x")),
        (("python", "train.py"), ("conda-python-distributed", "train.py")),
        (("-u", "train.py"), ("conda-python-distributed", "-u", "train.py")),
        (("-m", "train"), ("conda-python-distributed", "-m", "train")),
        (("--version",), ("conda-python-distributed", "--version")),
        (("./a.out", "-b", "1"), ("run-in-env", "./a.out", "-b", "1")),
    ],
)
def test_a_program_that_is_not_python_runs_as_a_command(words: tuple[str, ...], program: tuple[str, ...]) -> None:
    assert plan(*words).step.program == program


def test_options_of_ours_end_before_those_of_python() -> None:
    assert plan("--version", launcher="torchrun").step.program[-2:] == ("--", "--version")


def test_the_verb_of_the_runtime_is_the_sites() -> None:
    assert plan().step.container[1] == "exec"
    runs = SITE._replace(launcher=Launcher(verb="run"))
    assert plan(site=runs).step.container[1] == "run"
    for entry in ("own", "none"):  # `run` would start something else, or nothing, and end well
        made = plan(site=runs, container=JobContainer(entry=entry))
        assert made.step.container[1] == "exec"
        assert any("that of this image starts no programs: exec instead" in note for note in made.notes)


def test_ray_starts_one_program_of_any_kind_from_one_task_per_node() -> None:
    step = plan("vllm", "serve", "m", nodes=2, launcher="ray").step
    assert "--ntasks-per-node=1" in step.command
    assert step.program == ("conda-python-distributed", "--launcher", "ray", "--no-python", "vllm", "serve", "m")
    assert step.container[:3] == ("singularity", "exec", "--pid")
    assert "--kill-on-bad-exit=0" in step.command  # the other nodes end after the first one, with status 0
    assert plan("a.py", launcher="ray").step.program == ("conda-python-distributed", "--launcher", "ray", "a.py")


def test_ray_has_no_ranks() -> None:
    with pytest.raises(BadInputError, match="counts ranks, and ray starts one program"):
        plan("a.py", launcher="ray", per_node=2)


@pytest.mark.parametrize("launcher", ["accelerate", "torchrun"])
def test_a_launcher_on_a_machine_that_gives_gpus_by_task_gets_them_all(launcher: str) -> None:
    site = SITE._replace(launcher=Launcher(srun=("--gpus-per-task=1", "--gpu-bind=closest")))
    srun = plan(site=site, launcher=launcher).step.command
    assert "--gpus-per-task=4" in srun
    assert "--gpu-bind=closest" not in srun
    assert not any(
        flag.startswith("--gpus") for flag in plan(site=site, launcher=launcher, node_type="cpu").step.command
    )
    assert "--gpus-per-task=1" in plan(site=site).step.command


@pytest.mark.parametrize(
    ("ranks", "flag"),
    [
        pytest.param(1, "--gpus-per-task=4", id="one rank sees all GPUs, as on other machines"),
        pytest.param(2, "--gpus-per-task=1", id="fewer ranks than GPUs"),
        pytest.param(8, "--gpus-per-node=4", id="more ranks than GPUs, of which there is not one for each"),
    ],
)
def test_a_node_is_never_asked_for_more_gpus_than_it_has(ranks: int, flag: str) -> None:
    site = SITE._replace(launcher=Launcher(srun=("--gpus-per-task=1", "--gpu-bind=closest")))
    asked = [word for word in plan(site=site, per_node=ranks).step.command if word.startswith("--gpus")]
    assert asked == [flag]


@pytest.mark.parametrize("flag", ["-C nvme", "-Cnvme", "--constraint=nvme"])
@pytest.mark.parametrize(("users", "both"), [("big", "big&nvme"), ("nvme", "nvme"), ("nvme2&big", "nvme2&big&nvme")])
def test_the_features_of_the_user_and_of_a_place_are_both_asked_for(flag: str, users: str, both: str) -> None:
    site = SITE._replace(job=JobRules(stage_places=(StagePlace("nvme", "/mnt", flag),)))
    made = directives(plan(site=site, staging=Staging("nvme"), options=(("constraint", users),)))
    assert [each for each in made if each.startswith(("-C", "--constraint"))] == [f"--constraint={both}"]


def test_a_job_that_does_not_know_the_cores_does_not_claim_all_of_them() -> None:
    assert plan(per_node=1).step.why == "One task per node, with all its cores."
    assert "--cpus-per-task=N" in plan(site=Site("generic")).step.why


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"gpus": 0}, "asks for none"),
        ({"options": (("time", "1hour"),)}, "'1hour' is not a valid Slurm time limit"),
        ({"more": ("mem=0",)}, "'mem=0' is not an sbatch option"),
        ({"staging": Staging(data=("/data/x.zip",))}, "cannot be staged"),
    ],
)
def test_errors_of_a_job_are_found_before_the_queue(asked: dict[str, object], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        plan(**asked)


@pytest.mark.parametrize("limit", ["30", "30:00", "01:30:00", "2-0", "2-00:30", "2-00:00:00", "UNLIMITED"])
def test_every_time_limit_of_slurm_is_taken(limit: str) -> None:
    assert f"--time={limit}" in directives(plan(options=(("time", limit),)))


def test_a_job_is_named_after_the_program_even_after_python() -> None:
    assert plan("python", "-u", "src/train.py").name == "train"


def test_an_unknown_way_to_the_internet_is_reported() -> None:
    assert any("--proxy has no effect" in note for note in plan(proxy=True, nodes=2).notes)


@pytest.mark.parametrize(("ranks", "kept"), [(0, True), (2, False), (8, False)])
def test_one_task_a_socket_is_for_one_task_a_gpu(ranks: int, kept: bool) -> None:
    site = SITE._replace(launcher=Launcher(srun=("--ntasks-per-socket=1",), cpu_bind="socket"))
    assert ("--ntasks-per-socket=1" in plan(site=site, per_node=ranks).step.command) is kept
    assert "--ntasks-per-socket=1" not in plan(site=site, launcher="torchrun", gpus=1).step.command


@pytest.mark.parametrize(
    ("asked", "memory"),
    [
        pytest.param({}, "--mem=96G", id="a whole node"),
        pytest.param({"gpus": 1}, "--mem=24G", id="a quarter of its GPUs"),
        pytest.param({"node_type": "cpu"}, "--mem=50G", id="a node without GPUs"),
        pytest.param({"more": ("--mem=0",)}, "--mem=0", id="the user's"),
        pytest.param({"more": ("--mem-per-gpu=9G",)}, "--mem-per-gpu=9G", id="the user's, by GPU"),
    ],
)
def test_a_job_asks_for_its_share_of_the_memory(asked: dict[str, object], memory: str) -> None:
    nodes = (GPU_NODE._replace(memory_gib=96), CPU_NODE._replace(memory_gib=50))
    made = plan(site=SITE._replace(nodes=Nodes(nodes)), **asked)
    assert [option for option in directives(made) if option.startswith("--mem")] == [memory] * bool(memory)


def test_unknown_memory_is_not_mentioned() -> None:
    assert not any(option.startswith("--mem") for option in directives(plan()))


def test_fewer_ranks_than_gpus_have_as_many_cores_as_they_ask_for() -> None:
    made = plan(per_node=2)
    assert "--cpus-per-task=4" in made.step.command
    assert made.step.command[-1] == "--cpu-bind=mask_cpu:0xcc,0x33"  # near GPUs 0 and 2; near GPUs 1 and 3
    assert "mask_cpu" not in plan(per_node=3).step.command[-1]


def test_staging_sets_its_flag_and_one_node_gets_a_note() -> None:
    made = plan(staging=Staging("nvme", ("/data/x.tar",)))
    assert "-C nvme" in directives(made)
    assert made.stage_image == "/mnt/$USER"
    assert made.stage_data == (("/mnt/$USER", "/data/x.tar"),)
    assert any("rarely pays off" in note for note in made.notes)
    assert plan(staging=Staging("nvme"), nodes=2).notes == ()


def test_data_alone_goes_to_the_sites_first_place() -> None:
    made = plan(staging=Staging(data=("/data/x.tar",)))
    assert (made.stage_image, made.stage_data) == ("", (("/tmp", "/data/x.tar"),))


@pytest.mark.parametrize("value", ["a b", "a\nb", "$(id)", "a;b", "`id`", "'", '"', "a\\b"])
def test_an_option_that_a_script_could_not_hold_is_refused(value: str) -> None:
    with pytest.raises(BadInputError):
        plan(options=(("account", value),))
    with pytest.raises(BadInputError):
        plan(more=(value,))


def test_a_new_machine_needs_no_python_code() -> None:
    profile = """
name = "invented"
[gpu]
vendor = "nvidia"
runtime_flags = ["--nv"]
[nodes.tri]
cores = 12
gpus = 3
gpu_cores = ["8-11", "0-3", "4-7"]
partitions = ["tri"]
[launcher]
srun = ["--mpi=pmix"]
cpu_bind = "mask"
[job]
required = ["qos"]
exclusive = ["tri"]
lines = ["--signal=TERM@60"]
gpus = "--gres=gpu:{gpus}"
[stage.nvme]
directory = "/local/$SLURM_JOB_ID"
flag = "--tmp=100G"
"""
    from hpcmod.machine.values.profile import make_site

    site = make_site([parse_profile(profile, "invented.toml")])
    made = plan(nodes=2, site=site, staging=Staging("nvme"), options=(("qos", "normal"),))
    wanted = {"--partition=tri", "--qos=normal", "--gres=gpu:3", "--signal=TERM@60", "--tmp=100G", "--cpus-per-task=4"}
    assert wanted <= set(directives(made))
    assert made.step.command[-2:] == ("--mpi=pmix", "--cpu-bind=mask_cpu:0xf00,0xf,0xf0")


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (("train.py", "-x"), ("python3", "train.py", "-x")),
        (("python", "train.py"), ("python3", "train.py")),
        (("solver", "in"), ("solver", "in")),
    ],
)
def test_names_no_run_script_where_the_image_has_no_bash(program: tuple[str, ...], line: tuple[str, ...]) -> None:
    made = plan(*program, container=JobContainer(has_bash=False))
    assert made.step.program == line
    assert "The image has no bash" in made.step.why


@pytest.mark.parametrize("asked", [{"launcher": "torchrun"}, {"start": "one-per-node"}])
def test_what_needs_a_run_script_is_refused_where_the_image_has_no_bash(asked: dict[str, object]) -> None:
    with pytest.raises(BadInputError, match="no bash"):
        plan(container=JobContainer(has_bash=False), **asked)


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (("t.py", "--gpu", "$SLURM_LOCALID"), "-- bash -c 'conda-python-distributed t.py --gpu $SLURM_LOCALID'"),
        (("solver", "${LOCAL_RANK}"), "-- bash -c 'solver ${LOCAL_RANK}'"),
        (("bash", "-c", "solver $LOCAL_RANK"), ""),
        (("t.py", "--pattern", "^a$"), ""),
    ],
)
def test_variables_that_no_shell_expands_are_told(program: tuple[str, ...], told: str) -> None:
    notes = [note for note in plan(*program).notes if "No shell reads" in note]
    assert bool(notes) == bool(told) and told in "".join(notes)


def test_a_rank_that_sees_one_gpu_is_told_to_use_it() -> None:
    one = SITE._replace(gpu=SITE.gpu._replace(per_rank="one"))
    (note,) = (note for note in plan("t.py", "--gpu", "$SLURM_LOCALID", site=one).notes if "No shell reads" in note)
    assert note.endswith("each rank sees one GPU, so write 0 instead.")

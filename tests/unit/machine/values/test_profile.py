from __future__ import annotations

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.trust import TrustPolicy, TrustRule
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.condition import Bound, Condition
from hpcmod.machine.values.profile import make_site, merge_profiles, merge_written, parse_profile
from hpcmod.machine.values.schema import SCHEMA
from hpcmod.machine.values.site import JobRules, Launcher, Limits, Nodes, NodeType, Site, StagePlace, Tunable
from hpcmod.machine.values.tables import (
    Bandwidth,
    Caches,
    Detection,
    Gpus,
    HostCommands,
    Images,
    ModuleRules,
    Netstack,
    Network,
    SiteBinds,
    Usage,
)
from tests.json_schemas import fits_schema

WHOLE = """
name = "x1"
description = "a machine"
extends = "generic"
tried = "reported by a user on 2026-11-27"
catalogues = ["/appl/catalogue"]
[sources]
docs = "ours/docs@0123456789abcdef:x1/index.md 2026-10-01"
[detect]
paths = ["/appl/x1"]
variables = { CLUSTER = "x1" }
[usage]
names = "users"
[images]
central = ["/appl/images", "/more/images"]
install_mode = "link"
places = ["/project/$USER"]
compression = "zstd:3"
striping = "-E 64M -c 1 -E -1 -c 8 -S 4M -p flash"
cache = "$SCRATCH/images"
cache_group = "project"
[trust]
needs = ["digest"]
keys = ["/etc/keys/site.pem"]
rules = [{ source = "docker://ours/*", needs = ["signature"] }]
[binds]
required = ["/opt/cray"]
optional = ["/scratch:/scratch:ro", ["/opt/fabric/*/lib:/host/lib", "/usr/lib64:/host/lib"]]
[binds.when]
"rocm<6.2" = ["/usr/lib64/libjansson.so.4"]
[binds.why]
"/opt/cray" = "MPI of the host"
[netstack]
directory = ["/appl/netstack/*", "/opt/fabric/lib"]
mode = "swap"
libraries = ["libfabric.so.1"]
leave_out = ["libstdc++.so.*"]
search_last = ["/host/usr/lib64"]
[environment]
NCCL_SOCKET_IFNAME = "hsn"
NCCL_CROSS_NIC = { value = "1", when = "multi-node, rocm>=6.2" }
NCCL_NET = [{ value = "Socket", when = "single-node", why = "no network" }, { value = "OFI", when = "multi-node" }]
[network]
interfaces = ["hsn0", "hsn1"]
host_suffix = "-ib.site"
fabric = "cxi"
[gpu]
vendor = "amd"
targets = ["gfx90a", "gfx942"]
visibility = ["ROCR_VISIBLE_DEVICES"]
per_rank = "all"
runtime_flags = ["--rocm"]
[caches]
node_local = "/local"
root = "$SCRATCH/cache"
[module]
family = "containers"
keep_env = ["PYTHONNOUSERSITE", "PYTHONPATH"]
bind_variable = "SINGULARITY_BIND"
[nodes]
default = "gpu"
[nodes.cpu]
cores = 128
[nodes.gpu]
cores = 14
threads_per_core = 2
gpus = 2
gpu_cores = ["9-15", "1-7"]
reserved_cores = "0,8"
partitions = ["gpu", "debug"]
qos = ["gpu_*"]
memory_gib = 480
[launcher]
kind = "torchrun"
verb = "run"
srun = ["--gpu-bind=closest"]
mpi = ["pmix_v4", "pmi2"]
mpi_default = "pmi2"
cpu_bind = "mask"
distribution = "*:block"
cpus_per_gpu = 20
[launcher.refused]
accelerate = "too slow here"
[launcher.discouraged]
torchrun = "srun binds better"
[job]
scheduler = "slurm"
required = ["account", "time"]
lines = ["--hint=nomultithread"]
gpus = "--gres=gpu:{gpus}"
exclusive = ["gpu"]
command = ["unset SLURM_EXPORT_ENV"]
module_init = "/usr/share/lmod/lmod/init/bash"
network_one_node = ["single_node_vni"]
network_several_nodes = ["disable_rdzv_get"]
network_several_steps = ["job_vni"]
slurm = "24.11"
[limits.debug]
nodes = 4
hours = { 1 = 0.5, 2 = 2 }
cores = 56
required = ["qos"]
[stage.nvme]
directory = "/mnt/bb/$USER"
flag = "-C nvme"
[host_commands]
allowed = ["srun", "/opt/slurm/bin/squeue"]
environment = ["SLURM_*"]
refused_options = ["--prolog"]
[proxies]
https_proxy = "http://proxy:3128/"
[bandwidth]
all_reduce = { 1 = 125, 2 = { busbw = 85.5, bytes = 4096 } }
"""


def site_of(*texts: str) -> Site:
    return make_site([parse_profile(text, "a.toml") for text in texts])


def test_a_profile_becomes_a_site_with_every_key() -> None:
    assert site_of(WHOLE) == Site(
        name="x1",
        description="a machine",
        detect=Detection(paths=("/appl/x1",), variables=(("CLUSTER", "x1"),)),
        images=Images(
            central=("/appl/images", "/more/images"),
            install_mode="link",
            places=("/project/$USER",),
            compression="zstd:3",
            striping="-E 64M -c 1 -E -1 -c 8 -S 4M -p flash",
            cache="$SCRATCH/images",
            cache_group="project",
            trust=TrustPolicy(("digest",), ("/etc/keys/site.pem",), (TrustRule("docker://ours/*", ("signature",)),)),
        ),
        catalogues=("/appl/catalogue",),
        binds=SiteBinds(
            required=((Bind("/opt/cray", required=True),),),
            optional=(
                (Bind("/scratch", "/scratch", "ro"),),
                (Bind("/opt/fabric/*/lib", "/host/lib", pattern=True), Bind("/usr/lib64", "/host/lib")),
            ),
            when=((Condition(bounds=(Bound("rocm", "<", "6.2"),)), ((Bind("/usr/lib64/libjansson.so.4"),),)),),
        ),
        tunables=(
            Tunable("NCCL_SOCKET_IFNAME", "hsn"),
            Tunable("NCCL_CROSS_NIC", "1", Condition(multi_node=True, bounds=(Bound("rocm", ">=", "6.2"),))),
            Tunable("NCCL_NET", "Socket", Condition(single_node=True), "no network"),
            Tunable("NCCL_NET", "OFI", Condition(multi_node=True)),
        ),
        gpu=Gpus(
            vendor="amd",
            targets=("gfx90a", "gfx942"),
            visibility=("ROCR_VISIBLE_DEVICES",),
            per_rank="all",
            runtime_flags=("--rocm",),
        ),
        network=Network(
            interfaces=("hsn0", "hsn1"),
            host_suffix="-ib.site",
            fabric="cxi",
            netstack=Netstack(
                directory=(Bind("/appl/netstack/*", "/host/lib", pattern=True), Bind("/opt/fabric/lib", "/host/lib")),
                mode="swap",
                libraries=("libfabric.so.1",),
                leave_out=("libstdc++.so.*",),
                search_last=("/host/usr/lib64",),
            ),
            bandwidths=(Bandwidth("all_reduce", 1, 125.0), Bandwidth("all_reduce", 2, 85.5, 4096)),
        ),
        module=ModuleRules(
            family="containers",
            keep_env=("PYTHONNOUSERSITE", "PYTHONPATH"),
            bind_variable="SINGULARITY_BIND",
            usage=Usage(names="users"),
            caches=Caches(node_local="/local", root="$SCRATCH/cache"),
            host_commands=HostCommands(("srun", "/opt/slurm/bin/squeue"), ("SLURM_*",), ("--prolog",)),
        ),
        nodes=Nodes(
            types=(
                NodeType("cpu", cores=128),
                NodeType(
                    "gpu",
                    cores=14,
                    threads_per_core=2,
                    gpus=2,
                    gpu_cores=(tuple(range(9, 16)), tuple(range(1, 8))),
                    reserved_cores=(0, 8),
                    partitions=("gpu", "debug"),
                    qos=("gpu_*",),
                    memory_gib=480,
                ),
            ),
            default="gpu",
        ),
        launcher=Launcher(
            kind="torchrun",
            verb="run",
            srun=("--gpu-bind=closest",),
            mpi=("pmix_v4", "pmi2"),
            mpi_default="pmi2",
            cpu_bind="mask",
            distribution="*:block",
            cpus_per_gpu=20,
            refused=(("accelerate", "too slow here"),),
            discouraged=(("torchrun", "srun binds better"),),
        ),
        job=JobRules(
            required=("account", "time"),
            lines=("--hint=nomultithread",),
            gpus="--gres=gpu:{gpus}",
            exclusive=("gpu",),
            command=("unset SLURM_EXPORT_ENV",),
            module_init="/usr/share/lmod/lmod/init/bash",
            network_one_node=("single_node_vni",),
            network_several_nodes=("disable_rdzv_get",),
            network_several_steps=("job_vni",),
            slurm="24.11",
            limits=(Limits("debug", nodes=4, hours=((1, 0.5), (2, 2.0)), cores=56, required=("qos",)),),
            stage_places=(StagePlace("nvme", "/mnt/bb/$USER", "-C nvme"),),
        ),
        proxies=(("https_proxy", "http://proxy:3128/"),),
    )


def test_a_name_is_enough() -> None:
    assert site_of('name = "x1"') == Site("x1")


def test_a_profile_says_what_it_extends_and_where_it_was_read() -> None:
    profile = parse_profile(WHOLE, "a.toml")
    assert (profile.name, profile.extends, profile.source) == ("x1", "generic", "a.toml")


def test_values_of_the_later_profile_replace_and_its_environment_adds() -> None:
    base = 'name = "base"\n[images]\ncentral = ["/a"]\ninstall_mode = "copy"\n[environment]\nA = "1"\nB = "2"\n'
    site = site_of(base, 'name = "top"\n[images]\ncentral = ["/b"]\n[environment]\nB = "3"\nC = "4"\n')
    assert (site.name, site.images.central, site.images.install_mode) == ("top", ("/b",), "copy")
    assert {one.name: one.value for one in site.tunables} == {"A": "1", "B": "3", "C": "4"}


def test_required_binds_come_before_optional_ones() -> None:
    site = site_of('name = "x"\n[binds]\noptional = ["/o"]\nrequired = ["/r"]\n')
    assert [group[0].source for group in site.binds.always] == ["/r", "/o"]


def test_an_empty_list_removes_the_values_of_the_base() -> None:
    site = site_of('name = "a"\n[binds]\nrequired = ["/r"]\n', 'name = "b"\n[binds]\nrequired = []\n')
    assert site.binds.always == ()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("[imagse]\ncentral = []", "imagse.central: unknown key, did you mean images.central?"),
        ("zzz = 1", "zzz: unknown key"),
        ('images = "/x"', "images: unknown key"),
        ('[netstack]\ndirectory = ["/a:/b"]', "netstack.directory: must be paths without"),
        ('[netstack]\nsearch_last = ["/$(id)"]', "netstack.search_last: must be paths that"),
        ('description = ""', "description: must be a non-empty string"),
        ('[images]\nstriping = "8"', "images.striping: must be -c, -S, -E or -p"),
        ('[images]\nstriping = "-c 8 /x"', "images.striping: must be -c, -S,"),
        ('[images]\nstriping = "-c -2"', "images.striping: must be -c, -S, -E"),
        ('[images]\ncentral = "/x"', "images.central: must be a list of strings"),
        ('[gpu]\ntargets = ["MI250X"]', "gpu.targets: must be words such as gfx90a or sm_90"),
        ('[images]\ncentral = ["x"]', "images.central: must be an absolute path, found 'x'"),
        ('[images]\ninstall_mode = "auto"', "must be one of copy, link, central, found 'auto'"),
        ('[binds]\nrequired = ["x"]', "binds.required: bind path 'x'"),
        ('[environment]\n"A B" = "x"', "environment: must be the name of"),
        ('[environment]\nA = "x\\ntouch pwned"', "environment: "),
        ('[images]\ncentral = ["/x\\ntouch pwned"]', "images.central: "),
        ('[caches]\nnode_local = "/x\\ty"', "caches.node_local: "),
        ('[binds]\noptional = ["/x\\u001by"]', "binds.optional: "),
        ("[environment]\nA = true", "environment: A: must be a non-empty string in quotes, found True"),
        ("[environment]\nA = 3", "environment: A: must be a non-empty string in quotes, found 3"),
        ('[environment]\nA = { value = "1" }', "environment: A: must be a string, or {"),
        ('[environment]\nA = { value = "1", when = "rcom>6" }', "environment: A: 'rcom>6' is not a condition"),
        ("[nodes.a]\ncroes = 3", "nodes.a.croes: unknown key, did you mean nodes.a.cores?"),
        ('[nodes."a b"]\ncores = 3', "nodes.a b.cores: the name may contain"),
        ('[stage.disk]\ndirectory = "/x"', "stage.disk: the name must be one of nvme, ram"),
        ('[stage.nvme]\nflag = "C=x"', "stage.nvme.flag: must be an option"),
        ('[job]\nlines = ["x"]', "job.lines: must be an option"),
        ("[nodes.a]\ncores = -3", "nodes.a.cores: must be a non-negative integer"),
        ('[nodes.a]\nreserved_cores = "7-3"', "nodes.a.reserved_cores: must be core numbers"),
        ('[nodes.a]\ngpus = 2\ngpu_cores = ["0-3"]', "nodes.a.gpu_cores: must list the cores of 2 GPUs, found 1"),
        (
            '[nodes.a]\ncores = 6\nreserved_cores = "0,4"\ngpu_cores = ["0-3", "5-8"]',
            "nodes.a.gpu_cores: no job can use core 0, 8",
        ),
        ('[launcher]\nkind = "mpirun"', "launcher.kind: must be one of srun, torchrun"),
        ('[launcher.refused]\nmpirun = "x"', "launcher.refused: must be one of srun"),
        (
            '[environment]\nA = [{ value = "1" }, { value = "2", when = "multi-node" }]',
            'environment: A: must be a string, or { value = "...", when = "...", why = "..." }',
        ),
        (
            '[environment]\nA = ["1", { value = "2", when = "multi-node" }]',
            "environment: A: either every case of a list says multi-node or single-node, or none does",
        ),
        ("[limits.a]\nhours = true", "limits.a.hours: must be hours, or a table"),
        ("[limits.a]\nhours = { x = 1 }", "limits.a.hours: must be hours, or a table"),
        ('[stage.nvme]\ndirectory = "tmp"', "stage.nvme.directory: must be an absolute"),
        ('[job]\nrequired = ["acount"]', "job.required: must be one of account"),
        ('[gpu]\nruntime_flags = ["-B"]', "gpu.runtime_flags: must be one of --nv"),
        ("[bandwidth]\nall_reduce = { x = 1 }", "bandwidth.all_reduce: must be a table"),
        ("[bandwidth]\nall_reduce = { 2 = { busbw = 1 } }", "bandwidth.all_reduce: must be a table"),
        ('[gpu]\nvisibility = ["A-B"]', "gpu.visibility: must be the name"),
        ('[gpu]\nper_rank = "two"', "gpu.per_rank: must be one of one, all"),
        ('[network]\nhost_suffix = "$(id)"', "network.host_suffix: must be the end of a"),
        ('[host_commands]\nallowed = ["../srun"]', "host_commands.allowed: must be names"),
        ('[host_commands]\nallowed = ["x=y"]', "host_commands.allowed: must be names"),
        ('[host_commands]\nenvironment = ["*"]', "must be names of variables"),
        ('[network]\nhost_suffix = "i."', "network.host_suffix: must be the end of a"),
        ('[caches]\nnode_local = "tmp"', "caches.node_local: must be an absolute path"),
    ],
)
def test_an_error_is_reported_with_its_key(line: str, fault: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_profile(f'name = "x"\n{line}\n', "a.toml")
    assert fault in caught.value.message


def test_reports_all_errors_of_a_file_together_with_its_name() -> None:
    with pytest.raises(BadInputError) as caught:
        parse_profile('x = 1\n[gpu]\nper_rank = "two"\n[caches]\nnode_local = "tmp"\n', "/etc/a.toml")
    assert "/etc/a.toml" in caught.value.message
    keys = [line.split(":")[0].strip() for line in caught.value.message.splitlines()[1:]]
    assert keys == ["x", "gpu.per_rank", "caches.node_local", "name"]


@pytest.mark.parametrize("text", ["name = ", "name = 'a'\nname = 'b'", "\0"])
def test_refuses_invalid_toml_with_the_file_name(text: str) -> None:
    with pytest.raises(BadInputError, match=r"a\.toml is not valid TOML"):
        parse_profile(text, "a.toml")


RIGHT = {
    "1": tuple(key for key, known in SCHEMA.items() if known.form.endswith("number")),
    "1.5": ("limits.*.hours",),
    '""': ("job.gpus", "module.family"),
    "[]": tuple(key for key, known in SCHEMA.items() if known.form.startswith("list")),
    "{}": tuple(key for key, known in SCHEMA.items() if known.form.startswith("table")),
}
"""By value, the keys that it is valid for."""


@pytest.mark.parametrize(
    "value", ["1", "[]", "true", "1979-05-27", '""', "{}", "{ a = 1 }", "[[]]", "[1]", "-1", "1.5"]
)
def test_no_value_of_another_type_is_more_than_a_fault(value: str) -> None:
    for pattern in SCHEMA:
        key = pattern.replace("*", "x")
        table, _, last = key.rpartition(".")
        name = "" if key == "name" else 'name = "x"\n'
        text = f"{name}[{table}]\n{last} = {value}\n" if table else f"{name}{last} = {value}\n"
        right = pattern in RIGHT.get(value, ()) or (value == "[[]]" and pattern in ("binds.required", "binds.optional"))
        assert fits_schema("site-profile", text) == right or value == "1979-05-27"  # which editors take for a string
        if right:
            site_of(text)
            continue
        with pytest.raises(BadInputError) as caught:
            site_of(text)
            pytest.fail(f"{text} is accepted")
        assert key in caught.value.message


def test_the_usual_node_type_must_be_there_in_the_profile_or_in_what_it_extends() -> None:
    usual = 'name = "b"\n[nodes]\ndefault = "gpu"\n'
    assert site_of('name = "a"\n[nodes.gpu]\ncores = 64\n', usual).nodes.usual.name == "gpu"
    with pytest.raises(BadInputError, match=r"nodes\.default: unknown node type 'gpu'"):
        site_of('name = "a"\n[nodes.cpu]\ncores = 64\n', usual)


def test_a_later_profile_removes_a_variable() -> None:
    site = site_of('name = "a"\n[environment]\nA = "1"\nB = "2"\n', 'name = "b"\n[environment]\nA = false\n')
    assert [one.name for one in site.tunables] == ["B"]


def test_a_later_profile_removes_a_key() -> None:
    base = 'name = "a"\n[launcher]\nverb = "run"\nsrun = ["-x"]\n[nodes.n]\ncores = 1\n[binds]\nrequired = ["/r"]\n'
    rest = "verb = false\n[nodes.n]\ncores = false\n[binds]\nrequired = false\n[environment]\nA = false\n"
    profiles = [parse_profile(base, "a.toml"), parse_profile(f'name = "b"\n[launcher]\n{rest}', "b.toml")]
    assert make_site(profiles) == Site("b", launcher=Launcher(srun=("-x",)))
    assert "verb" not in merge_written(profiles)["launcher"]


@pytest.mark.parametrize("key", ["nodes.n", "nodes", "stage.ram", "stage", "limits.q", "limits", "bandwidth", "gpu"])
def test_a_later_profile_removes_a_table(key: str) -> None:
    tables = {
        "nodes": "[nodes.n]\ncores = 1\n",
        "stage": '[stage.ram]\ndirectory = "/dev/shm"\n',
        "limits": "[limits.q]\nnodes = 1\n",
        "bandwidth": "[bandwidth]\nall_reduce = { 2 = 1 }\n",
        "gpu": '[gpu]\nper_rank = "one"\n',
    }
    base = 'name = "a"\n' + "".join(tables.values())
    without = base.replace(tables[key.partition(".")[0]], "")
    profiles = [parse_profile(base, "a"), parse_profile(f'name = "a"\n{key} = false\n', "b")]
    assert make_site(profiles) == site_of(without) != site_of(base)
    assert merge_written(profiles) == merge_written([parse_profile(without, "c")])


@pytest.mark.parametrize("key", ["nodez", "binds.x", "nodes.n.x"])
def test_false_removes_no_unknown_table(key: str) -> None:
    with pytest.raises(BadInputError, match=f"{key}: unknown key"):
        parse_profile(f'name = "a"\n{key} = false\n', "a.toml")


def test_a_later_profile_extends_a_node_type_and_adds_new_ones() -> None:
    site = site_of(
        'name = "a"\n[nodes.gpu]\ncores = 64\ngpus = 4\n',
        'name = "b"\n[nodes]\ndefault = "cpu"\n[nodes.gpu]\nmemory_gib = 480\n[nodes.cpu]\ncores = 128\n',
    )
    assert site.nodes.types == (NodeType("gpu", cores=64, gpus=4, memory_gib=480), NodeType("cpu", cores=128))
    assert site.nodes.usual.name == "cpu"


def test_detection_rules_are_not_inherited() -> None:
    assert site_of('name = "a"\n[detect]\npaths = ["/a"]\n', 'name = "b"').detect.paths == ()


def test_every_value_knows_the_line_that_sets_it() -> None:
    profile = parse_profile(WHOLE, "a.toml")
    lines = WHOLE.splitlines()
    for key, origin in profile.origins.items():
        file, number = origin.split(":")
        assert (file, key.split(".")[-1] in lines[int(number) - 1]) == ("a.toml", True), (key, origin)


def test_every_bind_knows_the_line_that_asks_for_it() -> None:
    text = 'name = "x"\n[binds]\noptional = [\n  "/a",  # first\n  ["/b/*:/c", \'/d\'],\n]\nrequired = ["/e"]\n'
    groups = parse_profile(text, "a.toml").values
    assert [bind.origin for group in groups["binds.optional"] for bind in group] == ["a.toml:4", "a.toml:5", "a.toml:5"]
    assert groups["binds.required"][0][0].origin == "a.toml:7"


def test_every_bind_knows_its_reason() -> None:
    text = (
        'name = "x"\n[binds]\nrequired = ["/a:/b"]\noptional = ["/c"]\n[binds.when]\n"rocm<7" = ["/d"]\n'
        '[netstack]\ndirectory = ["/e"]\n[binds.why]\n"/a" = "for MPI"\n"/d" = "for old images"\n'
    )
    site = site_of(text)
    assert [(bind.source, bind.why) for group in site.binds.always for bind in group] == [("/a", "for MPI"), ("/c", "")]
    ((_, ((bind,),)),) = site.binds.when
    assert (bind.why, bind.origin) == ("for old images", "a.toml:6")


def test_what_was_tried_and_the_sources_are_not_inherited() -> None:
    base = 'name = "a"\ntried = "rendered only"\n[sources]\ndocs = "a/b#1 2026-01-01"\n[caches]\nroot = "/a"\n'
    profiles = [parse_profile(base, "a.toml"), parse_profile('name = "b"\n', "b.toml")]
    assert merge_profiles(profiles) == {"name": "b", "caches.root": "/a"}
    assert set(merge_profiles(profiles[:1])) >= {"tried", "sources.docs"}


def test_each_directory_of_network_libraries_knows_its_line() -> None:
    text = 'name = "x"\n[netstack]\ndirectory = [\n  "/a/*",\n  "/b",\n]\n'
    (directory,) = [value for key, value in parse_profile(text, "a.toml").values.items() if key == "netstack.directory"]
    assert [bind.origin for bind in directory] == ["a.toml:4", "a.toml:5"]

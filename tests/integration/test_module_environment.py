"""Loading a module sets the right variables, and unloading it restores the user's environment byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.conftest import LUMI_IMAGE, PYTORCH, SNAPSHOT, TOY, Loader, away
from tests.stack import Done

pytestmark = pytest.mark.stack

COMBINATIONS = (
    SNAPSHOT
    + r"""
value[0]=unset value[1]= value[2]='/etc:/etc2,/usr//,/var/,/a\,b:/a'
values() { # 4 digits: what each bind variable is
    local i=0 name
    for name in SINGULARITY_BIND SINGULARITY_BINDPATH APPTAINER_BIND APPTAINER_BINDPATH; do
        unset $name
        [[ ${1:i:1} == 0 ]] || export $name="${value[${1:i:1}]}"
        ((++i))
    done
}
others() { # 1 digit: what some of the other variables are
    unset SIF NCCL_SOCKET_IFNAME SINGULARITYENV_PREPEND_PATH
    [[ $1 != 1 ]] || export SIF= NCCL_SOCKET_IFNAME= SINGULARITYENV_PREPEND_PATH=
    [[ $1 != 2 ]] || export SIF='/my sif"x' NCCL_SOCKET_IFNAME=eth7 SINGULARITYENV_PREPEND_PATH=/q::/r/
}
check() {
    snapshot >before
    module load $MODULE 2>load || { echo "$1: does not load"; cat load; }
    [[ $SIF == */$IMAGE ]] || echo "$1: SIF=$SIF"
    [[ $SINGULARITY_BINDPATH == "$APPTAINER_BINDPATH" ]] || echo "$1: BINDPATH differs"
    [[ ${SINGULARITY_BIND-} == "${APPTAINER_BIND-}" ]] || echo "$1: BIND differs"
    module unload $MODULE
    snapshot >after
    compare before after || echo "that was $1"
}
for digits in $CASES; do
    values $digits
    others ${digits:0:1}
    check $digits
    ((++count))
done
echo "$count combinations"
"""
)


def complaints(done: Done) -> list[str]:
    """Return the runtime's messages about its variables, without those about missing optional programs."""
    return [line for line in done.stderr.splitlines() if "SINGULARITY" in line or "APPTAINER" in line]


def test_every_variable_of_lumis_own_module_is_set(loader: Loader) -> None:
    root = loader.root(PYTORCH)
    seen = loader.variables(f"module load {PYTORCH}")
    venv = "/user-software/venv/pytorch"
    binds = f"{root}/runscripts:/runscripts,{root}/user-software:/user-software"
    expected = {
        "SIF": f"{root}/{LUMI_IMAGE}",
        "SIFPYTORCH": f"{root}/{LUMI_IMAGE}",
        "RUNSCRIPTS": f"{root}/runscripts",
        "RUNSCRIPTSPYTORCH": f"{root}/runscripts",
        "CONTAINERROOT": str(root),
        "SINGULARITYENV_PREPEND_PATH": f"/runscripts:{venv}/bin:/opt/miniconda3/envs/pytorch/bin",
        "SINGULARITYENV_WITH_VENV": ". /runscripts/init-conda-venv",
        "SINGULARITYENV_WITH_CONDA_VENV": ". /runscripts/init-conda-venv",
        "SINGULARITYENV_VIRTUAL_ENV": venv,
        "NCCL_SOCKET_IFNAME": "hsn",
        "NCCL_NET_GDR_LEVEL": "3",
        "EBROOTPYTORCH": str(root),
        "EBVERSIONPYTORCH": "2.7.1",
    }
    assert {name: seen.get(name) for name in expected} == expected
    assert seen["SINGULARITY_BINDPATH"].endswith(binds)
    assert f"{seen['SINGULARITYENV_PREPEND_PATH']}:".startswith(f"/runscripts:{venv}/bin:")
    assert "EBDEVELPYTORCH" in seen
    assert seen["PATH"].startswith(f"{root}/bin:")


def test_the_variables_for_apptainer_are_those_for_singularity(loader: Loader) -> None:
    seen = loader.variables(f"module load {PYTORCH}")
    ours = {name: value for name, value in seen.items() if name.startswith("SINGULARITY")}
    assert len(ours) >= 5
    assert {name.replace("SINGULARITY", "APPTAINER", 1): value for name, value in ours.items()} == {
        name: value for name, value in seen.items() if name.startswith("APPTAINER")
    }


def test_load_and_unload_in_a_fresh_shell_leaves_no_trace(loader: Loader) -> None:
    done = loader(
        f"{SNAPSHOT} snapshot >before; module load {PYTORCH}; snapshot >loaded; "
        f"module unload {PYTORCH}; snapshot >after"
    )
    assert done.returncode == 0, done.stderr
    before, loaded, after = (
        (loader.tool.home / name).read_bytes().split(b"\0") for name in ("before", "loaded", "after")
    )
    assert len(loaded) > len(before) + 15
    assert before == after


ODD = {
    "SIF": "/a b'c\"d!e$f\\g;h`i`%41 ☃\\",
    "CONTAINERROOT": "]===] {x} $HOME \\n",
    "APPTAINER_BINDPATH": "/my d'ir:/x y,/e\\,f",
}


def test_values_of_the_user_come_back_byte_for_byte(loader: Loader) -> None:
    """Lmod interprets Tcl itself, or starts tclsh if LMOD_FAST_TCL_INTERP says so."""
    for interpreter in ("yes", "no") if (loader.tool.name, loader.eb.syntax) == ("lmod", "Tcl") else ("yes",):
        check_values_come_back(loader, interpreter)


def check_values_come_back(loader: Loader, interpreter: str) -> None:
    # Environment Modules cannot set a variable of two lines before 5.6
    lines = {} if loader.tool.name == "envmodules" else {"RUNSCRIPTS": "one\ntwo \n"}
    done = loader(
        f"{SNAPSHOT} snapshot >before; module load {TOY}; echo $SIF; module unload {TOY}; snapshot >after; "
        "compare before after",
        LMOD_FAST_TCL_INTERP=interpreter,
        **ODD,
        **lines,
    )
    assert done.stdout == f"{loader.root(TOY)}/toy.sif\n"


def test_csh_gets_values_with_braces_and_those_of_the_user_back(loader: Loader) -> None:
    stack = loader.tool.stack
    modules = f'eval "`{stack.modulecmd} tcsh autoinit`"'
    init = f"source {stack.lmod_init.with_name('tcsh')}" if loader.tool.name == "lmod" else modules
    lines = (init, f"module load {TOY}", "printenv TOY_TUNABLE", f"module unload {TOY}", "printenv SIF")
    ends = ("printenv CONTAINERROOT", "printenv TOY_TUNABLE", "END")
    done = loader("\n".join(["tcsh -f <<'END'", *lines, *ends]), **ODD)
    assert done.stdout.splitlines() == ["of the {site}", ODD["SIF"], ODD["CONTAINERROOT"]], done.stderr


def combinations() -> list[str]:
    """Return settings of the four bind variables, in which any two settings of two of them meet."""
    return [f"{a}{b}{(a + b) % 3}{(a + 2 * b) % 3}" for a in range(3) for b in range(3)]


def test_load_and_unload_leaves_combinations_of_bind_variables_as_they_were(loader: Loader) -> None:
    found = combinations()
    done = loader(COMBINATIONS, MODULE=PYTORCH, IMAGE=LUMI_IMAGE, CASES=" ".join(found))
    assert (done.stdout, done.stderr) == (f"{len(found)} combinations\n", "")


def test_a_tunable_that_the_user_has_set_is_left_unchanged(loader: Loader) -> None:
    seen = loader.variables(f"module load {PYTORCH}", NCCL_SOCKET_IFNAME="eth7", NCCL_NET_GDR_LEVEL="")
    assert (seen["NCCL_SOCKET_IFNAME"], seen["NCCL_NET_GDR_LEVEL"]) == ("eth7", "")
    assert seen["SINGULARITYENV_VIRTUAL_ENV"] == "/user-software/venv/pytorch"


@pytest.mark.parametrize("name", ["SINGULARITYENV_WITH_VENV", "APPTAINERENV_WITH_VENV"])
def test_a_variable_of_the_container_set_under_one_name_is_not_set_under_the_other(loader: Loader, name: str) -> None:
    seen = loader.variables(f"module load {PYTORCH}", **{name: "of the user"})
    assert {key: value for key, value in seen.items() if key.endswith("ENV_WITH_VENV")} == {name: "of the user"}


USER_BINDS = [  # test_bind_matrix.py has all settings of the four variables
    pytest.param({"SINGULARITY_BIND": "U/a:/a", "APPTAINER_BIND": "U/b:/b"}, id="two that differ"),
    pytest.param({"APPTAINER_BINDPATH": "U/a:/optional"}, id="another source for a destination of the module"),
    pytest.param({"SINGULARITY_BIND": r"U/with\,comma:/a"}, id="a comma in a path"),
]


@pytest.mark.parametrize("variables", USER_BINDS)
def test_the_container_sees_the_binds_of_module_and_user_without_a_complaint(
    loader: Loader, tmp_path: Path, variables: dict[str, str]
) -> None:
    for name in ("a", "b", "with,comma"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "of-the-user").touch()
    given = {name: value.replace("U", str(tmp_path)) for name, value in variables.items()}
    wanted = {
        bind.split(":")[1].rstrip("/") for value in variables.values() for bind in value.split(",") if ":" in bind
    }
    looks = "; ".join(f"ls {place}/of-the-user" for place in sorted(wanted))
    ours = "" if "/optional" in wanted else "ls /optional/of-the-site && "
    done = loader(
        f"module load {TOY} 2>/dev/null; singularity exec $SIF sh -c '{ours}ls /runscripts/get-master; {looks}'",
        **given,
    )
    assert complaints(done) == []
    assert {line.rpartition("/")[0] for line in done.stdout.split()} == {"/optional", "/runscripts", *wanted}


def test_a_required_bind_missing_on_the_node_is_reported_and_skipped(loader: Loader) -> None:
    binds = loader.eb.top / "binds"
    done = loader(f"module load {TOY}; echo $SINGULARITY_BINDPATH")
    assert f"not bound, missing on this node: {binds}/not-on-this-node" in " ".join(done.stderr.split())
    assert "nowhere" not in done.stdout + done.stderr
    assert done.stdout.split(",")[:2] == [f"{binds}/required", f"{binds}/optional:/optional"]


@pytest.mark.parametrize(
    ("name", "before", "change", "after"),
    [
        pytest.param("SINGULARITY_BINDPATH", None, "$X,/mine:/m", "/mine:/m", id="added to ours"),
        pytest.param("APPTAINER_BINDPATH", "/old", "$X,/mine:/m", "/old,/mine:/m", id="added to ours and the former"),
        pytest.param("SINGULARITY_BINDPATH", "/old", "/mine,$X", "/mine,/old", id="put before ours"),
        pytest.param("APPTAINER_BINDPATH", "/old", "/mine", "/mine", id="replaced"),
    ],
)
def test_binds_added_by_the_user_after_loading_remain_after_unloading(
    loader: Loader, name: str, before: str | None, change: str, after: str
) -> None:
    given = {} if before is None else {name: before}
    snippet = f'module load {TOY}; export {name}="{change.replace("$X", "$" + name)}"; module unload {TOY}'
    assert loader.variables(snippet, **given).get(name) == after


def test_what_the_user_changes_after_loading_stays_after_unloading(loader: Loader) -> None:
    path = "SINGULARITYENV_PREPEND_PATH"
    seen = loader.variables(
        f"module load {PYTORCH}; export {path}=${path}:/mine NCCL_SOCKET_IFNAME=eth7; module unload {PYTORCH}"
    )
    assert (seen[path], seen["NCCL_SOCKET_IFNAME"]) == ("/mine", "eth7")
    assert "NCCL_NET_GDR_LEVEL" not in seen


@pytest.mark.parametrize("broken_link", [False, True])
def test_without_the_own_image_the_sites_is_used(loader: Loader, broken_link: bool) -> None:
    own, sites = loader.root(TOY) / "toy.sif", loader.eb.top / "site-images/toy.sif"
    with away(own):
        if broken_link:
            own.symlink_to("nowhere.sif")
        done = loader(
            f"module load {TOY} 2>/dev/null; echo $SIF $SIFTOY; singularity exec $SIF conda-python-simple -c 'print(1)'"
        )
        own.unlink(missing_ok=True)
    assert done.stdout == f"{sites} {sites}\n1\n"


def test_removing_the_image_and_loading_again_turns_to_the_sites(loader: Loader) -> None:
    own, sites = loader.root(TOY) / "toy.sif", loader.eb.top / "site-images/toy.sif"
    again = "module reload" if loader.tool.name == "envmodules" else f"module unload {TOY}; module load {TOY}"
    try:
        done = loader(f"module load {TOY}; echo $SIF; mv $SIF $SIF.gone; {again}; echo $SIF")
    finally:
        own.with_name("toy.sif.gone").rename(own)
    assert done.stdout.split() == [str(own), str(sites)]


@contextmanager
def only_the_own_image(loader: Loader) -> Iterator[Path]:
    """Temporarily remove the site's image and the source of the private copy; yield the path of the private copy."""
    with away(loader.eb.top / "site-images/toy.sif"), away(loader.eb.central / "toy.sif"):
        yield loader.root(TOY) / "toy.sif"


def test_without_any_image_the_load_fails_and_names_the_cure(loader: Loader) -> None:
    with only_the_own_image(loader) as own, away(own):
        done = loader(f"{SNAPSHOT} snapshot >before; module load {TOY}; echo $?; snapshot >after; compare before after")
    assert done.stdout == "1\n"
    for part in (str(own), "/site-images/toy.sif", "/central/toy.sif", "eb Toy-1.0.eb --rebuild"):
        assert part in done.stderr


def test_a_module_without_its_image_unloads_without_a_trace(loader: Loader) -> None:
    with only_the_own_image(loader) as own:
        try:
            done = loader(
                f"{SNAPSHOT} snapshot >before; module load {TOY} 2>/dev/null; mv $SIF $SIF.gone; "
                f"module unload {TOY} && snapshot >after; compare before after"
            )
        finally:
            own.with_name("toy.sif.gone").rename(own)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_module_without_its_installation_can_be_unloaded_and_says_what_is_missing(loader: Loader) -> None:
    root = loader.root(TOY)
    script = f"module load {TOY} || exit 1; mv {root} {root}.gone; module purge || exit 1; module load {TOY}; echo $?"
    try:
        done = loader(script)
    finally:
        Path(f"{root}.gone").rename(root)
    assert done.stdout == "1\n"
    assert "libexec/module." in done.stderr
    assert "Toy-1.0.eb again" in " ".join(done.stderr.split())


def test_a_module_without_any_image_can_still_be_looked_at(loader: Loader) -> None:
    with only_the_own_image(loader) as own, away(own):
        done = loader(f"for verb in show help whatis; do module $verb {TOY} 2>&1 || exit; echo ==; done")
    assert done.returncode == 0
    *shown, _ = done.stdout.split("==\n")
    assert len(shown) == 3 and all("A toy" in text for text in shown), done.stdout
    assert "image was not found" not in " ".join(done.stdout.split()).replace("LmodError", "")


SHOWN = {
    "help": ("PyTorch 2.7.1 for AMD GPUs", "conda-python-distributed ARGS", "packaging", "/appl/local/containers/"),
    "show": ("SIFPYTORCH", LUMI_IMAGE, "/runscripts:/user-software/venv/pytorch/bin", "NCCL_SOCKET_IFNAME"),
    "whatis": ("Homepage: https://pytorch.org/", "Packages: click/"),
}


@pytest.mark.parametrize("verb", SHOWN)
def test_a_module_tells_what_it_is_and_sets(loader: Loader, verb: str) -> None:
    done = loader(f"module {verb} {PYTORCH}")
    assert [part for part in SHOWN[verb] if part not in done.stdout + done.stderr] == []


@pytest.mark.parametrize("loader", ["lmod-lua", "lmod-tcl"], indirect=True)
def test_spider_finds_a_module_by_a_package_in_its_image(loader: Loader) -> None:
    done = loader("module spider packaging")
    assert PYTORCH in done.stdout + done.stderr


SWAPS = [
    pytest.param({}, id="nothing of the user's"),
    pytest.param({"SINGULARITY_BIND": "/etc:/etc2", "APPTAINER_BINDPATH": "/usr//"}, id="binds of the user"),
    pytest.param(
        {"SIF": "/my.sif", "NCCL_SOCKET_IFNAME": "eth7", "SINGULARITYENV_PREPEND_PATH": "/q"}, id="own values"
    ),
    pytest.param({"SIF": "", "SINGULARITY_BINDPATH": "", "APPTAINER_BIND": ""}, id="empty variables"),
]


@pytest.mark.parametrize("variables", SWAPS)
def test_reloading_changes_nothing_and_swapping_and_purging_leaves_no_trace(
    loader: Loader, variables: dict[str, str]
) -> None:
    again = "module reload" if loader.tool.name == "envmodules" else "module update"
    done = loader(
        f"{SNAPSHOT} snapshot >before; module load {TOY}; snapshot >first; {again}; snapshot >second; "
        f"compare first second; module swap {TOY} {PYTORCH}; echo $SIF ${{SIFTOY-none}}; "
        "module purge; snapshot >after; compare before after",
        **variables,
    )
    assert done.stdout == f"{loader.root(PYTORCH)}/{LUMI_IMAGE} none\n"

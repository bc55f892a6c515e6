"""The bind variables that a wrapper passes to the runtime: set again from what exists on the node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcmod.machine.values.bind import ON_HOST, Bind
from hpcmod.modules.values.plan import RunscriptSettings
from tests.unit.runscripts.scripts import SYSTEM_PATH, Ran, Scripts, make_program

pytestmark = pytest.mark.slow

NAMES = ("SINGULARITY_BINDPATH", "APPTAINER_BINDPATH")
OLD_NAMES = ("SINGULARITY_BIND", "APPTAINER_BIND")

Run = Callable[..., Ran]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory of the host whose name must be escaped in bind variables."""
    path = tmp_path / "of, the: host"
    path.mkdir()
    return path


@pytest.fixture
def run(settings: RunscriptSettings, tmp_path: Path) -> Run:
    """Run the wrapper of a module with these groups of binds, and a runtime that prints its environment."""
    sif = tmp_path / "a.sif"
    sif.touch()
    runtime = make_program(tmp_path / "runtime" / "singularity")

    def run_wrapper(*groups: tuple[Bind, ...], **env: str) -> Ran:
        scripts = Scripts(tmp_path / "module").write(settings._replace(binds=groups))
        given = {"SIFPYTORCH": str(sif), "PATH": f"{runtime.parent}:{SYSTEM_PATH}", **env}
        return scripts("python", "x", env=given)

    return run_wrapper


def elements(ran: Ran, names: tuple[str, str] = NAMES) -> list[str]:
    """Return the binds; both variables must list the same ones."""
    one, other = (ran.environment[name] for name in names)
    assert one == other
    return one.replace("\\,", "\1").split(",") if one else []


def as_bound(path: Path | str) -> str:
    return str(path).replace(":", "\\:").replace(",", "\1")


def make(path: Path, *names: str) -> None:
    for name in names:
        (path / name).mkdir(parents=True)


def test_existing_sources_are_bound_for_both_runtimes_in_order(run: Run, here: Path) -> None:
    make(here, "a", "b")
    (here / "dangling").symlink_to("nowhere")
    groups = [(Bind(f"{here}/{name}"),) for name in ("b", "missing", "dangling", "a")]
    ran = run(*groups, (Bind(f"{here}/a", "/to", "ro"),))
    assert elements(ran) == [as_bound(here / "b"), as_bound(here / "a"), f"{as_bound(here / 'a')}:/to:ro"]
    assert ran.stderr == ""


def test_the_first_of_a_group_that_exists_is_bound(run: Run, here: Path) -> None:
    make(here, "b", "c")
    ran = run(tuple(Bind(f"{here}/{name}", "/to", required=True) for name in "abc"))
    assert elements(ran) == [f"{as_bound(here / 'b')}:/to"]
    assert ran.stderr == ""


def test_the_newest_of_a_pattern_is_bound(run: Run, here: Path) -> None:
    make(here, *(f"fabric/{name}/lib" for name in ("1.9", "1.22.0", "1.15.2.0", "default", ".hidden-9")))
    make(here, "fabric/9.9", "fabric/[ab]/lib")
    ran = run((Bind.parse(f"{here}/fabric/*/lib:/host/lib".replace(",", "\\,").replace("the:", "the\\:")),))
    assert elements(ran) == [f"{as_bound(here / 'fabric/1.22.0/lib')}:/host/lib"]


def test_captured_libraries_whose_original_this_node_has_are_bound(run: Run, here: Path) -> None:
    make(here, "stack/1", "stack/2", "stack/3", "original")
    for name, target in (("1", "original"), ("2", "original"), ("3", "updated")):
        (here / "stack" / name / ON_HOST).symlink_to(here / target)
    bind = Bind(f"{here}/stack/*", "/host/lib", pattern=True)
    assert elements(run((bind,))) == [f"{as_bound(here / 'stack/2')}:/host/lib"]
    (here / "original").rmdir()
    assert elements(run((bind,))) == [f"{as_bound(here / 'stack/3')}:/host/lib"], "the newest where none fits"


def test_the_release_of_the_kernel_is_put_in(run: Run, here: Path) -> None:
    release = os.uname().release
    make(here, f"config-{release}", "config-1")
    ran = run((Bind(f"{here}/config-{{uname_r}}", pattern=True),))
    assert elements(ran) == [as_bound(here / f"config-{release}")]


def test_a_literal_source_with_characters_of_a_pattern_is_taken_as_it_is(run: Run, here: Path) -> None:
    make(here, "a*", "ab", "a[b]", "{uname_r}")
    ran = run(*((Bind(f"{here}/{name}"),) for name in ("a*", "a[b]", "{uname_r}")))
    assert elements(ran) == [as_bound(here / name) for name in ("a*", "a[b]", "{uname_r}")]


def test_binds_from_another_node_are_resolved_again(run: Run, here: Path) -> None:
    make(here, "fabric/1.20", "plain", "mine")
    fabric, plain, layer = f"{here}/fabric/*", f"{here}/plain", Bind(f"{here}/packed", "/layer", "image-src=/")
    old = [f"{here}/fabric/1.15:/lib", f"{here}/gone", plain, f"{here}/mine:/m", f"{here}/packed:/layer:image-src=/"]
    value = ",".join(path.replace(str(here), str(here).replace(",", "\\,").replace(":", "\\:")) for path in old)
    groups = [
        (Bind(fabric, "/lib", pattern=True),),
        (Bind(f"{here}/gone"),),
        (Bind(plain),),
        (layer, Bind(f"{here}/plain", "/layer")),
    ]
    loaded = dict.fromkeys((*NAMES, "_HPCMOD_PYTORCH_SINGULARITY_BINDPATH"), value)
    ran = run(*groups, **loaded, _HPCMOD_USER_SINGULARITY_BINDPATH=value.split(",")[-1])
    start = as_bound(here)
    assert elements(ran) == [f"{start}/fabric/1.20:/lib", f"{start}/plain", f"{start}/plain:/layer", f"{start}/mine:/m"]
    assert ran.stderr == ""


def test_a_users_bind_wins_over_the_modules(run: Run, here: Path) -> None:
    make(here, "a", "b", "mine")
    groups = [(Bind(f"{here}/a", "/to"),), (Bind(f"{here}/b", "/other"),)]
    mine = f"{here}/mine".replace(",", "\\,").replace(":", "\\:")
    ran = run(*groups, SINGULARITY_BINDPATH=f"{mine}:/to/")
    assert elements(ran) == [f"{as_bound(here / 'b')}:/other", f"{as_bound(here / 'mine')}:/to/"]


@pytest.mark.parametrize("name", [*OLD_NAMES, *NAMES])
def test_a_user_bind_with_a_missing_source_is_reported_and_skipped(run: Run, here: Path, name: str) -> None:
    ran = run(**{name: "/usr:/u,/no/such/place:/x"})
    assert elements(ran, NAMES if name in NAMES else OLD_NAMES) == ["/usr:/u"]
    assert ran.stderr == "python: bound by you, but missing on this node: /no/such/place\n"
    assert ran.status == 0


@pytest.mark.parametrize("nothing", [":", "::ro", "\\,:", ",,"])
@pytest.mark.parametrize("name", [*OLD_NAMES, *NAMES])
def test_an_element_that_names_nothing_stops_no_wrapper(run: Run, here: Path, name: str, nothing: str) -> None:
    ran = run(**{name: f"{nothing},/usr:/mine"})
    assert ran.status == 0 and "bad array" not in ran.stderr
    assert "/usr:/mine" in elements(ran, NAMES if name in NAMES else OLD_NAMES)


def test_two_lists_that_differ_are_made_one(run: Run) -> None:
    ran = run(
        SINGULARITY_BIND="/usr:/a", APPTAINER_BIND="/usr:/b,/usr:/a", SINGULARITY_BINDPATH="", APPTAINER_BINDPATH="/usr"
    )
    assert elements(ran, OLD_NAMES) == ["/usr:/a", "/usr:/b"]
    assert elements(ran) == ["/usr"]


def test_where_nothing_is_bound_no_variable_is_set(run: Run) -> None:
    assert {*NAMES, *OLD_NAMES} & run().environment.keys() == set()


def test_a_missing_required_source_is_reported_once_per_node(run: Run) -> None:
    groups = [(Bind("/no/such/place", required=True), Bind("/nor/this")), (Bind("/nor/that"),)]
    words = "python: not bound, missing on this node: /no/such/place\n"
    assert run(*groups).stderr == words
    on_a_node = run(*groups, SLURM_JOB_ID="1", SLURM_LOCALID="0", SLURMD_NODENAME="nid002")
    assert on_a_node.stderr == "python: not bound, missing on nid002: /no/such/place\n"
    assert run(*groups, SLURM_JOB_ID="1", SLURM_LOCALID="3").stderr == ""


def test_notices_are_repeated_only_in_a_job(run: Run) -> None:
    groups = [(Bind("/no/such/place", required=True),)]
    told = {"_HPCMOD_PYTORCH_MISSING": "/another,/no/such/place"}
    assert run(*groups, **told).stderr == ""
    assert run(*groups, SLURM_JOB_ID="1", **told).stderr != ""


@pytest.mark.parametrize("name", ["a\nb", "a\\,b", "a\\"])
def test_a_name_that_cannot_be_bound_is_skipped_with_a_message(run: Run, here: Path, name: str) -> None:
    make(here, name, "b")
    ran = run((Bind(f"{here}/{name}"),), (Bind(f"{here}/b"),))
    assert elements(ran) == [as_bound(here / "b")]
    assert "not bound, unsupported characters in the path" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_the_tree_that_a_link_points_to_is_also_bound(run: Run, tmp_path: Path) -> None:
    make(tmp_path, "pfs/one/data", "pfs/two")
    (tmp_path / "scratch").symlink_to("pfs/one")
    (tmp_path / "flash").symlink_to(tmp_path / "pfs" / "two")
    (tmp_path / "usr").symlink_to("/usr/share")
    (tmp_path / "root").symlink_to("/")
    names = ("scratch", "flash", "usr", "root", "scratch/data")
    ran = run(*((Bind(f"{tmp_path}/{name}"),) for name in names))
    own = [f"{tmp_path}/{name}" for name in names]
    assert elements(ran) == [f"{tmp_path}/pfs/one", f"{tmp_path}/pfs/two", *own]


def test_a_tree_that_is_bound_anyway_is_not_bound_twice(run: Run, tmp_path: Path) -> None:
    make(tmp_path, "pfs/one")
    (tmp_path / "scratch").symlink_to("pfs/one")
    ran = run((Bind(f"{tmp_path}/scratch"),), (Bind(f"{tmp_path}/pfs"),), (Bind(f"{tmp_path}/scratch", "/s"),))
    assert elements(ran) == [f"{tmp_path}/scratch", f"{tmp_path}/pfs", f"{tmp_path}/scratch:/s"]

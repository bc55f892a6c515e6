from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError, VerificationError
from hpcmod.core.values.facts import ImageFacts, Package, PythonFacts
from hpcmod.images import Sif
from hpcmod.images.inspect import contents
from hpcmod.images.values.assignments import assignments
from tests import corpus
from tests.corpus import CONDA_TREE, Link, Node, Program, make_image

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")

ENV = "/.singularity.d/env"


def facts_of(tmp_path: Path, tree: dict[str, Node]) -> ImageFacts:
    return Sif(make_image(tmp_path / "image.sif", tree, "-noI", "-noD", "-noF")).facts()


def python_tree(prefix: str, version: str = "3.12", **packages: str) -> dict[str, Node]:
    site = f"{prefix}/lib/python{version}/site-packages"
    return {
        f"{prefix}/bin/python{version}": Program(),
        f"{prefix}/bin/python3": Link(f"python{version}"),
        f"{site}/README.txt": "",
        **{f"{site}/{name}-{number}.dist-info/RECORD": "" for name, number in packages.items()},
    }


def names(facts: ImageFacts) -> list[str]:
    return [f"{package.name} {package.version}" for package in facts.packages]


def test_reads_the_layout_of_lumis_images(tmp_path: Path) -> None:
    path = make_image(tmp_path / "image.sif")
    prefix = "/opt/miniconda3/envs/pytorch"
    assert Sif(path).facts() == ImageFacts(
        architecture="amd64",
        size=path.stat().st_size,
        python=PythonFacts(f"{prefix}/bin/python3.12", "3.12", prefix),
        packages=(Package("old-style", "0.3"), Package("PyYAML", "6.0.2"), Package("torch", "2.7.1+rocm6.2.4")),
        commands=("python", "python3", "python3.12", "torchrun"),
        labels=(("org.opencontainers.image.title", "a test image"),),
        environment=(("WITH_CONDA", "source /opt/miniconda3/bin/activate pytorch"),),
        assigned=("WITH_CONDA",),
        has_bash=False,
        trial=(f"{prefix}/bin/python3.12", "-c", ""),
        entry="none",
    )


@pytest.mark.parametrize(
    ("tree", "has_bash", "trial"),
    [
        pytest.param(
            {"/usr/bin/bash": Program(), "/usr/bin/true": Program(), "/bin": Link("usr/bin")}, True, ("true",)
        ),
        pytest.param({"/bin/sh": Program(), "/bin/true": "no program"}, False, ("sh", "-c", ":")),
        pytest.param({f"{ENV}/90-environment.sh": "PATH=/o", "/o/busybox": Program()}, False, ("busybox", "true")),
        pytest.param({"/server": Program()}, False, ()),
    ],
)
def test_knows_what_starts_in_an_image(
    tmp_path: Path, tree: dict[str, Node], has_bash: bool, trial: tuple[str, ...]
) -> None:
    facts = facts_of(tmp_path, tree)
    assert (facts.has_bash, facts.trial) == (has_bash, trial)


def test_knows_every_name_that_an_image_may_assign(tmp_path: Path) -> None:
    script = 'export PYTHONPATH="/opt/x:$PYTHONPATH"; A=1\nif true; then\n    B=$(id) export C=2\nfi\nd() { E+=1; }\n'
    assert facts_of(tmp_path, {f"{ENV}/90-environment.sh": script}).assigned == ("A", "B", "C", "PYTHONPATH")


def test_an_image_without_python_has_none(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, {"/bin/sh": Program()})
    assert (facts.python, facts.packages, facts.commands, facts.labels, facts.environment) == (None, (), (), (), ())


@pytest.mark.parametrize(
    ("script", "tools"),
    [
        pytest.param("", ("mesh", "solve"), id="no PATH of its own"),
        pytest.param(
            "PATH=/opt/vendor/bin:/usr/local/bin:/usr/bin", ("mesh", "post", "solve"), id="a directory in /opt"
        ),
        pytest.param('PATH="/opt/vendor/bin:$PATH"', ("mesh", "post", "solve"), id="PATH that is extended"),
        pytest.param(
            "PATH=/opt/vendor/bin/:/none", ("mesh", "post", "solve"), id="a slash at the end, and a directory it lacks"
        ),
    ],
)
def test_commands_on_path_outside_system_directories_are_the_tools_own(
    tmp_path: Path, script: str, tools: tuple[str, ...]
) -> None:
    tree: dict[str, Node] = {
        "/usr/bin/env": Program(),
        "/bin": Link("usr/bin"),
        "/usr/local/bin/solve": Program(),
        "/usr/local/bin/mesh": Link("/opt/vendor/mesh-3"),
        "/opt/vendor/mesh-3": Program(),
        "/opt/vendor/bin/post": Program(),
        "/usr/local/bin/README": "",
        f"{ENV}/90-environment.sh": script + "\n",
    }
    assert facts_of(tmp_path, tree).tools == tools


def test_programs_next_to_python_are_listed_once(tmp_path: Path) -> None:
    tree = {**python_tree("/usr/local"), "/usr/local/bin/solve": Program()}
    facts = facts_of(tmp_path, tree)
    assert (facts.commands, facts.tools) == (("python3", "python3.12", "solve"), ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "prefix"),
    [
        pytest.param("WITH_CONDA='. /srv/conda/bin/activate torch'", "/srv/conda/envs/torch", id="WITH_CONDA"),
        pytest.param("export WITH_CONDA='source /srv/conda/bin/activate'", "/srv/conda", id="WITH_CONDA, base"),
        pytest.param('WITH_CONDA="source /srv/v/bin/activate /srv/v"', "/srv/v", id="WITH_CONDA, by path"),
        pytest.param("WITH_CONDA=true\nCONDA_PREFIX=/srv/conda", "/srv/conda", id="CONDA_PREFIX"),
        pytest.param("VIRTUAL_ENV=/srv/v", "/srv/v", id="VIRTUAL_ENV"),
        pytest.param("CONDA_PREFIX=/srv/conda\nVIRTUAL_ENV=/srv/v", "/srv/v", id="VIRTUAL_ENV upon CONDA_PREFIX"),
        pytest.param("export PATH=/srv/v/bin:/usr/bin:/bin", "/srv/v", id="PATH"),
        pytest.param("export PATH=/srv/none/bin:/srv/v/bin:$PATH", "/srv/v", id="PATH that is extended"),
        pytest.param('export PATH="/srv/conda/bin:$PATH"\nPATH=/srv/v/bin:$PATH', "/srv/v", id="PATH, extended twice"),
        pytest.param("CONDA_PREFIX=/srv/none", "/usr", id="a place where nothing is"),
        pytest.param("", "/usr", id="nothing said"),
    ],
)
def test_finds_the_python_that_the_image_names(tmp_path: Path, script: str, prefix: str) -> None:
    tree: dict[str, Node] = {f"{ENV}/90-environment.sh": script + "\n"}
    for place in ("/usr", "/srv/conda", "/srv/conda/envs/torch", "/srv/v"):
        tree.update(python_tree(place))
    python = facts_of(tmp_path, tree).python
    assert python is not None
    assert (python.prefix, python.executable) == (prefix, f"{prefix}/bin/python3.12")


@pytest.mark.parametrize(
    "prefixes",
    [
        ("/opt/miniconda3/envs/torch", "/opt/miniconda3", "/usr"),
        ("/opt/conda/envs/conda_container_env", "/opt/conda", "/usr"),
        ("/opt/venv", "/usr/local", "/usr"),
        ("/usr/local", "/usr"),
    ],
)
def test_looks_in_the_customary_places_in_turn(tmp_path: Path, prefixes: tuple[str, ...]) -> None:
    tree: dict[str, Node] = {}
    for prefix in prefixes:
        tree.update(python_tree(prefix))
    python = facts_of(tmp_path, tree).python
    assert python is not None
    assert python.prefix == prefixes[0]


def test_the_conda_of_the_python_is_known_if_it_is_there(tmp_path: Path) -> None:
    tree = python_tree("/opt/conda/envs/x")
    assert facts_of(tmp_path, {**tree, "/opt/conda/bin/conda": Program()}).conda == "/opt/conda"
    assert facts_of(tmp_path, tree).conda == ""


def test_a_venv_lists_its_own_packages(tmp_path: Path) -> None:
    tree = python_tree("/usr", numpy="1.0", wheel="0.4") | venv_tree("false")
    assert names(facts_of(tmp_path, tree)) == ["numpy 2.0", "torch 2.7"]


def test_a_venv_upon_the_system_lists_its_packages_too_and_its_own_win(tmp_path: Path) -> None:
    tree = python_tree("/usr", numpy="1.0", wheel="0.4") | venv_tree("true")
    assert names(facts_of(tmp_path, tree)) == ["numpy 2.0", "torch 2.7", "wheel 0.4"]


def venv_tree(system: str) -> dict[str, Node]:
    return {
        "/opt/venv/bin/python3": Link("/usr/bin/python3"),
        "/opt/venv/bin/python": Link("python3"),
        "/opt/venv/lib64": Link("lib"),
        "/opt/venv/pyvenv.cfg": f"home = /usr/bin\ninclude-system-site-packages = {system}\nversion = 3.12.3\n",
        "/opt/venv/lib/python3.12/site-packages/torch-2.7.dist-info/METADATA": "Name: torch\nVersion: 2.7\n",
        "/opt/venv/lib/python3.12/site-packages/NumPy-2.0.dist-info/METADATA": "Name: numpy\nVersion: 2.0\n",
    }


def test_a_venv_keeps_its_own_interpreter(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, python_tree("/usr") | venv_tree("true"))
    assert facts.python == PythonFacts("/opt/venv/bin/python3", "3.12", "/opt/venv")
    assert facts.commands == ("python", "python3")


def test_a_venv_upon_a_python_of_the_host_is_none(tmp_path: Path) -> None:
    assert facts_of(tmp_path, venv_tree("true")).python is None


def test_debians_packages_are_found(tmp_path: Path) -> None:
    tree = python_tree("/usr", "3.11") | {
        "/usr/lib/python3/dist-packages/six-1.16.0.egg-info/PKG-INFO": "Name: six\nVersion: 1.16.0\n",
        "/usr/local/lib/python3.11/dist-packages/torch-2.7.dist-info/METADATA": "Name: torch\nVersion: 2.7\n",
    }
    assert names(facts_of(tmp_path, tree)) == ["six 1.16.0", "torch 2.7"]


def test_a_python_whose_name_has_no_version_is_known_by_its_library(tmp_path: Path) -> None:
    tree: dict[str, Node] = {"/usr/bin/python": Program(), "/usr/lib/python3.9/site-packages/x": ""}
    assert facts_of(tmp_path, tree).python == PythonFacts("/usr/bin/python", "3.9", "/usr")


@pytest.mark.parametrize(
    ("name", "metadata", "expected"),
    [
        ("ruamel.yaml-0.18.6.dist-info", "", ["ruamel.yaml 0.18.6"]),
        ("huggingface_hub-0.30.dist-info", "Name: huggingface-hub\r\nVersion: 0.30\r\n", ["huggingface-hub 0.30"]),
        ("x-1.dist-info", "Name: $(reboot)\nVersion: 1\n", ["x 1"]),
        ("x-1.dist-info", "Name: x\nVersion: 1 ]]\n", ["x 1"]),
        ("x-$(reboot).dist-info", "", []),
        (".dist-info", "", []),
        ("x.dist-info", "Name: x\n", []),
    ],
)
def test_names_and_versions_are_of_the_form_they_must_have(
    tmp_path: Path, name: str, metadata: str, expected: list[str]
) -> None:
    site = "/usr/lib/python3.12/site-packages"
    tree = python_tree("/usr") | {f"{site}/{name}/METADATA": metadata}
    assert names(facts_of(tmp_path, tree)) == expected


@pytest.mark.parametrize("text", ["", "not json", "[1, 2]", "[" * 100_000, '{"a": 1, "b": {"c": "d"}}', "\xff"])
def test_labels_that_are_none_are_omitted(tmp_path: Path, text: str) -> None:
    assert facts_of(tmp_path, {"/.singularity.d/labels.json": text.encode("latin-1")}).labels == ()


def test_labels_keep_every_character(tmp_path: Path) -> None:
    text = r'{"z": "$(reboot) `x` \"]]\" \n", "a": "caf\u00e9"}'
    facts = facts_of(tmp_path, {"/.singularity.d/labels.json": text})
    assert facts.labels == (("a", "caf\u00e9"), ("z", '$(reboot) `x` "]]" \n'))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("export A=1", {"A": "1"}, id="exported"),
        pytest.param("A=1\nB=2;\nC=3 # why", {"A": "1", "B": "2", "C": "3"}, id="not exported"),
        pytest.param("    export A='two words'", {"A": "two words"}, id="single quotes, indented"),
        pytest.param(r'A="a \"b\" \$c \x"', {"A": r'a "b" $c \x'}, id="double quotes"),
        pytest.param(r"A=a'b c'\ d", {"A": "ab c d"}, id="pieces"),
        pytest.param("A=", {"A": ""}, id="empty"),
        pytest.param('A="line 1\nB=2"\nC=3', {"A": "line 1\nB=2", "C": "3"}, id="several lines"),
        pytest.param('export A="${A:-"/x y"}"', {"A": "/x y"}, id="default as docker's"),
        pytest.param("A=1\nA=${A:-2}", {"A": "1"}, id="default of what is set"),
        pytest.param("A=1\nA=2", {"A": "2"}, id="last wins"),
        pytest.param("A=1\nA=$B", {}, id="no longer known"),
        pytest.param("A=$(reboot)\nB=`reboot`\nC=$X\nD=~/x\nE=a*b", {"E": "a*b"}, id="not literal"),
        pytest.param("A=1 reboot\nB=1; reboot\nC=1 && reboot", {}, id="commands"),
        pytest.param("if test x; then\n A=1\nfi\nB=2", {"B": "2"}, id="conditional"),
        pytest.param("for x in 1 2; do\nA=$x\ndone\nf() {\nA=1\n}\nB=2", {"B": "2"}, id="loops and functions"),
        pytest.param("if a; then A=1; fi\nB=2", {"B": "2"}, id="conditional in a line"),
        pytest.param("case x in\n x) A=1 ;;\nesac\nB=2", {"B": "2"}, id="case"),
        pytest.param("[ -n x ] && A=1\n# B=1\necho C=1", {}, id="not an assignment"),
        pytest.param('A="unclosed\nB=2', {"B": "2"}, id="unclosed quote"),
    ],
)
def test_only_plain_assignments_are_believed(tmp_path: Path, script: str, expected: dict[str, str]) -> None:
    assert dict(facts_of(tmp_path, {f"{ENV}/90-environment.sh": script}).environment) == expected


def test_scripts_are_read_in_order_and_others_are_not(tmp_path: Path) -> None:
    tree: dict[str, Node] = {
        f"{ENV}/90-environment.sh": "A=late",
        f"{ENV}/10-docker2singularity.sh": 'export A="early"\nexport B="x"',
        f"{ENV}/README": "A=no",
    }
    assert facts_of(tmp_path, tree).environment == (("A", "late"), ("B", "x"))


@given(st.text(alphabet="A=1'\"\\$\n {}:-#;`iffi", max_size=60))
def test_any_script_is_read_completely(script: str) -> None:
    for variable, value, _, _ in assignments(script):
        assert variable
        assert value is None or len(value) <= len(script)


@pytest.mark.slow
def test_a_script_without_end_is_read_in_bounds(tmp_path: Path) -> None:
    assert facts_of(tmp_path, {f"{ENV}/90-environment.sh": "A=1\n" * 500_000}).environment == (("A", "1"),)


@pytest.mark.parametrize(
    ("file", "runs"), [pytest.param("gcc.sh", True, id="a script"), pytest.param("README", False, id="no script")]
)
def test_scripts_that_conda_would_run_to_activate_the_python_are_noticed(tmp_path: Path, file: str, runs: bool) -> None:
    place = f"/opt/miniconda3/envs/pytorch/etc/conda/activate.d/{file}"
    python = Sif(make_image(tmp_path / "image.sif", {**CONDA_TREE, place: ""})).facts().python
    assert python is not None
    assert python.activation_scripts is runs


def test_an_image_with_a_damaged_root_file_system_is_refused(tmp_path: Path) -> None:
    path = make_image(tmp_path / "image.sif", CONDA_TREE)
    body_size = path.stat().st_size - corpus.BODY_AT
    for at in range(corpus.BODY_AT + 96, corpus.BODY_AT + body_size, max(1, body_size // 40)):
        corpus.flip_byte(path, at=at)
    with pytest.raises((VerificationError, BadInputError)):
        Sif(path).facts()


@pytest.mark.parametrize("place", ["lib/python3.12/site-packages/p{}.dist-info", "bin/command{}"])
def test_more_packages_or_commands_than_any_image_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(contents, "MOST_LISTED", 10)
    tree = python_tree("/opt/venv", **{f"package{number}": "1" for number in range(5)})
    (tmp_path / "usual").mkdir()
    facts_of(tmp_path / "usual", tree)
    more = {f"/opt/venv/{place.format(number)}": "x" for number in range(11)}
    with pytest.raises(BadInputError, match="at most 10 are read"):
        facts_of(tmp_path, {**tree, **more})


def test_commands_are_listed_with_directories_that_binds_will_fill_and_requested_paths(tmp_path: Path) -> None:
    tree: dict[str, Node] = {
        **{name: Program() for name in ("/opt/tool/bin/solve", "/usr/bin/env", "/home/run")},
        "/home/data": "x",
        f"{ENV}/10-docker2singularity.sh": 'export PATH="/opt/tool/bin:/host/bin:$PATH"\n',
    }
    found = Sif(make_image(tmp_path / "x.sif", tree)).commands(["/home", "/home/data", "/home/run", "/home/none"])
    assert (found.names, found.absent) == ({"solve", "env"}, ("/host/bin",))
    assert (found.files, found.programs) == ({"/home", "/home/data", "/home/run"}, {"/home/run"})

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hpcmod.errors import BadInputError
from hpcmod.importing.compose import convert_service, import_compose
from hpcmod.importing.outcome import ImportedEasyconfig, Outcome, Refused
from hpcmod.importing.variables import Variables
from tests.foreign_recipes import COMPOSE, write_compose, write_tree

PATH = Path("/project/compose.yaml")
UNKNOWN = Variables(complete=False)


def convert(keys: str, variables: Variables = UNKNOWN) -> ImportedEasyconfig:
    text = "services:\n  web:\n    image: redis:7\n    read_only: true\n" + "".join(
        f"    {line}\n" for line in keys.splitlines()
    )
    return convert_service(text, PATH, variables)


def imported(root: Path, *, service: str | None = None, expand: bool = False, environ: Mapping[str, str] | None = None):  # type: ignore[no-untyped-def]
    outcomes = import_compose([root], environ=environ or {}, service=service, expand=expand)
    return {Path(one.origin).parent.name: one for one in outcomes}


def test_the_service_becomes_an_easyconfig_called_like_it() -> None:
    one = convert_service(COMPOSE, PATH, UNKNOWN).easyconfig
    assert one.module == "train/24.01-py3"
    assert one.image == "docker://nvcr.io/nvidia/pytorch:24.01-py3"
    assert one.environment == (("MODE", 'it\'s "quoted", %(name)s'),)
    assert one.bind_paths == ("/project/data:/data:ro", "/store", "/long:/form:ro")


def test_all_that_is_lost_or_changed_is_named_with_what_to_do() -> None:
    one = convert_service(COMPOSE, PATH, UNKNOWN)
    lost, changed = "\n".join(one.left_out), "\n".join(one.changed)
    for text in (
        *('SINGULARITYENV_KEY="${SECRET}"', "variable OWNED", "SINGULARITYENV_PREPEND_PATH", "volume cache:/cache"),
        *("volume at /tmpfs", 'SINGULARITY_BINDPATH="${SCRATCH}:/scratch,${HOME}/code:/code"'),
        "singularity exec $SIF python -u train.py --name 'two words' \"\\${HOME}\"",
        *("working_dir /work", "writable-tmpfs", "device /dev/a:/dev/b", "key restart: sbatch", "key privileged"),
        *("env_file: singularity exec --env-file", "deploy.resources.limits.cpus = 4: srun", "deploy.replicas"),
    ):
        assert text in lost
    for text in (
        "volume ./data:/data:ro: it is /project/data",
        "/dev/fuse",
        "nvidia.com/gpu=all",
        "ports: ",
        "devices: the",
    ):
        assert text in changed
    assert "ipc" not in lost


def test_expand_uses_the_environment_and_the_file_beside(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/compose.yaml": COMPOSE, "a/.env": "# x\nSECRET='from file'\nSCRATCH=/file\nBAD=${X}\n"})
    one = imported(tmp_path, expand=True, environ={"SCRATCH": "/env", "PATH": "/bin"})["a"]
    assert dict(one.easyconfig.environment)["KEY"] == "from file"
    assert "/env:/scratch" in one.easyconfig.bind_paths
    assert dict(imported(tmp_path)["a"].easyconfig.environment).get("KEY") is None


def test_others_are_refused_with_the_reason(tmp_path: Path) -> None:
    outcomes: dict[str, Outcome] = imported(write_compose(tmp_path))
    refused = {name: one.reason for name, one in outcomes.items() if isinstance(one, Refused)}
    assert set(refused) == {"several", "built", "extended", "other", "broken"}
    assert "several services: one, two; choose one with --service NAME" in refused["several"]
    assert "push it to a registry" in refused["built"]
    assert "docker compose config" in refused["extended"]
    assert "singularity-compose" in refused["other"]


def test_one_of_several_services_can_be_chosen(tmp_path: Path) -> None:
    outcomes = imported(write_compose(tmp_path), service="two")
    assert outcomes["several"].easyconfig.module == "two/7"
    assert "no service 'two', only train" in outcomes["train"].reason


@pytest.mark.parametrize(
    "text",
    [
        *("", "services: {}", "services: [a]", "services: {a: }", "services: {a: {image: [x]}}", "a: b", "[]"),
        *("services: {a: {image: redis}}", "services: {a: {image: '${X}'}}", "services: {a: {image: 'a b:1'}}"),
        "services: {a/b: {image: 'redis:7'}}",
        "a: &a {<<: *a, x: y}\nservices: {web: *a}",
        "a: &a {x: y}\nservices: {web: {<<: [*a, *a, *a, *a, *a, *a], image: 'redis:7'}}",
        "services: {web: {<<: text, image: 'redis:7'}}",
    ],
)
def test_what_is_no_service_with_an_image_is_refused(text: str) -> None:
    with pytest.raises(BadInputError):
        convert_service(text, PATH, UNKNOWN)


@pytest.mark.parametrize(
    ("keys", "lost"),
    [
        ("volumes: text", "volumes, which is not a list"),
        ("volumes: [/cache]", "it has no source"),
        ("volumes: ['a:b:c:d']", "not SOURCE:DESTINATION"),
        ("volumes: [{type: bind, source: [x], target: /y}]", "no source or target"),
        ("volumes: [{type: volume, source: x, target: /y}]", "type volume"),
        ("volumes: [[x]]", "not a table"),
        ("environment: {A: [x]}", "value is not text"),
        ("environment: [[x]]", "not text"),
        ("environment: ['A-B=x']", "not a valid variable name"),
        ("devices: [[x]]", "entries of devices"),
        ("network_mode: none", "key network_mode"),
        ("working_dir: [x]", "working_dir (list)"),
        ("colour: green", "key colour"),
    ],
)
def test_values_that_cannot_be_carried_are_reported(keys: str, lost: str) -> None:
    assert any(lost in clause for clause in convert(keys).left_out)


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("command: a 'b c'", "singularity run $SIF a 'b c'"),
        ("command: [a, b c]", "singularity run $SIF a 'b c'"),
        ("entrypoint: /run\ncommand: [x]", "singularity exec $SIF /run x"),
        ('command: "a \'b"', "singularity run $SIF"),
        ("tty: true", "singularity run $SIF"),
    ],
)
def test_the_command_is_a_line_for_the_shell(keys: str, shown: str) -> None:
    assert any(shown in clause for clause in convert(keys).left_out)


def test_a_variable_without_a_value_is_the_users() -> None:
    assert "the variable A: yours is passed, unless the image sets it" in convert("environment: [A]").changed

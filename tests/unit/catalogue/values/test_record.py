from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hpcmod.catalogue.values.record import (
    CatalogueRecord,
    Check,
    ContainerContent,
    Publication,
    StateNotice,
    parse_record,
    record_json,
)
from hpcmod.core.errors import BadInputError
from hpcmod.core.values.facts import Package
from hpcmod.core.values.json_form import json_form

SHA256 = "ab" * 32

RECORD = CatalogueRecord(
    name="PyTorch",
    version="2.7.1-rocm-6.2.4",
    module="PyTorch/2.7.1-rocm-6.2.4",
    sif="PyTorch-2.7.1.sif",
    sha256=SHA256,
    size=4096,
    content=ContainerContent(
        architecture="amd64",
        targets=("gfx90a", "zen3"),
        labels=(("a", "$(id) '\" <b>"), ("b", "")),
        environment=(("HOME", "/x"),),
        packages=(Package("torch", "2.7.1"),),
        python="3.12.4",
        commands=("python", "pip"),
        stack=(("rocm", "6.2.4"),),
        sbom="/sbom.json",
    ),
    publication=Publication(
        site="lumi",
        reference="docker://registry.example/pytorch@sha256:" + "12" * 32,
        signature="cosign key 1234",
        easyconfig="PyTorch-2.7.1-rocm-6.2.4.eb",
        description="Tensors and networks",
        homepage="https://pytorch.example",
        published="2026-11-20T10:00:00Z",
        publisher="ada",
        compat="warn",
    ),
    state="deprecated",
    notice=StateNotice(until="2027-01-31", successor="PyTorch/2.8.0", reason="superseded"),
    aliases=("latest", "stable"),
    checks=(Check("python -c 'import torch'", True, "2026-11-21T00:00:00Z", SHA256, "slurm"),),
    rendering="12",
    readers="chemists",
    licence="c" * 64,
)
"""Each field has a different value, so a field that is not written or not read changes the record."""


def test_written_text_is_read_back() -> None:
    assert parse_record(record_json(RECORD).encode()) == RECORD


def test_the_sample_record_gives_each_field_a_value_of_its_own() -> None:
    default, values = json_form(CatalogueRecord(*[""] * 5, 0)), json_form(RECORD)
    assert [name for name, value in values.items() if value == default[name]] == []
    assert len(set(map(repr, values.values()))) == len(values) == 33


def broken(**values: object) -> bytes:
    return json.dumps({**json.loads(record_json(RECORD)), **values}).encode()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"record": 2}, "record: expected version 1, found 2", id="later version"),
        pytest.param({"name": "../x"}, "name: not a safe file name", id="name that leads out"),
        pytest.param({"version": ".hidden", "module": "PyTorch/.hidden"}, "version: not a safe", id="hidden version"),
        pytest.param({"sif": "a/b.sif"}, "sif: not a safe file name", id="image that leads out"),
        pytest.param({"easyconfig": "/etc/passwd"}, "easyconfig: not a safe file name", id="easyconfig that leads out"),
        pytest.param({"aliases": ["a b"]}, "aliases: not a safe file name", id="alias with a blank"),
        pytest.param({"module": "Other/1"}, "module: expected PyTorch/2.7.1-rocm-6.2.4", id="another module"),
        pytest.param({"state": "lost"}, "state: expected one of published, deprecated, retired", id="unknown state"),
        pytest.param({"sha256": "12"}, "sha256: not 64", id="short digest"),
        pytest.param({"until": "soon"}, "until: not a date (YYYY-MM-DD)", id="no day"),
        pytest.param({"rendering": "../1"}, "rendering: not a number", id="rendering that leads out"),
        pytest.param({"size": -1}, "size: expected a non-negative number", id="negative size"),
        pytest.param({"labels": ["x"]}, "labels: expected an object", id="labels as a list"),
        pytest.param({"packages": [{"name": 3}]}, "name: expected a string", id="package of no text"),
    ],
)
def test_a_damaged_record_is_refused_with_the_reason(values: dict[str, object], said: str) -> None:
    with pytest.raises(BadInputError, match="record") as raised:
        parse_record(broken(**values), "the record")
    assert said in raised.value.message


def test_half_a_record_is_refused() -> None:
    with pytest.raises(BadInputError):
        parse_record(record_json(RECORD).encode()[:100])


def test_a_check_on_another_image_proves_nothing() -> None:
    assert RECORD.tested
    assert not replace(RECORD, sha256="cd" * 32).tested
    assert not replace(RECORD, checks=()).tested


@pytest.mark.parametrize(
    ("reference", "origin"),
    [
        ("/home/alice/secret/PyTorch.sif", "PyTorch.sif"),
        ("oci-archive:/home/alice/torch.tar", "torch.tar"),
        ("docker://example.org/lab/torch:2@sha256:0", "docker://example.org/lab/torch:2@sha256:0"),
        ("", ""),
    ],
)
def test_pages_do_not_show_the_directories_of_a_publisher(reference: str, origin: str) -> None:
    assert Publication(reference=reference).origin == origin

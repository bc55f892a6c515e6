"""Plans of publications, before anything is installed; tests/integration/test_publish.py publishes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.publishing.candidate import Request, choose_candidate
from hpcmod.catalogue.publishing.publish_plan import PublishContext, PublishPlan, plan_publish
from hpcmod.catalogue.publishing.trial import EASYBUILD_CHECK
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values.record import Check
from hpcmod.core.errors import BadInputError, LackingError, NotFoundError
from hpcmod.images.integrity import file_sha256
from hpcmod.images.settings import make_options
from hpcmod.machine.machine import find_machine
from tests import corpus
from tests.catalogues import make_catalogue, make_record, put
from tests.unit.catalogue.stage import ADA

pytestmark = pytest.mark.skipif(not corpus.HAS_MKSQUASHFS, reason="needs mksquashfs (package squashfs-tools)")


@pytest.fixture
def context(tmp_path: Path) -> PublishContext:
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path), "HPCMOD_SITE": "generic"}
    machine = find_machine(None, environ)
    return PublishContext(machine, make_options(machine.site, environ, tool="test"), environ, ADA)


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """A catalogue with Toy 1.0, which is stable."""
    return make_catalogue(tmp_path / "shop", make_record("Toy/1.0", aliases=("stable",)))


@pytest.fixture
def asked(tmp_path: Path) -> Request:
    return Request(str(corpus.make_image(tmp_path / "image.sif")), "Toy", "2.0", misfit=True)


def plan_of(catalogue: Catalogue, request: Request, context: PublishContext) -> PublishPlan:
    return plan_publish(catalogue, choose_candidate(request), request, context)[0]


def test_lists_every_file_of_a_new_container(catalogue: Catalogue, asked: Request, context: PublishContext) -> None:
    assert plan_of(catalogue, asked, context).files == (
        *("easyconfigs/t/Toy/Toy-2.0.eb", "images/Toy-2.0.sif", "images/Toy-2.0.sif.provenance.json", "kept/Toy/2.0/"),
        *("modules/all/Toy/", "records/Toy/2.0.json", "software/Toy/2.0/"),
        *("index.json", "journal.jsonl", "packages.json"),
    )


def test_lists_the_record_that_loses_an_alias(catalogue: Catalogue, asked: Request, context: PublishContext) -> None:
    files = plan_of(catalogue, replace(asked, aliases=("stable",)), context).files
    assert [name for name in files if name.startswith("records/")] == ["records/Toy/1.0.json", "records/Toy/2.0.json"]


def test_a_preview_pins_the_image_in_the_easyconfig(
    catalogue: Catalogue, asked: Request, context: PublishContext
) -> None:
    asked = replace(asked, checks=("true",))
    shown, fetch = plan_publish(catalogue, choose_candidate(asked), asked, context)
    assert shown.record is not None
    assert shown.record.sha256 in shown.easyconfig
    assert fetch.path == str(catalogue.images / "Toy-2.0.sif")
    assert str(shown.easyconfig_path) in shown.command
    assert (shown.action, shown.checks, shown.job_checks) == ("publish", ("true",), ())
    assert not catalogue.images.exists()


def test_repairing_a_damaged_container_repeats_its_checks(
    catalogue: Catalogue, asked: Request, context: PublishContext
) -> None:
    sha256 = file_sha256(Path(asked.what))
    checks = (Check("true", True, "", sha256), Check(EASYBUILD_CHECK, True, "", sha256))
    put(catalogue, make_record("Toy/2.0", sha256=sha256, checks=checks))
    plan = plan_of(catalogue, asked, context)
    assert (plan.action, plan.checks, plan.candidate.checksum) == ("repair", ("true",), sha256)
    assert any("Toy-2.0.sif is missing" in one for one in plan.damage)
    again = replace(checks[0], under="slurm", name="srun hostname")
    put(catalogue, make_record("Toy/2.0", sha256=sha256, checks=(*checks, again)))
    with pytest.raises(LackingError, match="some checks need a job step"):
        plan_of(catalogue, asked, context)


def test_refuses_a_missing_licence_an_unknown_group_and_another_containers_image(
    catalogue: Catalogue, asked: Request, context: PublishContext, tmp_path: Path
) -> None:
    for wrong in ({"licence": str(tmp_path / "none")}, {"readers": "no-such-group"}):
        with pytest.raises(NotFoundError):
            plan_of(catalogue, replace(asked, **wrong), context)
    put(catalogue, make_record("Other/1.0", sif="Toy-2.0.sif"))
    catalogue.images.mkdir()
    (catalogue.images / "Toy-2.0.sif").touch()
    with pytest.raises(BadInputError, match=r"belongs to Other/1\.0"):
        plan_of(catalogue, asked, context)

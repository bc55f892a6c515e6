"""Decisions before `eb` runs; tests/integration/test_publish.py tests the rest, with the real `eb`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.catalogue.admin import lifecycle
from hpcmod.catalogue.publishing import publish as publishing
from hpcmod.catalogue.publishing import publish_plan as room
from hpcmod.catalogue.publishing.candidate import Request, choose_candidate
from hpcmod.catalogue.publishing.publish_plan import PublishContext, PublishPlan, plan_publish
from hpcmod.catalogue.publishing.terms import set_terms
from hpcmod.catalogue.publishing.trial import EASYBUILD_CHECK
from hpcmod.catalogue.records.store import Catalogue
from hpcmod.catalogue.values import lifecycle as rules
from hpcmod.catalogue.values.journal import Key, Records
from hpcmod.catalogue.values.record import CatalogueRecord, Check
from hpcmod.catalogue.visible.kept import KEPT_EASYCONFIG, kept_directory
from hpcmod.compat.values.verdict import Verdict
from hpcmod.core.errors import (
    BadInputError,
    CheckFailedError,
    HpcmodError,
    LackingError,
    NotFoundError,
    UntrustedError,
    VerificationError,
)
from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.values.finding import Finding
from hpcmod.core.values.trust import TrustPolicy
from hpcmod.images.settings import make_options
from hpcmod.machine.machine import find_machine
from tests import corpus
from tests.catalogues import make_record, put
from tests.unit.catalogue.stage import ADA, make_shop

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Catalogue:
    """A catalogue with Toy 1.0, which is stable, and Toy 0.5, which is retired."""
    shop = make_shop(tmp_path / "shop", "Toy/1.0", "Toy/0.5")
    for key, decide in ((("Toy", "1.0"), stabilize), (("Toy", "0.5"), rules.retire)):
        lifecycle.change_name(shop, "Toy", lambda all_, k=key, do=decide: do(all_, k), verb="", actor=ADA)
    return shop


def stabilize(records: Sequence[CatalogueRecord], key: Key) -> Records:
    return rules.move_alias(records, key, rules.STABLE)


@pytest.fixture
def context(tmp_path: Path) -> PublishContext:
    """A context without `eb` on PATH."""
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path), "HPCMOD_SITE": "generic"}
    machine = find_machine(None, environ)
    return PublishContext(machine, make_options(machine.site, environ), environ, ADA)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    return corpus.make_image(tmp_path / "image.sif")


@pytest.fixture
def asked(image: Path) -> Request:
    return Request(str(image), "Toy", "2.0", misfit=True)


def dry_run(shop: Catalogue, request: Request, context: PublishContext) -> PublishPlan:
    return plan_publish(shop, choose_candidate(request), request, context)[0]


def publish(shop: Catalogue, request: Request, context: PublishContext) -> None:
    publishing.publish(shop, choose_candidate(request), request, context)


def files(shop: Catalogue) -> set[str]:
    return {str(path.relative_to(shop.directory)) for path in shop.directory.rglob("*") if ".locks" not in path.parts}


def test_refuses_an_incompatible_image_and_leaves_nothing(
    shop: Catalogue, context: PublishContext, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Verdict((Finding("fail", "glibc", "2.17 is too old for the host's libmpi", "Take a newer base."),))
    monkeypatch.setattr(room, "judge", lambda *_: refusal)
    before = files(shop)
    for verb in (publish, dry_run):
        with pytest.raises(CheckFailedError) as raised:
            verb(shop, Request(str(image), "Toy", "2.0"), context)
        assert "glibc: 2.17 is too old for the host's libmpi Take a newer base." in raised.value.message
        assert "--misfit" in raised.value.cure
    assert files(shop) == before


def test_an_installation_that_cannot_begin_leaves_nothing(
    shop: Catalogue, context: PublishContext, asked: Request
) -> None:
    before = files(shop)
    with pytest.raises(Exception, match="eb"):
        publish(shop, asked, context)
    assert files(shop) == before
    assert Path(asked.what).is_file()


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        pytest.param({"version": "1.0"}, "is published with another image", id="another image by the same name"),
        pytest.param(
            {"version": "2.0", "aliases": ("1.0",)}, "is already a version of Toy", id="alias that is a version"
        ),
        pytest.param({"version": "2.0", "aliases": ("2.0",)}, "is the version itself", id="alias of its own name"),
        pytest.param({"version": "2.0", "aliases": ("default",)}, "cannot be an alias", id="reserved alias"),
        pytest.param({"version": "stable"}, "is an alias of Toy/1.0", id="version that is an alias"),
        pytest.param({"version": "0.5"}, "Toy/0.5 is retired", id="retired"),
        pytest.param({"version": "2.0", "name": "a/b"}, "is not valid in a module name", id="name with a slash"),
        pytest.param({"version": "2.0", "what": "/nowhere.sif"}, "no such file", id="no image"),
    ],
)
def test_the_dry_run_also_refuses_what_cannot_be_published(
    shop: Catalogue, context: PublishContext, image: Path, request_: dict[str, object], said: str
) -> None:
    asked = Request(**{"what": str(image), "name": "Toy", **request_})  # type: ignore[arg-type]
    before = files(shop)
    for verb in (publish, dry_run):
        with pytest.raises((BadInputError, NotFoundError), match=said):
            verb(shop, asked, context)
    assert files(shop) == before


def test_a_retired_container_whose_files_were_removed_is_published_under_another_version(
    shop: Catalogue, context: PublishContext, image: Path
) -> None:
    for there in (True, False):
        with pytest.raises(BadInputError, match=r"Toy/0\.5 is retired") as refused:
            dry_run(shop, Request(str(image), name="Toy", version="0.5"), context)
        assert ("catalogue restore" in refused.value.cure, "--version" in refused.value.cure) == (there, True)
        (shop.images / shop.read("Toy", "0.5").sif).unlink(missing_ok=True)


@pytest.mark.parametrize("damage", ["no SIF", "truncated", "no squashfs", "another machine's"])
def test_errors_use_the_file_name_that_the_user_gave(
    shop: Catalogue, context: PublishContext, image: Path, asked: Request, damage: str
) -> None:
    whole = image.read_bytes()
    texts = {"no SIF": b"x" * 5000, "truncated": whole[:-500], "no squashfs": whole.replace(b"hsqs", b"HSQS")}
    image.write_bytes(texts.get(damage, whole))
    if damage == "another machine's":
        context = replace(context, options=replace(context.options, architecture="riscv64"))
    before = files(shop)
    with pytest.raises(HpcmodError) as caught:
        publish(shop, asked, context)
    assert caught.value.message.startswith(f"{image}: ")
    assert files(shop) == before


def test_the_dry_run_also_refuses_an_image_that_is_not_what_it_should_be(
    shop: Catalogue, context: PublishContext, asked: Request
) -> None:
    strict = replace(context, options=replace(context.options, policy=TrustPolicy(("signature",), ("/k.pem",))))
    wrong = replace(asked, checksum="0" * 64)
    for verb in (publish, dry_run):
        with pytest.raises(UntrustedError, match="not signed"):
            verb(shop, asked, strict)
        with pytest.raises(VerificationError, match="expected 0000"):
            verb(shop, wrong, context)
    pinned = replace(context, options=replace(context.options, policy=TrustPolicy(("checksum",))))
    assert dry_run(shop, replace(asked, checksum=file_sha256(Path(asked.what))), pinned).record


def test_a_check_that_needs_slurm_is_refused_before_anything_is_fetched(
    shop: Catalogue, context: PublishContext
) -> None:
    before = files(shop)
    with pytest.raises(LackingError, match="Slurm does not respond here"):
        publish(shop, Request("docker://127.0.0.1:1/x/y", "Toy", "2.0", job_checks=("true",)), context)
    assert files(shop) == before


def test_a_dry_run_of_a_remote_image_prints_what_is_known(
    shop: Catalogue, context: PublishContext, tmp_path: Path
) -> None:
    archive = f"docker-archive:{corpus.make_docker_archive(tmp_path / 'image.tar')}"
    found = dry_run(shop, Request(archive, "Toy", "2.0", aliases=("new",)), context)
    assert (found.action, found.record, found.request.aliases) == ("publish", None, ("new",))
    assert "checksums = [None]" in found.easyconfig


def test_lists_every_file_of_a_new_container(shop: Catalogue, asked: Request, context: PublishContext) -> None:
    assert dry_run(shop, asked, context).files == (
        *("easyconfigs/t/Toy/Toy-2.0.eb", "images/Toy-2.0.sif", "images/Toy-2.0.sif.provenance.json", "kept/Toy/2.0/"),
        *("modules/all/Toy/", "records/Toy/2.0.json", "software/Toy/2.0/"),
        *("index.json", "journal.jsonl", "packages.json"),
    )


def test_lists_the_record_that_loses_an_alias(shop: Catalogue, asked: Request, context: PublishContext) -> None:
    files = dry_run(shop, replace(asked, aliases=("stable",)), context).files
    assert [name for name in files if name.startswith("records/")] == ["records/Toy/1.0.json", "records/Toy/2.0.json"]


def test_a_preview_pins_the_image_in_the_easyconfig(shop: Catalogue, asked: Request, context: PublishContext) -> None:
    asked = replace(asked, checks=("true",))
    shown, fetch = plan_publish(shop, choose_candidate(asked), asked, context)
    assert shown.record is not None
    assert shown.record.sha256 in shown.easyconfig
    assert fetch.path == str(shop.images / "Toy-2.0.sif")
    assert str(shown.easyconfig_path) in shown.command
    assert (shown.action, shown.checks, shown.job_checks) == ("publish", ("true",), ())
    assert not (shop.images / "Toy-2.0.sif").exists()


def test_repairing_a_damaged_container_repeats_its_checks(
    shop: Catalogue, asked: Request, context: PublishContext
) -> None:
    sha256 = file_sha256(Path(asked.what))
    checks = (Check("true", True, "", sha256), Check(EASYBUILD_CHECK, True, "", sha256))
    put(shop, make_record("Toy/2.0", sha256=sha256, checks=checks))
    plan = dry_run(shop, asked, context)
    assert (plan.action, plan.checks, plan.candidate.checksum) == ("repair", ("true",), sha256)
    assert any("Toy-2.0.sif is missing" in one for one in plan.damage)
    again = replace(checks[0], under="slurm", name="srun hostname")
    put(shop, make_record("Toy/2.0", sha256=sha256, checks=(*checks, again)))
    with pytest.raises(LackingError, match="some checks need a job step"):
        dry_run(shop, asked, context)


def test_publishing_again_keeps_what_was_published_and_refuses_to_change_it(
    shop: Catalogue, asked: Request, context: PublishContext
) -> None:
    sha256, program = file_sha256(Path(asked.what)), "/opt/miniconda3/envs/pytorch/bin/torchrun"
    record = make_record("Toy/2.0", sif="image.sif", sha256=sha256, checks=(Check("true", True, "", sha256),))
    put(shop, record)
    kept = kept_directory(shop, record) / KEPT_EASYCONFIG
    kept.parent.mkdir(parents=True)
    kept.write_text(f"name = 'Toy'\nwrapped_commands = {{'solve': ['{program}']}}\nchecksums = ['']\n")
    for request in (asked, replace(asked, commands=(f"solve={program}",), checks=("true",))):
        plan = dry_run(shop, request, context)
        assert (plan.action, plan.candidate.commands) == ("repair", (("solve", (program,)),))
        assert plan.candidate.sif == "image.sif"
        assert plan.easyconfig == kept.read_text().replace("['']", f"['{sha256}']")
    for wrong in ({"commands": (f"other={program}",)}, {"description": "x"}, {"homepage": "https://example.org/x"}):
        with pytest.raises(BadInputError, match="is already published, with another --"):
            dry_run(shop, replace(asked, **wrong), context)
    published = kept.read_text()
    for place in ("easyconfigs/t/Toy/Toy-2.0.eb", "software/Toy/2.0/easybuild/Toy-2.0.eb"):
        copy = shop.directory / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(published)
        for text in ("name = (", ""):
            kept.write_text(text)
            assert dry_run(shop, asked, context).candidate.commands == (("solve", (program,)),)
        copy.unlink()
    kept.write_text("name = (")
    plan = dry_run(shop, replace(asked, commands=(f"solve={program}",)), context)
    assert (plan.candidate.commands, "name = 'Toy'" in plan.easyconfig) == ((("solve", (program,)),), True)


def test_a_lost_licence_is_published_again_with_its_text_only(
    shop: Catalogue, asked: Request, context: PublishContext, tmp_path: Path
) -> None:
    (tmp_path / "terms").write_text("Terms\n")
    record = make_record("Toy/2.0", sha256=file_sha256(Path(asked.what)), reference="docker://host/toy:2")
    record = set_terms(shop, record, readers="", licence=str(tmp_path / "terms"))
    put(shop, record)
    (shop.licences / record.licence).unlink()
    with pytest.raises(NotFoundError, match=r"the licence of Toy/2\.0 is missing") as raised:
        dry_run(shop, asked, context)
    assert "hpcmod publish docker://host/toy:2 --name Toy --version 2.0 --licence FILE" in raised.value.cure
    plan = dry_run(shop, replace(asked, licence=str(tmp_path / "terms")), context)
    assert (plan.action, any(record.licence in damage for damage in plan.damage)) == ("repair", True)


def test_refuses_a_missing_licence_an_unknown_group_and_another_containers_image(
    shop: Catalogue, asked: Request, context: PublishContext, tmp_path: Path
) -> None:
    for wrong in ({"licence": str(tmp_path / "none")}, {"readers": "no-such-group"}):
        with pytest.raises(NotFoundError):
            dry_run(shop, replace(asked, **wrong), context)
    put(shop, make_record("Other/1.0", sif="Toy-2.0.sif"))
    (shop.images / "Toy-2.0.sif").touch()
    with pytest.raises(BadInputError, match=r"belongs to Other/1\.0"):
        dry_run(shop, asked, context)

"""Restricted images and licences in a real catalogue: the messages of modules for each module tool and syntax."""

from __future__ import annotations

import grp
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.publishing import Site, make_site
from tests.stack import ModuleTool

pytestmark = pytest.mark.stack

TERMS = "Use it for science.\nDo not pass it on.\n"


def test_a_restricted_container_with_a_licence(module_env: ModuleTool, tiny_sif: Path, tmp_path: Path) -> None:
    site = make_site(module_env, tmp_path)
    (tmp_path / "terms.txt").write_text(TERMS)
    group = grp.getgrgid(os.getegid()).gr_name
    site.published(tiny_sif, "1.0", "--readers", group, "--licence", str(tmp_path / "terms.txt"))
    image = site.catalogue / "images/Toy-1.0.sif"
    assert (image.stat().st_mode & 0o777, image.stat().st_gid) == (0o640, os.getegid())
    assert site.record("1.0")["readers"] == group

    home = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": ""}
    (tmp_path / "home").mkdir()
    load = 'module load Toy/1.0; echo "sif=$SIF"'
    before = site.user(load, **home)
    assert before.stdout.splitlines()[-1] == "sif="
    assert "To read and accept it: hpcmod install --accept-licence Toy/1.0" in " ".join(before.stderr.split())
    licence = "licence: to read and accept it: hpcmod install --accept-licence Toy/1.0"
    assert licence in site.does("info", "Toy", **home).stdout.splitlines()
    refused = site.hpcmod("install", "--accept-licence", "Toy/1.0", **home)
    assert (refused.returncode, refused.stdout) == (7, TERMS)
    assert "hpcmod install --accept-licence --yes Toy/1.0" in refused.stderr
    assert "hpcmod install --accept-licence Toy/1.0" in site.hpcmod("exec", "Toy", "true", **home).stderr

    image.write_bytes(b"")
    (site.catalogue / f"licences/{site.record('1.0')['licence']}").unlink()
    admin = replace(site, variables={"MODULEPATH": str(site.modules), **home})  # who has not accepted it
    admin.published(tiny_sif, "1.0", "--check", "python3 -c 1", "--licence", str(tmp_path / "terms.txt"))
    assert "fail" not in site.does("catalogue", "verify").stdout
    site.does("install", "--accept-licence", "--yes", "Toy/1.0", **home)
    assert "licence: accepted" in site.does("info", "Toy", **home).stdout.splitlines()
    sif = Path(site.user(load, **home).stdout.splitlines()[-1].removeprefix("sif="))
    assert (sif.stat().st_mode & 0o777, sif.stat().st_gid) == (0o640, os.getegid())
    left = site.user("module load Toy/1.0; module unload Toy/1.0; env | grep -c '^SIF='", **home)
    assert left.stdout.splitlines()[-1] == "0"

    for path in (image, sif):
        path.chmod(0)  # what users outside the group see
    denied = site.user(load, **home)
    assert denied.stdout.splitlines()[-1] == "sif="
    assert f"Toy/1.0 is restricted to the group {group}; to get access, ask " in " ".join(denied.stderr.split())
    assert site.record("1.0")["publisher"] in " ".join(denied.stderr.split())
    text = f"Toy/1.0 is restricted to the group {group}; to get access, ask {site.record('1.0')['publisher']}"
    for words in (
        *(["exec", "Toy", "true"], ["add", "Toy", "einops"], ["kernel", "Toy"], ["jupyter", "Toy", "--here"]),
        *(["job", "Toy", "-N", "1", "true"], ["install", "Toy/1.0"], ["verify", "Toy"]),
        *(["compat", "Toy"], ["doctor", "Toy"], ["packages", "Toy"], ["info", "Toy", "--diff", "Toy"]),
    ):
        refused = site.hpcmod(*words, **home)
        assert (refused.returncode, text in " ".join(refused.stderr.split())) == (7, True), words
    assert text in " ".join(site.does("info", "Toy", **home).stdout.split())
    assert "Toy/1.0  restricted" in site.does("ls", "Toy", **home).stdout
    for path in (image, sif):
        path.chmod(0o640)
    assert "wrong" not in site.does("catalogue", "verify").stdout


def test_a_group_publishes_for_another_group(lmod: ModuleTool, tiny_sif: Path, tmp_path: Path) -> None:
    """The image has its mode and group when it gets its name: a watcher sees no other."""
    site, (mine, other) = Site(lmod, tmp_path), [grp.getgrgid(one).gr_name for one in sorted(os.getgroups())[:2]]
    site.does("catalogue", "init", site.catalogue, "--group", mine)
    seen, image = set(), site.catalogue / "images/Toy-1.0.sif"
    with site.start("publish", tiny_sif, "--name", "Toy", "--version", "1.0", "--no-slurm", "--readers", other) as done:
        while done.poll() is None:
            with suppress(FileNotFoundError):
                status = image.stat()
                seen.add((status.st_mode & 0o777, status.st_gid))
        assert done.stdout and done.returncode == 0, done.stdout.read()
    assert seen == {(0o640, grp.getgrnam(other).gr_gid)}
    linked = site.catalogue / "software/Toy/1.0/Toy-1.0.sif"
    assert linked.samefile(image)
    assert "fail" not in site.does("catalogue", "verify").stdout
    restricted = (0o640, grp.getgrnam(other).gr_gid)
    os.chown(image, -1, grp.getgrnam(mine).gr_gid)  # as after a backup was restored
    done = site.hpcmod("catalogue", "verify", "Toy")
    wrong = f"{image}: -rw-r----- {mine}, expected -rw-r----- {other}"
    assert (done.returncode, wrong in " ".join(done.stdout.split())) == (1, True), done.stdout
    assert "hpcmod catalogue verify --fix-modes" in done.stdout
    site.does("catalogue", "verify", "--fix-modes")
    assert (image.stat().st_mode & 0o777, image.stat().st_gid) == restricted
    files = [site.catalogue / "records/Toy/1.0.json", site.catalogue / "journal.jsonl"]
    texts = [path.read_text() for path in files]

    def set_record(readers: str) -> None:
        for path, text in zip(files, texts):
            path.write_text(text.replace(f'"readers": "{other}"', f'"readers": "{readers}"'))

    foreign = next(entry.gr_name for entry in grp.getgrall() if entry.gr_gid not in (os.getegid(), *os.getgroups()))
    set_record(foreign)
    os.chown(image, -1, grp.getgrnam(mine).gr_gid)
    for words in (("verify",), ("verify", "--fix-modes")):
        said = " ".join(site.hpcmod("catalogue", *words).stdout.split())
        assert (f"expected -rw-r----- {foreign}" in said, "You must be in this group" in said) == (True, True), said
    set_record(other)
    site.does("catalogue", "verify", "--fix-modes")
    set_record("")  # as each publisher may
    said = " ".join(site.hpcmod("catalogue", "verify", "--fix-modes").stdout.split())
    assert (image.stat().st_mode & 0o777, image.stat().st_gid) == restricted
    cure = f"publish {image} --name Toy --version 1.0 --readers {other}"
    assert (f"Publish it again for its group: hpcmod {cure}" in said, "chmod" in said) == (True, False), said
    site.does(*cure.split(), "--no-slurm")
    assert (image.stat().st_mode & 0o777, image.stat().st_gid) == restricted
    assert "fail" not in site.does("catalogue", "verify").stdout


def test_an_image_with_a_group_of_neither_record_nor_catalogue_is_published_again(
    lmod: ModuleTool, tiny_sif: Path, tmp_path: Path
) -> None:
    """Only its owner says that the readers of the record may read it: other publishers may change the record."""
    site = make_site(lmod, tmp_path)
    mine, other = grp.getgrgid(os.getegid()).gr_name, sorted({*os.getgroups()} - {os.getegid()})[0]
    site.published(tiny_sif, "1.0", "--readers", mine)
    image = site.catalogue / "images/Toy-1.0.sif"
    os.chown(image, -1, other)
    cure = f"publish {image} --name Toy --version 1.0 --readers {mine}"
    for words in (("verify",), ("verify", "--fix-modes")):
        done = site.hpcmod("catalogue", *words)
        assert (done.returncode, f"hpcmod {cure}" in " ".join(done.stdout.split())) == (1, True), done.stdout
    site.does(*cure.split(), "--no-slurm")
    assert (image.stat().st_mode & 0o777, image.stat().st_gid) == (0o640, os.getegid())
    assert "fail" not in site.does("catalogue", "verify").stdout
    site.does("catalogue", "undo")  # of the publication: the image stays restricted until gc removes it
    assert "fail" not in site.does("catalogue", "verify", "--fix-modes").stdout
    assert image.stat().st_mode & 0o777 == 0o640
    site.does("catalogue", "gc", "--days", "0")
    assert not image.exists()


def test_an_undo_closes_what_it_brings_back(lmod: ModuleTool, tiny_sif: Path, tmp_path: Path) -> None:
    site = make_site(lmod, tmp_path)
    site.published(tiny_sif, "1.0", "--readers", grp.getgrgid(os.getegid()).gr_name)
    site.does("catalogue", "undo")
    assert site.publish(tiny_sif, "1.0", "--check", "false").returncode == 1
    site.does("catalogue", "undo", "2")
    for image in (site.catalogue / "images/Toy-1.0.sif", site.catalogue / "software/Toy/1.0/Toy-1.0.sif"):
        assert image.stat().st_mode & 0o777 == 0o640


def test_undoing_a_restriction_opens_the_image_again(lmod: ModuleTool, tiny_sif: Path, tmp_path: Path) -> None:
    """Run with one module tool only, as no module is loaded."""
    site, group = make_site(lmod, tmp_path), grp.getgrgid(os.getegid()).gr_name
    site.published(tiny_sif, "1.0")
    image = site.catalogue / "images/Toy-1.0.sif"
    open_mode = image.stat().st_mode
    again = ("publish", str(tiny_sif), "--name", "Toy", "--version", "1.0", "--readers", group)
    for _ in range(2):
        assert f"\nhpcmod: readers: {group}\n" in site.does(*again).stderr
    assert image.stat().st_mode & 0o777 == 0o640
    site.does("catalogue", "undo")
    assert (image.stat().st_mode & 0o077, site.record("1.0").get("readers", "")) == (open_mode & 0o077, "")
    site.does("catalogue", "undo", "3")
    assert (image.stat().st_mode & 0o777, site.record("1.0")["readers"]) == (0o640, group)
    journal = [line.split("  ", 2)[2] for line in site.does("catalogue", "journal").stdout.splitlines()]
    changes = [line.partition(", by ")[0].strip() for line in journal]
    assert changes == [
        "publish Toy/1.0",
        f"restrict Toy/1.0, readers: {group}",
        "undo restrict Toy/1.0, readers: none (reverts 2)",
        f"undo undo restrict Toy/1.0, readers: {group} (reverts 3)",
    ]

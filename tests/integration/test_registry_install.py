"""From an image in a registry to `module load` through the real `eb`, with and without a container runtime."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hpcmod.images.sif.reader import read_sif
from tests.integration.conftest import write_easyconfig, write_site
from tests.integration.publishing import make_site
from tests.oci_corpus import Member, d, f, tar_bytes
from tests.registry import Registry, run_registry
from tests.signatures import make_key, push_signature
from tests.stack import Done, EasyBuild, ModuleTool, Stack, run

pytestmark = pytest.mark.stack

GONE = ("apptainer", "singularity", "mksquashfs", "unsquashfs", "tar2sqfs", "docker", "podman")


@pytest.fixture(scope="module")
def own_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry used by this file only, whose log shows all requests."""
    if not shutil.which("docker-registry"):
        pytest.skip("no docker-registry: run dev/stack registry")
    with run_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@dataclass(frozen=True)
class Image:
    """An image in the registry."""

    reference: str
    digest: str
    file_name: str


def programs(*names: str) -> list[Member]:
    """Return layer members for programs of this machine and the libraries they load."""
    files = [Path("/bin", name) for name in names]
    listed = run(["ldd", *map(str, files)], os.environ).stdout
    libraries = {Path(found) for found in re.findall(r"(/\S+) \(0x", listed)}
    return [f(str(path)[1:], path.read_bytes(), 0o755) for path in sorted({*files, *libraries})]


@pytest.fixture(scope="module")
def image(own_registry: Registry) -> Image:
    """A small image that can be started."""
    top = tar_bytes([d("etc"), f("etc/motd", "from the registry\n")])
    layers = [tar_bytes(programs("sh", "true", "cat")), top]
    digest = own_registry.push_image("lab/toy", layers, Env=["PATH=/bin", "GREETING=hello"])["digest"]
    return Image(f"docker://{own_registry.host}/lab/toy@{digest}", digest, f"toy-sha256-{digest[7:23]}.sif")


def path_without(directory: Path, path: str, names: tuple[str, ...]) -> str:
    """Return a PATH with everything except these programs."""
    directory.mkdir()
    for place in reversed(path.split(os.pathsep)):
        for program in Path(place).iterdir() if os.access(place, os.R_OK) else ():
            here = directory / program.name
            here.unlink(missing_ok=True)
            if program.name not in names:
                here.symlink_to(program)
    return str(directory)


def written_easyconfig(tmp_path: Path, **parameters: object) -> Path:
    place = tmp_path / "recipes"
    place.mkdir(exist_ok=True)
    return write_easyconfig(place, **{"download_instructions": "none", **parameters})


def record(eb: EasyBuild) -> Mapping[str, object]:
    (path,) = (eb.prefix / "software" / "Toy").glob("*/record.json")
    found: Mapping[str, object] = json.loads(path.read_text())
    return found


def succeeded(done: Done) -> str:
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("runtime", ["with Apptainer", "without"])
def test_an_image_of_a_registry_becomes_a_module_that_loads(
    stack: Stack, eb: EasyBuild, lmod: ModuleTool, image: Image, tmp_path: Path, runtime: str
) -> None:
    path = stack.environment(tmp_path)["PATH"]
    env = {} if runtime == "with Apptainer" else {"PATH": path_without(tmp_path / "bin", path, GONE)}
    easyconfig = written_easyconfig(tmp_path, sources=[image.reference], checksums=[None])
    said = succeeded(eb(easyconfig, "--enforce-checksums", **env))
    assert ("No container runtime on this machine" in said) == (runtime == "without")
    source = eb.prefix / "sources" / "t" / "Toy" / image.file_name
    own = eb.prefix / "software" / "Toy" / "1.0" / image.file_name
    assert own.samefile(source)
    found = record(eb)
    provenance = found["provenance"]
    assert isinstance(provenance, dict)
    assert (provenance["reference"], provenance["digest"]) == (image.reference, image.digest)
    assert provenance["sha256"] == hashlib.sha256(own.read_bytes()).hexdigest()
    assert isinstance(found["image"], dict)
    assert found["image"]["method"] == "hardlink"
    shown = lmod('module load Toy; echo $SIF; apptainer exec "$SIF" cat /etc/motd', eb.modules)
    assert shown.stdout.splitlines() == [str(own), "from the registry"], shown.stderr


def test_fetch_stops_after_the_image_and_the_installation_needs_no_network_then(
    eb: EasyBuild, own_registry: Registry, image: Image, tmp_path: Path
) -> None:
    easyconfig = written_easyconfig(tmp_path, sources=[image.reference], install_mode="copy")
    succeeded(eb(easyconfig, "--fetch"))
    source = eb.prefix / "sources" / "t" / "Toy" / image.file_name
    assert read_sif(source).architecture == "amd64"
    assert list((eb.prefix / "software" / "Toy").glob("*/*.sif")) == []
    asked = len((own_registry.directory / "log").read_bytes())
    succeeded(eb(easyconfig, https_proxy="http://127.0.0.1:9", http_proxy="http://127.0.0.1:9"))
    assert len((own_registry.directory / "log").read_bytes()) == asked
    assert not (eb.prefix / "software" / "Toy" / "1.0" / image.file_name).samefile(source), "an explicit copy"


def test_one_command_makes_a_module_of_an_image_and_leaves_an_easyconfig(
    eb: EasyBuild, lmod: ModuleTool, own_registry: Registry, image: Image, tmp_path: Path
) -> None:
    shop = tmp_path / "shop"
    tagged = image.reference.partition("@")[0] + ":1"

    def call(*words: str) -> Done:
        done = eb.hpcmod(*words, HPCMOD_SITE="generic", HPCMOD_CATALOGUE=str(shop))
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    load = call("install", tagged).stdout.splitlines()[-1]
    shown = lmod(f'{load}; apptainer exec "$SIF" cat /etc/motd')
    assert shown.stdout.splitlines() == ["from the registry"], shown.stderr
    easyconfig = eb.prefix / "sources/t/toy/toy-1.eb"
    assert image.digest in easyconfig.read_text()
    succeeded(eb(easyconfig, "--rebuild", "--enforce-checksums"))
    call("catalogue", "init", str(shop))
    assert call("publish", str(easyconfig)).stdout.splitlines()[-1] == "toy/1"
    call("bundle", "export", "b.tar", str(easyconfig))
    assert f"rm {easyconfig.with_suffix('.sif')}*" in call("remove", "toy/1").stderr
    asked = len((own_registry.directory / "log").read_bytes())
    assert call("exec", str(easyconfig.with_suffix(".sif")), "cat", "/etc/motd").stdout == "from the registry\n"
    assert len((own_registry.directory / "log").read_bytes()) == asked
    call("install", tagged)
    assert call("exec", tagged, "cat", "/etc/motd").stdout == "from the registry\n"


def test_an_own_easyconfig_with_a_digest_is_updated(
    eb: EasyBuild, image: Image, tmp_path: Path, own_registry: Registry
) -> None:
    succeeded(eb(written_easyconfig(tmp_path, sources=[image.reference])))
    shutil.rmtree(eb.prefix / "sources")
    sif = eb.prefix / "software/Toy/1.0" / image.file_name
    log = own_registry.directory / "log"
    before, asked = sif.stat(), log.stat().st_size
    (sif.parent / "bin/apptainer").unlink()
    for words in (["update", "Toy"], ["update", "--all"]):
        done = eb.hpcmod(*words, HPCMOD_SITE="generic")
        assert done.returncode == 0, done.stdout + done.stderr
    assert (sif.parent / "bin/apptainer").is_file()
    assert (sif.stat().st_ino, sif.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert log.stat().st_size == asked


def test_a_dry_run_fetches_nothing_and_lists_missing_files(
    eb: EasyBuild, own_registry: Registry, image: Image, tmp_path: Path
) -> None:
    asked = len((own_registry.directory / "log").read_bytes())
    said = succeeded(eb(written_easyconfig(tmp_path, sources=[image.reference]), "-x"))
    assert f"{image.reference} (MISSING)" in said
    assert len((own_registry.directory / "log").read_bytes()) == asked
    assert not (eb.prefix / "sources").exists()


@pytest.mark.parametrize("form", ["image", "source_urls"])
def test_the_image_may_be_a_parameter_or_stand_in_source_urls(
    eb: EasyBuild, image: Image, tmp_path: Path, form: str
) -> None:
    named: dict[str, object] = {"image": image.reference, "sources": []}
    if form == "source_urls":
        named = {"sources": [{"filename": "mine.sif", "source_urls": [image.reference]}]}
    succeeded(eb(written_easyconfig(tmp_path, **named), "--fetch", "--enforce-checksums"))
    (fetched,) = (eb.prefix / "sources" / "t" / "Toy").glob("*.sif")
    assert fetched.name == (image.file_name if form == "image" else "mine.sif")


def test_a_tag_alone_is_not_a_checksum(eb: EasyBuild, image: Image, tmp_path: Path) -> None:
    tagged = image.reference.partition("@")[0] + ":1"
    easyconfig = written_easyconfig(tmp_path, sources=[tagged])
    done = eb(easyconfig, "--fetch", "--enforce-checksums")
    assert done.returncode != 0
    assert "Missing checksum" in done.stdout
    succeeded(eb(easyconfig, "--fetch"))


def test_checksums_are_injected_and_then_hold(eb: EasyBuild, image: Image, tmp_path: Path) -> None:
    easyconfig = written_easyconfig(tmp_path, image=image.reference, sources=[])
    succeeded(eb(easyconfig, "--inject-checksums"))
    (source,) = (eb.prefix / "sources" / "t" / "Toy").glob("*.sif")
    assert hashlib.sha256(source.read_bytes()).hexdigest() in easyconfig.read_text()
    succeeded(eb(easyconfig))
    easyconfig.write_text(easyconfig.read_text().replace(hashlib.sha256(source.read_bytes()).hexdigest(), "0" * 64))
    assert eb(easyconfig, "--rebuild").returncode != 0


def test_an_image_that_was_changed_in_the_source_path_is_not_installed(
    eb: EasyBuild, image: Image, tmp_path: Path
) -> None:
    easyconfig = written_easyconfig(tmp_path, sources=[image.reference])
    succeeded(eb(easyconfig, "--fetch"))
    (source,) = (eb.prefix / "sources" / "t" / "Toy").glob("*.sif")
    data = bytearray(source.read_bytes())
    data[-1] ^= 1
    source.write_bytes(data)
    done = eb(easyconfig)
    assert done.returncode != 0
    assert "expected" in done.stdout
    assert list((eb.modules / "Toy").glob("*.lua")) == []


def test_the_sites_policy_holds_for_eb(
    stack: Stack, eb: EasyBuild, own_registry: Registry, image: Image, tmp_path: Path
) -> None:
    key, other = make_key(tmp_path, "key"), make_key(tmp_path, "other")
    site = write_site(tmp_path, f'[trust]\nneeds = ["signature"]\nkeys = ["{key.public_file}"]\n')
    eb = replace(eb, variables={"HPCMOD_SITE": str(site)})
    easyconfig = written_easyconfig(tmp_path, sources=[image.reference])
    refused = eb(easyconfig)
    assert (refused.returncode, "not signed" in refused.stdout) == (9, True), refused.stdout
    push_signature(own_registry, "lab/toy", image.digest, other)
    assert eb(easyconfig).returncode == 10
    push_signature(own_registry, "lab/toy", image.digest, key)
    succeeded(eb(easyconfig))
    provenance = record(eb)["provenance"]
    assert isinstance(provenance, dict)
    assert provenance["verified"] == [f"signature: {key.public_file}"]


def test_the_installed_file_is_the_one_whose_signature_was_checked(
    stack: Stack, eb: EasyBuild, image: Image, tmp_path: Path
) -> None:
    succeeded(eb(written_easyconfig(tmp_path, sources=[image.reference]), "--fetch"))
    (unsigned,) = (eb.prefix / "sources" / "t" / "Toy").glob("*.sif")
    key, signed = make_key(tmp_path, "key"), tmp_path / "signed.sif"
    shutil.copy(unsigned, signed)
    env = stack.environment(tmp_path)
    done = run([str(stack.apptainer), "sign", "--key", str(key.private_file), str(signed)], env)
    assert done.returncode == 0, done.stderr
    site = write_site(tmp_path, f'[trust]\nneeds = ["signature"]\nkeys = ["{key.public_file}"]\n')
    eb = replace(eb, variables={"HPCMOD_SITE": str(site)})
    easyconfig = written_easyconfig(tmp_path, sources=[str(signed)])
    exchanging = tmp_path / "exchanging" / "apptainer"  # the real one, then swaps the verified file
    exchanging.parent.mkdir()
    exchanging.write_text(
        f'#!/bin/sh\n{stack.apptainer} "$@" || exit\nif [ "$1" = verify ]; then cp {unsigned} {signed}; fi\n'
    )
    exchanging.chmod(0o755)
    kept = signed.read_bytes()
    refused = eb(easyconfig, PATH=f"{exchanging.parent}:{env['PATH']}")
    assert (refused.returncode, "not signed" in refused.stdout) == (9, True), refused.stdout
    assert list((eb.prefix / "software").glob("Toy/*/*.sif")) == []
    signed.write_bytes(kept)
    succeeded(eb(easyconfig))


def test_a_bundle_takes_an_image_to_a_machine_without_a_network(
    eb: EasyBuild, own_registry: Registry, image: Image, tmp_path: Path
) -> None:
    easyconfig = written_easyconfig(tmp_path, sources=[image.reference])
    made = eb.hpcmod("bundle", "export", tmp_path / "toy.tar", easyconfig)
    assert made.returncode == 0, made.stderr
    asked = len((own_registry.directory / "log").read_bytes())
    came = eb.hpcmod("bundle", "import", tmp_path / "toy.tar")
    assert came.returncode == 0, came.stderr
    succeeded(eb(came.stdout.splitlines()[0]))
    assert len((own_registry.directory / "log").read_bytes()) == asked


def test_an_image_of_a_registry_is_published_with_its_digest_and_others_can_get_it_there(
    lmod: ModuleTool, tmp_path: Path, image: Image
) -> None:
    site = make_site(lmod, tmp_path)
    site.does("publish", image.reference, "--name", "Toy", "--version", "1.0", "--no-slurm", "--alias", "stable")
    assert site.record("1.0")["reference"] == image.reference
    assert site.user("module load Toy/stable && singularity exec $SIF cat /etc/motd").stdout == "from the registry\n"
    easyconfig = shutil.copy(site.catalogue / "easyconfigs/t/Toy/Toy-1.0.eb", site.top)
    elsewhere = {"EASYBUILD_PREFIX": str(site.top / "elsewhere"), "EASYBUILD_MODULE_NAMING_SCHEME": "EasyBuildMNS"}
    site.does("install", easyconfig, **elsewhere)
    theirs = site.top / "elsewhere/software/Toy/1.0/Toy-1.0.sif"
    assert theirs.read_bytes() == (site.catalogue / "images/Toy-1.0.sif").read_bytes()

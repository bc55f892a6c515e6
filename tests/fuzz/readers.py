"""All readers of external input; those of a room that can be removed are with its tests, in readers.py."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path

import zstandard

from hpcmod.catalogue.bundle import read_bundle, write_bundle
from hpcmod.catalogue.records.index import INDEX as CATALOGUE_INDEX
from hpcmod.catalogue.records.index import PACKAGES, read_index, write_index
from hpcmod.catalogue.values.advisory_schema import parse_advisory
from hpcmod.catalogue.values.journal import Change, Edit, parse_change, render_change
from hpcmod.catalogue.values.record import CatalogueRecord, Check, ContainerContent, parse_record, record_json
from hpcmod.compat.values import netstack
from hpcmod.compat.values.elf import parse_elf
from hpcmod.compat.values.ld_cache import parse_ld_cache
from hpcmod.core.errors import BadInputError
from hpcmod.core.lock import read_holder
from hpcmod.core.resources import runscript_files
from hpcmod.core.values.facts import Package, Provenance, PythonFacts
from hpcmod.core.values.json_form import json_form
from hpcmod.core.values.reference import ImageReference
from hpcmod.images import Sif
from hpcmod.images.layers.decompress import Allowance, open_tar
from hpcmod.images.oci.image import Layer
from hpcmod.images.oci.layout import read_layout
from hpcmod.images.squashfs.reader import Squashfs
from hpcmod.images.trust.provenance import parse_provenance
from hpcmod.images.values.oci import choose_platform, parse_config, parse_manifest, parse_saved
from hpcmod.images.web.authorization import parse_challenges
from hpcmod.images.web.credentials import find_credentials
from hpcmod.jobs.values.facts import parse_job_facts
from hpcmod.machine.values.bind import parse_elements
from hpcmod.machine.values.node_gpus import parse_gpus
from hpcmod.machine.values.profile import parse_profile
from hpcmod.modules.values.easyconfig_text import read_named_image
from hpcmod.modules.values.install_record import InstalledImage, InstallRecord, OwnPackages, parse_install_record
from hpcmod.modules.values.install_record import render_install_record as render_installed
from tests.catalogues import make_catalogue
from tests.corpus import CONDA_TREE, Link, Program, make_image, make_sif, make_squashfs
from tests.elf_files import elf
from tests.fuzz.mutations import flip, mutate, mutate_tar, tar_headers
from tests.fuzz.reader import CHECKOUT, READERS, Reader, read_all, reader, text_of, texts
from tests.ld_cache import make_cache
from tests.oci_corpus import f, saved_files, tar_bytes, write_layout
from tests.unit.catalogue.values.test_advisory_schema import TEXT as ADVISORY
from tests.unit.images.tar_fuzz import try_image

if sys.version_info >= (3, 11):
    pass
else:
    pass

DIGEST = "sha256:" + "0123456789abcdef" * 4
SHA256 = "0" * 64
__all__ = ["READERS"]


# Image references and registry JSON

REFERENCES = (
    *("torch.sif", "./a/b.sif", "x.def", "https://u:p@host:8/a%20b.sif?k=v#f", "docker://h.io:5000/a/b_c/d.e--f:v1"),
    *(f"docker://[::1]:5/x:1@{DIGEST}", "oras://localhost/x", "docker-archive:a.tar:x/y:1"),
    *("oci:///a:b", "oci-archive:x", "docker-daemon:x:1", "file:///x", "dir:x"),
)
DESCRIPTOR = {"mediaType": "x/y", "digest": DIGEST, "size": 7, "annotations": {"a": "b"}}
PLATFORM = {"platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}}
MANIFEST = {"schemaVersion": 2, "config": DESCRIPTOR, "layers": [DESCRIPTOR] * 2, "artifactType": "t"}
INDEX = {"schemaVersion": 2, "manifests": [{**DESCRIPTOR, **PLATFORM}] * 2}
INNER = {"Env": ["A=b"], "Cmd": None, "Entrypoint": ["x"], "Labels": {"a": "b"}, "WorkingDir": "/", "User": "u"}
CONFIG = {
    "architecture": "amd64",
    "os": "linux",
    "created": "2024-05-06T07:08:09.5+01:00",
    "config": INNER,
    "rootfs": {"diff_ids": [DIGEST]},
}
SAVED = [{"Config": "c.json", "RepoTags": ["a:b"], "Layers": ["l.tar"]}]
PROVENANCE = {"version": 1, **json_form(Provenance("r", DIGEST, SHA256, 1, "", "", ("a: b",)))}
CHALLENGES = (
    b'Bearer realm="https://auth.example.org/token",service="registry",scope="repository:a/b:pull"',
    b'Basic realm="a \\"b\\"", Bearer realm="https://x/y"',
)
LOGINS = {
    "auths": {"https://host.example/v1/": {"auth": "dTpw"}, "host.example/a": {"identitytoken": "t"}},
    "credHelpers": {"other.example": "store"},
}


def _parse_reference(data: bytes) -> None:
    text = text_of(data)
    if str(ImageReference.parse(text)) != text:
        raise AssertionError("a reference is not printed unchanged")


def _parse_manifest(data: bytes) -> None:
    found = parse_manifest(data)
    if isinstance(found, tuple):
        choose_platform(found, "arm64")


texts("image reference", _parse_reference, [text.encode() for text in REFERENCES])
texts("OCI manifest", _parse_manifest, [json.dumps(value).encode() for value in (MANIFEST, INDEX)])
texts("OCI configuration", parse_config, [json.dumps(CONFIG).encode()])
texts("docker save manifest", parse_saved, [json.dumps(SAVED).encode()])
texts("WWW-Authenticate", lambda data: parse_challenges(data.decode("latin-1")), CHALLENGES)
texts("provenance", lambda data: parse_provenance(data, "x"), [json.dumps(PROVENANCE).encode()])


@reader("registry logins")
def _logins(directory: Path) -> Iterator[Reader]:
    path, seed = directory / "auth.json", json.dumps(LOGINS).encode()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        find_credentials("host.example", "a/b", env={"REGISTRY_AUTH_FILE": str(path), "PATH": ""}, home=directory)

    yield Reader(read, lambda dice: mutate(dice, seed))


# Easyconfigs

EASYCONFIG = "name = 'X'\nversion = '1'\nsources = [{'filename': '%(name)s.sif', 'source_urls': ['oras://h.io/x']}]\n"


texts("easyconfig", lambda data: read_named_image(text_of(data), "x.eb"), [EASYCONFIG.encode()])
# A site's files: profiles, build recipes, advisories, batch scripts

texts("site profile", lambda data: parse_profile(text_of(data), "x.toml"), read_all("src/hpcmod/machine/sites/*.toml"))
texts("bind list", lambda data: parse_elements(text_of(data)), [rb"/a,/b:/c:ro,/d\:e:/f,/g:/h:image-src=/\,ro"])
texts("advisory", lambda data: parse_advisory(text_of(data), "x.toml", "x"), [ADVISORY.encode()])


def _parse_gpus(data: bytes) -> None:
    for tool in ("nvidia-smi", "rocm-smi", "amd-smi"):
        parse_gpus({tool: text_of(data)})


texts("output of GPU tools", _parse_gpus, read_all("tests/unit/machine/values/outputs/[!R]*"))

# Files of a catalogue, which anyone in its group can write

RECORD = CatalogueRecord(
    name="PyTorch",
    version="2.7.1",
    module="PyTorch/2.7.1",
    sif="PyTorch-2.7.1.sif",
    sha256=SHA256,
    size=4096,
    content=ContainerContent(labels=(("a", "b"),), packages=(Package("torch", "2.7.1"),), commands=("python",)),
    aliases=("latest",),
    checks=(Check("true", True, "2026-11-21T00:00:00Z", SHA256, "slurm"),),
)
INSTALLED = InstallRecord(
    image=InstalledImage("/images/a.sif", SHA256, 4096),
    own_packages=OwnPackages("PyTorch", "t", "/v", PythonFacts("/p/bin/python", "3.12", "/p")),
    files=(("bin/python", SHA256),),
)
CHANGE = Change(1, "2026-11-21T00:00:00Z", "ada", "publish", "", (Edit("PyTorch", "2.7.1", None, {"name": "PyTorch"}),))

texts("installation record", parse_install_record, [render_installed(INSTALLED).encode()])
texts("catalogue record", parse_record, [record_json(RECORD).encode()])
texts("journal", lambda data: parse_change(data, "journal"), [render_change(CHANGE).encode()])


def _read_index_file(name: str, directory: Path) -> Iterator[Reader]:
    catalogue = make_catalogue(directory / "catalogue", RECORD)
    write_index(catalogue)
    path = catalogue.directory / name
    seed = path.read_bytes()

    def read(data: bytes) -> None:
        path.write_bytes(data)
        if not list(read_index(catalogue).find_packages(bool)):
            raise BadInputError("no packages")

    yield Reader(read, lambda dice: mutate(dice, seed))


for _name in (CATALOGUE_INDEX, PACKAGES):
    reader(f"{_name} of a catalogue")(partial(_read_index_file, _name))


@reader("lock")
def _lock(directory: Path) -> Iterator[Reader]:
    path = directory / "lock"
    seed = b'{"host": "h", "pid": 1, "started": "2@b", "user": "ada", "since": "2026-11-21 00:00:00"}'

    def read(data: bytes) -> None:
        path.write_bytes(data)
        holder = read_holder(path)
        if holder is not None:
            str(holder)
            holder.is_dead()

    yield Reader(read, lambda dice: mutate(dice, seed))


# Files of the host's network libraries

LIBRARY = netstack.CapturedLibrary(
    "liba.so.1",
    ("liba.so",),
    "/x/liba.so.1",
    "",
    "liba.so.1",
    (netstack.NeededVersion("libc.so.6", "GLIBC_2.34"),),
    ("A_1.2",),
)
CAPTURE = netstack.render_record(
    netstack.Capture(
        (netstack.Root("liba.so", "/x/liba.so"),),
        (LIBRARY,),
        ("libc.so.6",),
        (netstack.MissingLibrary("libb.so", "/x"),),
        ("w",),
        ("/l",),
    ),
    time="2026-11-21T00:00:00Z",
)
CACHE = make_cache([("a", "/a", 1), ("b", "/b", 2), ("c", "/c", 0)], old=2)
ELF_FILES = [
    elf("x.so", needs=[("a", "A")], defines=["X"], bits=bits, order=order) for bits in (32, 64) for order in "<>"
]

texts("record of a netstack", lambda data: netstack.parse_netstack(data, "x"), [CAPTURE.encode()])
texts("ld.so.cache", lambda data: parse_ld_cache(data), [CACHE])
texts("ELF", lambda data: parse_elf(lambda at, length: data[at : at + length], len(data)), ELF_FILES)

# SIF, squashfs, archives and layers


@reader("SIF")
def _sif(directory: Path) -> Iterator[Reader]:
    whole, path = make_sif(directory / "whole.sif").read_bytes(), directory / "changed.sif"
    places = [range(32, 128), range(4096, 4096 + 3 * 585), range(40_000)]

    def read(data: bytes) -> None:
        path.write_bytes(data)
        Sif(path).check("amd64")

    yield Reader(read, lambda dice: mutate(dice, whole, places))


@reader("contents of a SIF")
def _contents(directory: Path) -> Iterator[Reader]:
    # -noI -noD: uncompressed tables, so that a changed byte reaches the parsers after decompression
    images = [make_image(directory / f"{n}.sif", CONDA_TREE, *options) for n, options in enumerate(_TABLES)]
    seeds, path = [image.read_bytes() for image in images], directory / "changed.sif"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        Sif(path).facts()

    yield Reader(read, lambda dice: _flip_after(dice, dice.choice(seeds), 36864))


_TREE = {"/a/b": "text", "/a/c": "x" * 5000, "/a/d/e": "", "/f": Link("a/b"), "/g": Link("../a"), "/h": Program()}
_TABLES = (("-noI", "-noD", "-noF"), ("-comp", "gzip"), ("-comp", "zstd"))


def _flip_after(dice: random.Random, data: bytes, start: int) -> bytes:
    return data[:start] + flip(dice, data[start:])


@reader("squashfs")
def _squashfs(directory: Path) -> Iterator[Reader]:
    images = [make_squashfs(directory / str(n), _TREE, *options) for n, options in enumerate(_TABLES)]
    seeds, path = [image.read_bytes() for image in images], directory / "changed.squashfs"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with path.open("rb") as file:
            _read_tree(Squashfs(file, 0, len(data)))

    yield Reader(read, lambda dice: _change_image(dice, dice.choice(seeds)))


def _change_image(dice: random.Random, data: bytes) -> bytes:
    return mutate(dice, data, [range(96)]) if dice.random() < 0.3 else flip(dice, data)


def _read_tree(image: Squashfs) -> None:
    """Read everything in a small image, but at most a hundred names, because a mutated one may have cycles."""
    names = ["/"]
    for _ in range(100):
        if not names:
            return
        name = names.pop()
        inode = image.find(name, follow=False)
        if inode is not None and inode.kind == "directory":
            names += [f"{name.rstrip('/')}/{entry}" for entry in image.listdir(name)[:100]]
        elif inode is not None and inode.kind == "file":
            image.read_bytes(name, 1 << 20)


@reader("layers")
def _layers(_: Path) -> Iterator[Reader]:
    def read(data: bytes) -> None:
        if try_image(random.Random(data)) != "merged":  # noqa: S311
            raise BadInputError("refused")

    yield Reader(read, lambda dice: dice.randbytes(16))


@reader("compressed layer")
def _compressed(_: Path) -> Iterator[Reader]:
    plain = tar_bytes([f("a", b"x" * 5000), f("b", bytes(range(256)) * 20)])
    seeds = [gzip.compress(plain, mtime=0), zstandard.compress(plain), plain]

    def read(data: bytes) -> None:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        layer = Layer(digest, len(data), "", "", lambda: io.BytesIO(data))
        with open_tar(layer, Allowance(len(data), 1 << 20), on_read=lambda _: None) as blocks:
            for _ in blocks:
                pass

    yield Reader(read, lambda dice: flip(dice, dice.choice(seeds)))


def _archive(kind: str, directory: Path) -> Iterator[Reader]:
    layout = write_layout(directory / "layout", [tar_bytes([f("a")])], compression="none")
    files = {str(path.relative_to(layout)): path.read_bytes() for path in sorted(layout.rglob("*")) if path.is_file()}
    if kind == "docker-archive":
        files = saved_files("x:1", layers=[tar_bytes([f("a")])])
    whole = tar_bytes([f(name, data) for name, data in files.items()])
    headers, path = tar_headers(whole), directory / "changed.tar"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with read_layout(ImageReference.parse(f"{kind}:{path}"), architecture="amd64") as image:
            for layer in image.layers:
                with layer.open() as stream:
                    stream.read()

    yield Reader(read, lambda dice: mutate_tar(dice, whole, headers))


reader("OCI archive")(partial(_archive, "oci-archive"))
reader("archive of docker save")(partial(_archive, "docker-archive"))


@reader("bundle")
def _bundle(directory: Path) -> Iterator[Reader]:
    for name in ("a.eb", "a.sif"):
        (directory / name).write_text(name)
    write_bundle([directory / "a.eb", directory / "a.sif"], directory / "b.tar")
    whole = (directory / "b.tar").read_bytes()[:6144]
    headers, path, to = tar_headers(whole), directory / "changed.tar", directory / "to"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        try:
            read_bundle(path, to)
        finally:
            outside = {entry.name for entry in directory.iterdir()} - {"a.eb", "a.sif", "b.tar", "changed.tar", "to"}
            inside = {entry.name for entry in to.iterdir()} - {"a.eb", "a.sif"} if to.is_dir() else set()
            if outside or inside:
                raise AssertionError(f"a bundle wrote {outside | inside}")

    yield Reader(read, lambda dice: mutate_tar(dice, whole, headers))


# Node lists, which bash parses

HOST_LISTS = (b"nid[001-003,007],x1000c0s0b0n[0-1]", b"a,b,c[1,3]-ib[0-1]", b"node1.example.org", b"n[08-11]")
_SERVER = """
while IFS= read -r list; do
  first_host "$list" && printf '%s\\n' "$REPLY" || printf '!\\n'
done
"""


@reader("host list")
def _host_list(_: Path) -> Iterator[Reader]:
    templates = runscript_files()
    functions = templates["lib/common.bash"]
    bash = shutil.which("bash") or "bash"
    argv = [bash, "-c", f"set -uf\n{functions}\n{_SERVER}"]
    # in other locales `read` takes a newline as part of a truncated multibyte character
    env, pipe = {"LC_ALL": "C", "PATH": "/usr/bin:/bin"}, subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, env=env) as server:

        def read(data: bytes) -> None:
            if server.stdin is None or server.stdout is None:
                raise AssertionError("bash has no pipes")
            server.stdin.write(data.replace(b"\n", b" ").replace(b"\0", b"") + b"\n")
            server.stdin.flush()
            first = server.stdout.readline()
            if not first.endswith(b"\n"):
                raise AssertionError("bash exited")
            if first == b"!\n":
                raise BadInputError("not a host list")
            if not first.strip() or set(first.strip()) & set(b"[]*?$`,; "):
                raise AssertionError(f"the first host is {first!r}")

        yield Reader(read, lambda dice: mutate(dice, dice.choice(HOST_LISTS)))


FACTS = b"JobId=7 JobName=a\n   JobState=FAILED ExitCode=0:9 NumTasks=4\n   StdOut=/a b\n"
ACCOUNTED = b"7|a|FAILED|0:9||n[1-2]|1|2|4|/a\n7.0|b|FAILED|0:9|1K|n1|1||4|\n"
texts("facts of a job", lambda data: parse_job_facts(text_of(data), text_of(data)), [FACTS, ACCOUNTED])

# What only one room reads

for _path in sorted((CHECKOUT / "tests" / "unit").glob("*/readers.py")):
    import_module(f"tests.unit.{_path.parent.name}.readers")

"""What a stranger may have written, changed at random: each reader gives a value or our own error, and nothing else.

A few hundred inputs a reader; HPCMOD_THOROUGH=1 makes it 10^6 in all. A failure shows seed and input. The layers of
images have a fuzzer of their own: tests/unit/image/tar_fuzz.py.
"""

from __future__ import annotations

import json
import os
import random
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hpcmod.catalogue.foreign.lumi_eb import convert_easyconfig
from hpcmod.catalogue.foreign.ngc import convert_module
from hpcmod.catalogue.foreign.outcome import Converted
from hpcmod.catalogue.foreign.shpc import convert_recipe
from hpcmod.check.easyconfigs.lint import lint_recipe
from hpcmod.errors import HpcmodError
from hpcmod.image.bundle import read_bundle, write_bundle
from hpcmod.image.layout import read_layout
from hpcmod.image.provenance import parse_provenance
from hpcmod.image.sif import check_sif, read_sif
from hpcmod.model.container_yaml import parse_container_yaml
from hpcmod.model.easyconfig_text import read_named_image
from hpcmod.model.libraries.elf import parse_elf
from hpcmod.model.libraries.ld_cache import parse_ld_cache
from hpcmod.model.libraries.netstack import Capture, CapturedLibrary, Root, parse_record, render_record
from hpcmod.model.oci import choose_platform, parse_config, parse_manifest, parse_saved
from hpcmod.model.reference import ImageReference
from hpcmod.render.easyconfig import render_easyconfig
from tests.corpus import make_sif
from tests.elf_files import elf
from tests.foreign_recipes import LUMI, NGC, ODD_ALIASES, SAMTOOLS
from tests.ld_cache import make_cache
from tests.oci_corpus import f, tar_bytes, write_layout

EACH = 112_000 if os.environ.get("HPCMOD_THOROUGH") else 400
DIGEST = "sha256:" + "0123456789abcdef" * 4

REFERENCES = (
    *("torch.sif", "./a/b.sif", "x.def", "https://u:p@host:8/a%20b.sif?k=v#f", "docker://h.io:5000/a/b_c/d.e--f:v1"),
    *(f"docker://[::1]:5/x:1@{DIGEST}", "oras://localhost/x", "library://e/c/n:t,u", "docker-archive:a.tar:x/y:1"),
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
PROVENANCE = {"version": 1, "reference": "r", "digest": DIGEST, "sha256": "0" * 64, "size": 1, "vouched": ["a: b"]}
ELF_FILES = [
    elf("x.so", needs=[("a", "A")], defines=["X"], bits=bits, order=order) for bits in (32, 64) for order in "<>"
]
EASYCONFIG = "name = 'X'\nversion = '1'\nsources = [{'filename': '%(name)s.sif', 'source_urls': ['oras://h.io/x']}]\n"

_NEEDS = (("libc.so.6", "GLIBC_2.34"),)
_LIBRARY = CapturedLibrary("liba.so.1", ("liba.so",), "/x/liba.so.1", "", "liba.so.1", _NEEDS, ("A_1.2",))
NETSTACK = render_record(
    Capture((Root("liba.so", "/x/liba.so"),), (_LIBRARY,), ("libc.so.6",), (("libb.so", "/x"),), ("w",), ("/l",)),
    version="1",
    time="2026-11-21T00:00:00Z",
)
LD_CACHE = make_cache([("a", "/a", 1), ("b", "/b", 2), ("c", "/c", 0)], ("x86-64-v3", "x86-64-v4"), old=2)

ODD = (
    *(
        b"",
        b"\0",
        b"\xff",
        b"\n",
        b"/",
        b"..",
        b":",
        b"@",
        b"%",
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"\\ud800",
        b"-1",
        b"null",
    ),
    *(b"1e999", b"9" * 30, b"sha256:", b"://", b"oci:", "é".encode(), b" ", b"true", b"\\", b"'", b"#", b"(" * 50),
)
NUMBERS = tuple(
    struct.pack("<q", number) for number in (0, 1, -1, 48, 4096, 1 << 31, -(1 << 31), (1 << 63) - 1, -(1 << 63))
)


def changed(dice: random.Random, text: bytes, places: Sequence[range] = ()) -> bytes:
    """Change a text in one to four places: bytes put in, taken out, doubled or replaced."""
    data = bytearray(text)
    for _ in range(dice.randint(1, 4)):
        at = dice.choice(dice.choice(places)) if places else dice.randint(0, len(data))
        piece = dice.choice(NUMBERS) if places and dice.random() < 0.5 else dice.choice(ODD)
        length = len(piece) if places else dice.choice((0, 0, len(piece), dice.randint(0, 20)))
        data[at : at + length] = piece if dice.random() < 0.8 else data[at : at + dice.randint(0, 30)] * 2
    return bytes(data[: dice.randint(0, len(data))]) if dice.random() < 0.05 else bytes(data)


def text_of(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def parse_reference(data: bytes) -> None:
    text = text_of(data)
    assert str(ImageReference.parse(text)) == text


def parse_any_manifest(data: bytes) -> None:
    found = parse_manifest(data)
    if isinstance(found, tuple):
        choose_platform(found, "arm64")


def import_lumi(data: bytes) -> None:
    path = Path("x.eb")
    lint_recipe(text_of(data), path)
    render_easyconfig(convert_easyconfig(text_of(data), path).easyconfig)


def import_shpc(data: bytes) -> None:
    path = Path("/x/container.yaml")
    lint_recipe(text_of(data), path)
    for outcome in convert_recipe(parse_container_yaml(text_of(data), "x"), path):
        if isinstance(outcome, Converted):
            render_easyconfig(outcome.easyconfig)


def import_ngc(data: bytes) -> None:
    render_easyconfig(convert_module(text_of(data), Path("/x/pytorch/1.lua")).easyconfig)


READERS: dict[str, tuple[Callable[[bytes], object], Sequence[bytes]]] = {
    "reference": (parse_reference, [text.encode() for text in REFERENCES]),
    "manifest": (parse_any_manifest, [json.dumps(value).encode() for value in (MANIFEST, INDEX)]),
    "config": (parse_config, [json.dumps(CONFIG).encode()]),
    "saved": (parse_saved, [json.dumps(SAVED).encode()]),
    "netstack": (lambda data: parse_record(data, "x"), [NETSTACK.encode()]),
    "ld.so.cache": (lambda data: parse_ld_cache(data, ("x86-64-v3",)), [LD_CACHE]),
    "provenance": (lambda data: parse_provenance(data, "x"), [json.dumps(PROVENANCE).encode()]),
    "easyconfig": (lambda data: read_named_image(text_of(data), "x.eb"), [EASYCONFIG.encode()]),
    "elf": (lambda data: parse_elf(lambda at, length: data[at : at + length], len(data)), ELF_FILES),
    "recipe of LUMI": (import_lumi, [LUMI.encode()]),
    "recipe of shpc": (import_shpc, [SAMTOOLS.encode(), ODD_ALIASES.encode()]),
    "module of NGC": (import_ngc, [NGC.encode()]),
}


def fuzz(name: str, read: Callable[[bytes], object], make: Callable[[random.Random], bytes]) -> None:
    """Read what `make` makes, and show the input of a failure."""
    seed = int(time.time()) if EACH > 1000 else 1
    dice = random.Random(f"{name} {seed}")  # noqa: S311
    accepted = 0
    for number in range(EACH):
        data = make(dice)
        try:
            read(data)
            accepted += 1
        except HpcmodError as err:
            assert err.message, data
        except Exception as err:
            raise AssertionError(f"seed {seed}, input {number}: {data[:500]!r}") from err
    assert 0 < accepted < EACH


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", READERS)
@pytest.mark.slow
def test_no_text_raises_anything_but_our_own_error(name: str) -> None:
    read, seeds = READERS[name]
    fuzz(name, read, lambda dice: changed(dice, dice.choice(seeds)))


def test_no_sif_raises_anything_but_our_own_error(tmp_path: Path) -> None:
    whole = make_sif(tmp_path / "whole.sif").read_bytes()
    path = tmp_path / "changed.sif"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        check_sif(read_sif(path), architecture="amd64")

    fuzz("sif", read, lambda dice: changed(dice, whole, [range(32, 128), range(4096, 4096 + 3 * 585), range(40_000)]))


def heads_of(whole: bytes) -> list[range]:
    """The headers of a tar."""
    return [range(at, at + 512) for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar"]


def change_tar(dice: random.Random, whole: bytes, heads: list[range]) -> bytes:
    """Change a tar, mostly so that the sum of one header is right again."""
    data = bytearray(changed(dice, whole, [*heads, range(len(whole))]))
    head = dice.choice(heads)
    if dice.random() < 0.7 and len(data) >= head.stop:
        data[head.start + 148 : head.start + 156] = b" " * 8
        data[head.start + 148 : head.start + 156] = b"%06o\0 " % sum(data[head.start : head.stop])
    return bytes(data)


def test_no_archive_raises_anything_but_our_own_error(tmp_path: Path) -> None:
    layout = write_layout(tmp_path / "layout", [tar_bytes([f("a")])], compression="none")
    files = sorted(path for path in layout.rglob("*") if path.is_file())
    whole = tar_bytes([f(str(path.relative_to(layout)), path.read_bytes()) for path in files])
    heads, path = heads_of(whole), tmp_path / "changed.tar"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with read_layout(ImageReference.parse(f"oci-archive:{path}"), architecture="amd64") as image:
            for layer in image.layers:
                with layer.open() as stream:
                    stream.read()

    fuzz("archive", read, lambda dice: change_tar(dice, whole, heads))


@pytest.mark.slow
def test_no_bundle_raises_anything_but_our_own_error(tmp_path: Path) -> None:
    for name in ("a.eb", "a.sif"):
        (tmp_path / name).write_text(name)
    write_bundle([tmp_path / "a.eb", tmp_path / "a.sif"], tmp_path / "b.tar")
    whole = (tmp_path / "b.tar").read_bytes()[:6144]
    heads, path = heads_of(whole), tmp_path / "changed.tar"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        read_bundle(path, tmp_path / "to")

    fuzz("bundle", read, lambda dice: change_tar(dice, whole, heads))
    assert {path.name for path in tmp_path.iterdir()} == {"a.eb", "a.sif", "b.tar", "changed.tar", "to"}
    assert {path.name for path in (tmp_path / "to").iterdir()} <= {"a.eb", "a.sif"}

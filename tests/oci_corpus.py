"""Edge cases of OCI images, as data: one tiny image per case, and functions that write it as an OCI layout.

A case is a list of layers, bottom first; a layer is a list of members. `write_layout` makes a directory for
`oci:DIRECTORY`. Tar headers are written by hand, because tarfile cannot write half of what is found in the wild.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Union

import zstandard

NOON = 1_600_000_000
"""Default modification time of members, in seconds."""

FILE, HARD, LINK, CHAR, BLOCK, DIRECTORY, FIFO = b"0", b"1", b"2", b"3", b"4", b"5", b"6"


@dataclass(frozen=True)
class Member:
    """One tar entry."""

    name: bytes
    kind: bytes = FILE
    data: bytes = b""
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = NOON
    target: bytes = b""
    device: tuple[int, int] = (0, 0)
    pax: tuple[tuple[bytes, bytes], ...] = ()
    """Records of a pax extended header that precedes it."""
    gnu: bool = False
    """Write long names, and numbers that do not fit in octal, in GNU format."""
    size: int | None = None
    """Size in the header, if it differs from the length of the data."""
    form: bytes = b""
    """Complete header, for those that `header` cannot make."""


Entry = Union[Member, bytes]
"""A member, or raw bytes of the tar."""
LayerEntries = Sequence[Entry]


@dataclass(frozen=True)
class Case:
    """An image with one edge case."""

    layers: Sequence[LayerEntries]
    """Layers, bottom first."""
    config: Mapping[str, object] = field(default_factory=dict)
    """The `config` object of the image's configuration."""
    accepted: bool = True
    """Whether conversion must accept it; else it must refuse it."""


def one_layer(*entries: Entry, accepted: bool = True) -> Case:
    return Case([entries], accepted=accepted)


def f(name: str | bytes, data: str | bytes = "x", mode: int = 0o644, **more: object) -> Member:
    return Member(_bytes(name), FILE, _bytes(data), mode, **more)  # type: ignore[arg-type]


def d(name: str | bytes, mode: int = 0o755, **more: object) -> Member:
    return Member(_bytes(name) + b"/", DIRECTORY, mode=mode, **more)  # type: ignore[arg-type]


def link(name: str | bytes, target: str | bytes, **more: object) -> Member:
    return Member(_bytes(name), LINK, mode=0o777, target=_bytes(target), **more)  # type: ignore[arg-type]


def hard(name: str | bytes, target: str | bytes, **more: object) -> Member:
    return Member(_bytes(name), HARD, target=_bytes(target), **more)  # type: ignore[arg-type]


def node(name: str, kind: bytes, mode: int = 0o644, device: tuple[int, int] = (0, 0)) -> Member:
    return Member(_bytes(name), kind, mode=mode, device=device)


def gone(name: str) -> Member:
    """Delete a name with a whiteout."""
    directory, _, last = name.rpartition("/")
    return f(f"{directory}/.wh.{last}" if directory else f".wh.{last}", "")


def opaque(name: str) -> Member:
    """Hide everything that lower layers have in a directory (opaque whiteout)."""
    return f(f"{name}/.wh..wh..opq", "")


def header(member: Member, size: int) -> bytes:
    """Make the 512-byte header of a member."""
    magic = b"ustar  \0" if member.gnu else b"ustar\x0000"
    fields = (
        *(member.name[:100], _octal(member.mode, 8), _number(member, member.uid, 8), _number(member, member.gid, 8)),
        *(_number(member, size, 12), _number(member, member.mtime, 12), b" " * 8, member.kind, member.target[:100]),
        *(magic, b"", b"", _octal(member.device[0], 8), _octal(member.device[1], 8), b""),
    )
    return sealed(struct.pack("100s8s8s8s12s12s8s1s100s8s32s32s8s8s167s", *fields))


def sealed(block: bytes) -> bytes:
    """Write the checksum into a header."""
    block = block[:148] + b" " * 8 + block[156:]
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def tar_bytes(entries: Iterable[Entry]) -> bytes:
    """Make a tar archive of entries."""
    return b"".join(each if isinstance(each, bytes) else _member_bytes(each) for each in entries) + bytes(1024)


def _member_bytes(member: Member) -> bytes:
    size = len(member.data) if member.size is None else member.size
    before = b"".join(_before(member))
    return before + (member.form or header(member, size)) + padded(member.data)


def _before(member: Member) -> Iterable[bytes]:
    records = dict(member.pax)
    if member.gnu:
        for kind, text in ((b"L", member.name), (b"K", member.target)):
            if len(text) > 100:
                yield header(Member(b"././@LongLink", kind, gnu=True, mtime=0), len(text) + 1) + padded(text + b"\0")
    else:
        long = {b"path": member.name, b"linkpath": member.target}
        records = {**{key: text for key, text in long.items() if len(text) > 100}, **records}
    if records:
        data = b"".join(pax_record(key, value) for key, value in records.items())
        yield header(Member(b"PaxHeaders/x", b"x"), len(data)) + padded(data)


def pax_record(key: bytes, value: bytes) -> bytes:
    """Make one record of a pax header; its length includes itself."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length = len(b"%d" % length) + len(rest)
    return b"%d" % length + rest


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def _number(member: Member, value: int, width: int) -> bytes:
    if 0 <= value < 8 ** (width - 1):
        return _octal(value, width)
    number = (value + (1 << (8 * width))) % (1 << (8 * width))
    packed = bytearray(number.to_bytes(width, "big"))
    packed[0] |= 0x80
    return bytes(packed) if member.gnu or value < 0 or value >= 1 << 33 else _octal(0, width)


def _octal(value: int, width: int) -> bytes:
    return b"%0*o\0" % (width - 1, value)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


SPARSE = b"A" * 512 + bytes(8192) + b"B" * 512
"""Content of the sparse members in all formats; the two pieces of data are at offsets 0 and 8704."""


def old_gnu_sparse(name: str) -> Member:
    """Make a member in GNU's first format: the map is in the header."""
    plain = header(Member(_bytes(name), b"S", gnu=True), 1024)
    pieces = b"".join(_octal(number, 12) for number in (0, 512, 8704, 512))
    form = sealed(plain[:386] + pieces.ljust(96, b"\0") + b"\0" + _octal(len(SPARSE), 12) + plain[495:])
    return Member(_bytes(name), form=form, data=b"A" * 512 + b"B" * 512)


def pax_sparse_00(name: str) -> Member:
    """Make a member in PAX 0.0: each number of the map is a record, so keys repeat."""
    keys = ((b"size", b"9216"), (b"numblocks", b"2"), *((b"offset", b"0"), (b"numbytes", b"512")))
    data = b"".join(pax_record(b"GNU.sparse." + key, value) for key, value in keys)
    data += b"".join(pax_record(b"GNU.sparse." + k, v) for k, v in ((b"offset", b"8704"), (b"numbytes", b"512")))
    return Member(
        _bytes(name),
        data=b"A" * 512 + b"B" * 512,
        form=header(Member(b"PaxHeaders/x", b"x"), len(data)) + padded(data) + header(Member(_bytes(name)), 1024),
    )


def pax_sparse_01(name: str) -> Member:
    """Make a member in PAX 0.1: the map is one record."""
    pax = ((b"GNU.sparse.size", b"9216"), (b"GNU.sparse.numblocks", b"2"), (b"GNU.sparse.map", b"0,512,8704,512"))
    named = (*pax, (b"GNU.sparse.name", _bytes(name)))
    return Member(b"GNUSparseFile.1/" + _bytes(name), pax=named, data=b"A" * 512 + b"B" * 512)


def pax_sparse_10(name: str) -> Member:
    """Make a member in PAX 1.0: the map precedes the data."""
    version = ((b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"))
    named = (*version, (b"GNU.sparse.name", _bytes(name)), (b"GNU.sparse.realsize", b"9216"))
    data = padded(b"2\n0\n512\n8704\n512\n") + b"A" * 512 + b"B" * 512
    return Member(b"GNUSparseFile.1/" + _bytes(name), pax=named, data=data)


LONG = "/".join(["a" * 200] * 30)
"""A path of 6,029 bytes, longer than Linux accepts in one call."""

CASES: dict[str, Case] = {
    "plain": Case(
        [[d("etc"), f("etc/motd", "hello"), d("bin"), f("bin/tool", "#!/bin/sh\n", 0o755), link("sh", "bin/tool")]]
    ),
    "hard-link": Case([[f("a", "one"), hard("b", "a"), d("sub"), hard("sub/c", "a")]]),
    "hard-link-original-deleted": Case([[f("a", "one"), hard("b", "a")], [gone("a")]]),
    "hard-link-original-replaced": Case([[f("a", "one"), hard("b", "a")], [f("a", "two")]]),
    "hard-link-to-lower-layer": Case([[f("a", "one")], [hard("b", "a")]]),
    "hard-link-to-lower-layer-then-deleted": Case([[f("a", "one")], [hard("b", "a")], [gone("a")]]),
    "hard-link-to-lower-layer-deleted-in-same-layer": Case([[f("a", "one")], [hard("b", "a"), gone("a")]]),
    "hard-link-to-lower-layer-replaced-in-same-layer": Case([[f("a", "one")], [hard("b", "a"), f("a", "two")]]),
    "hard-link-forward": Case([[hard("b", "a"), f("a", "one")]]),
    "hard-link-to-symlink": Case([[f("a", "one"), link("l", "a"), hard("h", "l")]]),
    "hard-link-through-symlink": Case([[d("real"), f("real/a", "one"), link("way", "real"), hard("h", "way/a")]]),
    "hard-link-to-deleted": Case([[f("a", "one")], [gone("a"), hard("b", "a")]], accepted=False),
    "hard-link-to-nothing": Case([[hard("b", "a")]], accepted=False),
    "hard-link-to-directory": Case([[d("a"), hard("b", "a")]], accepted=False),
    "hard-link-absolute": Case([[f("a", "one"), hard("b", "/a"), hard("c", "./a")]]),
    "directory-to-file": Case([[d("x"), f("x/y", "one")], [f("x", "two")]]),
    "directory-to-link": Case([[d("x"), f("x/y", "one"), d("z"), f("z/y", "two")], [link("x", "z")]]),
    "file-to-directory": Case([[f("x", "one")], [d("x"), f("x/y", "two")]]),
    "file-to-directory-implied": Case([[f("x", "one")], [f("x/y", "two")]]),
    "link-to-directory": Case([[d("z"), f("z/y", "one"), link("x", "z")], [d("x"), f("x/w", "two")]]),
    "link-kept-and-written-through": Case([[d("z"), f("z/y", "one"), link("x", "z")], [f("x/w", "two")]]),
    "link-absolute-written-through": Case(
        [[d("z"), f("z/y", "one"), link("x", "/z")], [f("x/w", "two"), f("x/y", "3")]]
    ),
    "link-upwards-stays-inside": Case([[d("a"), link("a/x", "../../../z"), d("z")], [f("a/x/w", "two")]]),
    "link-dangling-written-through": Case([[link("x", "z")], [f("x/w", "two")]]),
    "link-circle": Case([[link("x", "y"), link("y", "x")], [f("x/w", "two")]], accepted=False),
    "link-replaced-by-file": Case([[f("z", "one"), link("x", "z")], [f("x", "two")]]),
    "whiteout": Case([[d("x"), f("x/y", "one"), f("x/z", "two")], [gone("x/y")]]),
    "whiteout-directory": Case([[d("x"), f("x/y", "one"), d("x/s"), f("x/s/t", "1")], [gone("x")]]),
    "whiteout-then-entry": Case([[f("x", "one")], [gone("x"), f("x", "two")]]),
    "entry-then-whiteout": Case([[f("x", "one")], [f("x", "two"), gone("x")]]),
    "whiteout-then-directory": Case([[d("x"), f("x/old", "one")], [gone("x"), d("x"), f("x/new", "two")]]),
    "directory-then-whiteout": Case([[d("x"), f("x/old", "one")], [d("x"), f("x/new", "two"), gone("x")]]),
    "whiteout-of-nothing": Case([[f("a")], [gone("x"), gone("no/such")]]),
    "whiteout-through-link": Case([[d("z"), f("z/y", "one"), link("x", "z")], [gone("x/y")]]),
    "whiteout-of-link": Case([[d("z"), f("z/y", "one"), link("x", "z")], [gone("x")]]),
    "whiteout-two-layers-up": Case([[f("x", "one")], [f("x", "two")], [gone("x")]]),
    "whiteout-and-again": Case([[f("x", "one")], [gone("x")], [f("x", "three")]]),
    "opaque": Case([[d("x"), f("x/old", "one")], [d("x"), opaque("x"), f("x/new", "two")]]),
    "opaque-last": Case([[d("x"), f("x/old", "one")], [d("x"), f("x/new", "two"), opaque("x")]]),
    "opaque-deep": Case([[d("x"), d("x/s"), f("x/s/old", "1"), f("x/t", "1")], [f("x/s/new", "2"), opaque("x")]]),
    "opaque-on-link": Case([[d("z"), f("z/old", "one"), link("x", "z")], [opaque("x"), f("x/new", "two")]]),
    "opaque-alone": Case([[d("x"), f("x/old", "one")], [opaque("x")]]),
    "parents-missing": Case([[f("a/b/c/d", "one")]]),
    "parents-late": Case([[f("a/b", "one"), d("a", 0o700, mtime=NOON + 5)]]),
    "directory-metadata-lower": Case([[d("x", 0o711, mtime=NOON - 9), f("x/a")], [f("x/b", "two")]]),
    "directory-metadata-upper": Case([[d("x", 0o711, mtime=NOON - 9), f("x/a")], [d("x", 0o750, mtime=NOON + 9)]]),
    "root-metadata": Case([[d(".", 0o711, mtime=NOON + 7), f("a")]]),
    "twice": Case([[f("x", "one"), f("x", "two")]]),
    "twice-other-kind": Case([[f("x", "one"), d("x"), f("x/y", "1"), link("z", "x"), f("z", "two")]]),
    "twice-hard-linked": Case([[f("x", "one"), hard("y", "x"), f("x", "two"), hard("w", "x")]]),
    "devices": Case([[node("c", CHAR, 0o620, (5, 1)), node("b", BLOCK, 0o660, (259, 300)), node("p", FIFO, 0o600)]]),
    "special-modes": Case([[f("suid", "1", 0o4755), f("sgid", "1", 0o2755), d("sticky", 0o1777), d("sgid-d", 0o2775)]]),
    "modes-without-read": Case(
        [[f("none", "1", 0o000), f("w", "2", 0o200), d("shut", 0o000), f("shut/in", "3", 0o400), d("x", 0o111)]]
    ),
    "owners": one_layer(
        f("u", "1", uid=1000, gid=100),
        d("d", uid=33, gid=33),
        f("big", "2", uid=3_000_000, gid=3_000_001, gnu=True),
    ),
    "owners-names-long": Case([[f("u", "1", pax=((b"uid", b"4000000"), (b"gid", b"4000001")))]]),
    "xattrs": one_layer(
        f("x", "1", pax=((b"SCHILY.xattr.user.note", b"a\0b=c\n"), (b"SCHILY.xattr.user.other", b"2"))),
        d("d", pax=((b"SCHILY.xattr.user.dir", b"1"),)),
    ),
    "capabilities": one_layer(
        f(
            "ping",
            "1",
            0o755,
            pax=((b"SCHILY.xattr.security.capability", b"\1\0\0\2\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),),
        )
    ),
    "names": one_layer(
        *(f(b"\xff\xfe", "1"), f("n" * 255, "2"), f(" sp ace", "3"), f("new\nline", "4")),
        *(f("back\\slash", "5"), f("ünï", "6"), f("*?[", "7")),
    ),
    "names-ustar-prefix": one_layer(
        sealed(header(Member(b"c" * 90, mtime=NOON), 1)[:345] + (b"p" * 60).ljust(155, b"\0") + bytes(12))
        + padded(b"1")
    ),
    "names-pax-long": Case([[f("p/" + "q" * 150, "1"), link("l", "t" * 200), hard("h", "p/" + "q" * 150)]]),
    "names-gnu-long": Case(
        [[f("p/" + "q" * 150, "1", gnu=True), link("l", "t" * 200, gnu=True), hard("h", "p/" + "q" * 150, gnu=True)]]
    ),
    "names-beyond-path-max": Case([[f(LONG, "1")]], accepted=False),
    "names-long-path": Case([[f(LONG[:3800], "1")]]),
    "names-dotted": Case(
        [[f("./a", "1"), d("./b/"), f("b//c", "2"), f("./b/./d", "3"), f("/abs", "4"), f("b/../e", "5")]]
    ),
    "names-upwards": Case([[f("../../up", "1"), link("l", "../../../etc/passwd"), f("a/../../../b", "2")]]),
    "slash-after-file": Case([[replace(f("x/", "one"), kind=FILE)]]),
    "pax-over-header": Case(
        [[f("short", "1", pax=((b"path", b"real-name"), (b"mtime", b"1500000000.25"), (b"size", b"1")), mtime=1)]]
    ),
    "pax-global": Case([[header(Member(b"g", b"g"), 20) + padded(pax_record(b"comment", b"hi there")), f("a", "1")]]),
    "mtimes": one_layer(
        f("zero", "1", mtime=0),
        f("negative", "2", mtime=-5, gnu=True),
        f("fraction", "3", pax=((b"mtime", b"1234567890.987"),)),
        f("after-2038", "4", mtime=1 << 31),
        f("after-2106", "5", mtime=1 << 32, gnu=True),
    ),
    "sparse": Case([[pax_sparse_00("zero"), pax_sparse_01("one"), pax_sparse_10("ten"), f("after", "1")]]),
    "sparse-old": Case([[old_gnu_sparse("old")]], accepted=False),
    "holes": Case([[f("hole", bytes(300_000) + b"x" + bytes(300_000)), f("zeros", bytes(131072 * 3)), f("empty", "")]]),
    "sizes": one_layer(
        *(f(f"s{n}", b"ab" * (n // 2) + b"c" * (n % 2)) for n in (0, 1, 511, 512, 513, 131071, 131072, 131073, 400_000))
    ),
    "same-content": Case([[f("a", "q" * 200_000), f("b", "q" * 200_000)], [f("c", "q" * 200_000)]]),
    "empty-layer": Case([[f("a")], [], [f("b")]]),
    "empty-image": Case([[]]),
    "many-layers": Case([[f(f"f{n}", str(n)), f("same", str(n))] for n in range(30)]),
    "apptainers-places-taken": one_layer(
        f("proc", "no directory"),
        d("etc"),
        f("etc/hosts", "127.0.0.1", 0o400),
        link("etc/resolv.conf", "../run/r.conf"),
        f("environment", "mine"),
        link(".exec", "nowhere"),
        accepted=False,
    ),
    "apptainers-places-kept": one_layer(
        d("tmp", 0o1777),
        d("etc"),
        f("etc/hosts", "127.0.0.1", 0o400),
        f("environment", "mine"),
        link("var", "usr/var"),
        d("usr/var"),
    ),
    "own-singularity-d": one_layer(
        d(".singularity.d"),
        d(".singularity.d/env"),
        f(".singularity.d/env/20-mine.sh", "export MINE=1\n", 0o755),
        f(".singularity.d/runscript", "old", 0o700),
        f(".singularity.d/startscript", "old", 0o700),
    ),
    "configured": Case(
        [[f("a")]],
        {
            "Env": [
                *("PATH=/opt/bin:/bin", "A=1", "EMPTY=", "SPACE=a b  c", "NOVALUE"),
                *('QUOTE=it\'s "$HOME" `id` \\ !', "LINES=a\nb"),
            ],
            "Entrypoint": ["/bin/entry", "two words", "it's"],
            "Cmd": ["arg", "$HOME"],
            "WorkingDir": "/work",
            "User": "nobody",
            "Labels": {"org.opencontainers.image.title": 'it\'s "quoted" \u00e9 <&>', "b": "2", "a": "1"},
            "ExposedPorts": {"80/tcp": {}},
        },
    ),
}


def saved_files(*tags: str, layers: Sequence[bytes], architecture: str = "amd64") -> dict[str, bytes]:
    """Return the files of an archive as `docker save` wrote them up to version 24."""
    diff_ids = [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]
    config = json.dumps({"architecture": architecture, "os": "linux", "rootfs": {"diff_ids": diff_ids}}).encode()
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    listed = {"Config": f"{hashlib.sha256(config).hexdigest()}.json", "RepoTags": list(tags), "Layers": names}
    return {str(listed["Config"]): config, "manifest.json": json.dumps([listed]).encode(), **dict(zip(names, layers))}


def write_layout(
    directory: Path,
    layers: Sequence[bytes],
    *,
    config: Mapping[str, object] | None = None,
    tags: Sequence[str] = ("latest",),
    compression: str = "gzip",
) -> Path:
    """Write an OCI layout of layers (tars, bottom first) and return its directory."""
    (directory / "blobs" / "sha256").mkdir(parents=True)
    (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    suffix = {"none": "", "gzip": "+gzip", "zstd": "+zstd"}[compression]
    stored = [
        put(directory, pack(tar, compression), f"application/vnd.oci.image.layer.v1.tar{suffix}") for tar in layers
    ]
    image = {
        "created": "2024-05-06T07:08:09Z",
        "architecture": "amd64",
        "os": "linux",
        "config": dict(config or {}),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in layers]},
    }
    described = put(directory, json.dumps(image).encode(), "application/vnd.oci.image.config.v1+json")
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": kind, "config": described, "layers": stored}
    blob = put(directory, json.dumps(manifest).encode(), kind)
    entries = [{**blob, "annotations": {"org.opencontainers.image.ref.name": tag}} for tag in tags]
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": entries}))
    return directory


def put(directory: Path, data: bytes, media_type: str) -> dict[str, object]:
    """Store a blob in a layout and return its descriptor."""
    name = hashlib.sha256(data).hexdigest()
    (directory / "blobs" / "sha256" / name).write_bytes(data)
    return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(data)}


def pack(tar: bytes, compression: str) -> bytes:
    if compression == "gzip":
        return gzip.compress(tar, 1, mtime=0)
    return zstandard.compress(tar) if compression == "zstd" else tar


def write_case(directory: Path, case: Case, **options: object) -> Path:
    """Write the layout of a case."""
    return write_layout(directory, [tar_bytes(each) for each in case.layers], config=case.config, **options)  # type: ignore[arg-type]

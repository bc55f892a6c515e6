from __future__ import annotations

import re
from pathlib import Path

import pytest

from hpcmod.core.fs.checksums import file_sha256
from hpcmod.core.progress import ProgressLine
from tests.calls import Terminal, hpcmod
from tests.catalogues import make_catalogue, make_record
from tests.corpus import make_sif

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("image_places")]


def test_a_bundle_carries_an_easyconfig_and_its_image_and_needs_no_network_then(layout: Path, tmp_path: Path) -> None:
    place = tmp_path / "ec"
    place.mkdir()
    hpcmod("fetch", layout, "-o", place / "x.sif")
    (place / "X-1.eb").write_text("name = 'X'\nversion = '1'\nsources = ['x.sif']\n")
    named = f"name = 'Y'\nversion = '1'\nimage = 'oci:{layout}'\n"
    (place / "Y-1.eb").write_text(named)
    done = hpcmod("bundle", "export", "b.tar", place / "X-1.eb", place / "Y-1.eb")
    assert done.exit_code == 0, done.output
    imported = hpcmod("bundle", "import", "b.tar")
    assert imported.stdout.splitlines() == ["b/X-1.eb", "b/Y-1.eb", "b/x.sif", "b/layout.sif"]
    assert (tmp_path / "b" / "x.sif").read_bytes() == (place / "x.sif").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


@pytest.mark.parametrize("what", ["Toy", "Toy/1.0", "published easyconfig"])
def test_a_published_container_is_exported_with_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    catalogue = make_catalogue(tmp_path / "shop", make_record("Toy/1.0", sif="toy.sif"))
    for place in (catalogue.images, catalogue.easyconfigs_of("Toy")):
        place.mkdir(parents=True)
    make_sif(catalogue.images / "toy.sif")
    easyconfig = catalogue.easyconfigs_of("Toy") / "Toy-1.0.eb"
    easyconfig.write_text("name = 'Toy'\nversion = '1.0'\nsources = ['toy.sif']\n")
    monkeypatch.setenv("HPCMOD_CATALOGUE", str(catalogue.directory))
    done = hpcmod("bundle", "export", "b.tar", easyconfig if what == "published easyconfig" else what)
    assert done.exit_code == 0, done.output
    assert hpcmod("bundle", "import", "b.tar").stdout.splitlines() == ["b/Toy-1.0.eb", "b/toy.sif"]


def test_an_import_replaces_only_by_force(tmp_path: Path) -> None:
    make_sif(tmp_path / "x.sif")
    assert hpcmod("bundle", "export", "b.tar", "x.sif").exit_code == 0
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.sif").write_text("mine")
    assert hpcmod("bundle", "import", "b.tar").exit_code == 2
    assert (tmp_path / "b" / "x.sif").read_text() == "mine"
    assert hpcmod("bundle", "import", "--force", "b.tar").exit_code == 0
    assert (tmp_path / "b" / "x.sif").read_bytes() == (tmp_path / "x.sif").read_bytes()


@pytest.mark.parametrize("verb", ["export", "import"])
def test_a_bundle_shows_its_progress_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    make_sif(tmp_path / "x.sif")
    assert hpcmod("bundle", "export", "b.tar", "x.sif").stderr == ""
    terminal = Terminal()
    monkeypatch.setattr("hpcmod.catalogue.cli.bundle.ProgressLine", lambda label: ProgressLine(label, terminal))
    assert hpcmod("bundle", verb, *(["c.tar", "x.sif"] if verb == "export" else ["b.tar"])).exit_code == 0
    assert re.search(r"[bc]\.tar: .* 100 %.*\r\x1b\[K$", terminal.getvalue())


def test_an_interrupted_bundle_leaves_no_partial_files(
    layout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(ProgressLine, "__call__", interrupt)
    result = hpcmod("bundle", "export", "b.tar", f"oci:{layout}")
    assert (result.exit_code, "interrupted" in result.stderr) == (130, True), result.output
    assert sorted(tmp_path.iterdir()) == before


def test_a_bundle_does_not_overwrite_other_files_without_force(tmp_path: Path) -> None:
    make_sif(tmp_path / "x.sif")
    (tmp_path / "b.tar").write_text("mine")
    for out in ("x.sif", "b.tar"):
        result = hpcmod("bundle", "export", out, "x.sif")
        assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert "--force" in result.stderr
    assert (tmp_path / "b.tar").read_text() == "mine"
    assert hpcmod("bundle", "export", "--force", "b.tar", "x.sif").exit_code == 0
    assert hpcmod("bundle", "import", "b.tar").exit_code == 0


EASYCONFIGS = {
    "path.eb": b"name = 'X'\nversion = '1'\nimage = '/x.sif'\n",
    "missing.eb": b"name = 'X'\nsources = ['nowhere.sif']\n",
    "latin-1.eb": b"name = 'X'\nsources = ['\xe9.sif']\n",
}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("export", "b.tar", "path.eb"), 2, "refers to its image by a path"),
        (("export", "b.tar", "missing.eb"), 3, "nowhere.sif"),
        (("export", "b.tar", "latin-1.eb"), 2, "UTF-8"),
        (("export", "b.tar", "Nope"), 3, "Nope"),
        (("export", "b.tar", "none.eb"), 3, "none.eb: no such file"),
        (("export", "none/b.tar", "x.sif"), 3, "none: no such directory"),
        (("export", "--force", ".", "x.sif"), 2, "Give the bundle first"),
        (("import", "none.tar"), 3, "none.tar: no such file"),
        (("import", "."), 3, ".: no such file"),
        (("import", "x.sif"), 2, "x.sif: not a bundle"),
        (("import", "plain"), 2, "-o DIRECTORY"),
        (("import", "cut.tar"), 4, "truncated"),
    ],
)
def test_each_fault_has_its_code_and_says_what_to_do(
    tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    make_sif(tmp_path / "x.sif")
    assert hpcmod("bundle", "export", "plain", "x.sif").exit_code == 0
    (tmp_path / "cut.tar").write_bytes((tmp_path / "plain").read_bytes()[:20_000])
    for name, text in EASYCONFIGS.items():
        (tmp_path / name).write_bytes(text)
    done = hpcmod("bundle", *arguments)
    assert (done.exit_code, done.stdout, says in done.stderr) == (code, "", True), done.output
    assert len(done.stderr.splitlines()) >= 2
    assert not (tmp_path / "b.tar").exists()


def write_two(tmp_path: Path, *sums: str) -> None:
    make_sif(tmp_path / "x.sif")
    for number, checksum in enumerate(sums):
        (tmp_path / f"X-{number}.eb").write_text(f"name = 'X'\nsources = ['x.sif']\nchecksums = ['{checksum}']\n")


def test_an_image_that_two_easyconfigs_name_goes_in_once(tmp_path: Path) -> None:
    checksum = file_sha256(make_sif(tmp_path / "x.sif"))
    write_two(tmp_path, checksum, checksum)
    done = hpcmod("bundle", "export", "b.tar", "X-0.eb", "X-1.eb", "x.sif")
    assert done.exit_code == 0, done.output
    assert [Path(line).name for line in done.stdout.splitlines()] == ["X-0.eb", "x.sif", "X-1.eb"]


def test_two_easyconfigs_that_name_two_sums_for_one_image_are_refused(tmp_path: Path) -> None:
    write_two(tmp_path, "0" * 64, file_sha256(make_sif(tmp_path / "x.sif")))
    done = hpcmod("bundle", "export", "b.tar", "X-0.eb", "X-1.eb")
    assert (done.exit_code, "another easyconfig has 000" in done.stderr) == (4, True), done.output
    assert hpcmod("bundle", "export", "b.tar", "X-0.eb").exit_code == 4
    assert not (tmp_path / "b.tar").exists()

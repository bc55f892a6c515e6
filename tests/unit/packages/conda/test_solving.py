"""rattler's solver chooses and downloads conda packages from a local channel."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError, HpcmodError, LackingError, NotFoundError, RemoteError, VerificationError
from hpcmod.packages.conda.image import CondaImage
from hpcmod.packages.conda.solving import check_no_python, fetch_conda, import_rattler, solve_conda
from hpcmod.packages.values.conda import CondaPackage, CondaPart
from tests.conda_channel import index_channel, make_conda

pytestmark = pytest.mark.slow

PLAIN = CondaImage("linux-64", "2.31", ())


def record_of(name: str, version: str, **more: object) -> dict[str, object]:
    values = {"name": name, "version": version, "build": "h0_0", "build_number": 0, "subdir": "linux-64"}
    return {**values, "depends": [], "constrains": [], **more}


OF_CONDA = CondaImage("linux-64", "2.31", (record_of("python", "3.12.1"), record_of("zlib", "1.2")))


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("channel")
    for version in ("1.2", "1.3"):
        make_conda(path, "zlib", version, {f"lib/libz.so.{version}": "z"})
    make_conda(path, "python", "3.13.0", {"bin/python3.13": "x"})
    make_conda(path, "tool", "1.0", {"bin/tool": "x"}, depends=["zlib"], kind="tar.bz2")
    make_conda(path, "tool", "2.0", {"bin/tool": "x"}, depends=["zlib >=1.3"])
    make_conda(path, "new-glibc", "1.0", {"bin/new": "x"}, depends=["__glibc >=2.34"])
    make_conda(path, "for-cuda", "1.0", {"bin/cuda": "x"}, depends=["__cuda"])
    make_conda(path, "pure", "1.0", {"site-packages/pure.py": ""}, depends=["python >=3.9"], python=True)
    return index_channel(path)


def solve(tmp_path: Path, channel: str, *specs: str, image: CondaImage = PLAIN, **more: object) -> list[str]:
    part = replace(CondaPart(specs, (channel,)), **more)  # type: ignore[arg-type]
    return [f"{one.name} {one.version}" for one in solve_conda(part, image, tmp_path, module="Toy/1.0", cure="rebase")]


def test_dependencies_come_first_and_the_newest_that_fits_is_chosen(tmp_path: Path, channel: str) -> None:
    assert solve(tmp_path, channel, "tool") == ["zlib 1.3", "tool 2.0"]
    assert solve(tmp_path, channel, "tool=1") == ["zlib 1.3", "tool 1.0"]


def test_packages_of_a_conda_image_stay_and_are_not_installed_again(tmp_path: Path, channel: str) -> None:
    assert solve(tmp_path, channel, "tool", image=OF_CONDA) == ["tool 1.0"]  # 2.0 needs a newer zlib than the image's
    assert solve(tmp_path, channel, "pure", image=OF_CONDA) == ["pure 1.0"]
    assert solve(tmp_path, channel, "zlib", image=OF_CONDA) == []
    with pytest.raises(BadInputError, match=r"tool=2: does not fit Toy/1\.0 \(glibc 2\.31, 2 conda packages\)"):
        solve(tmp_path, channel, "tool=2", image=OF_CONDA)
    limited = replace(OF_CONDA, records=(*OF_CONDA.records, record_of("old", "1", constrains=["tool ==0"])))
    with pytest.raises(BadInputError, match="tool: does not fit"):
        solve(tmp_path, channel, "tool", image=limited)


def test_python_is_chosen_where_the_images_is_not_condas_and_can_be_refused(tmp_path: Path, channel: str) -> None:
    part = CondaPart(("pure",), (channel,))
    chosen = solve_conda(part, PLAIN, tmp_path, module="Toy/1.0", cure="")
    assert [one.name for one in chosen] == ["python", "pure"]
    with pytest.raises(BadInputError, match=r"pure: needs conda's Python, but the Python of Toy/1\.0 is not conda's"):
        check_no_python(chosen, part, module="Toy/1.0", cure="Use pip.")
    check_no_python(chosen[1:], part, module="Toy/1.0", cure="Use pip.")


def test_packages_from_before_keep_their_builds(tmp_path: Path, channel: str) -> None:
    before = CondaPackage("zlib", "1.2", "h0_0", "https://example.org/zlib-1.2-h0_0.conda", "a" * 64)
    assert solve(tmp_path, channel, "tool", packages=(before,)) == ["zlib 1.2", "tool 1.0"]


def test_packages_for_a_newer_glibc_or_for_cuda_do_not_fit(tmp_path: Path, channel: str) -> None:
    for spec, needed in (("new-glibc", "__glibc >=2.34"), ("for-cuda", "__cuda")):
        with pytest.raises(BadInputError, match=needed):
            solve(tmp_path, channel, spec)
    assert solve(tmp_path, channel, "new-glibc", image=replace(PLAIN, glibc="2.34")) == ["new-glibc 1.0"]


def test_the_version_of_cuda_can_be_given(tmp_path: Path, channel: str) -> None:
    part = CondaPart(("for-cuda",), (channel,))
    (one,) = solve_conda(part, PLAIN, tmp_path, module="Toy/1.0", cure="", cuda="12.4")
    assert one.name == "for-cuda"
    with pytest.raises(BadInputError, match="CONDA_OVERRIDE_CUDA=new!: not a version"):
        solve_conda(part, PLAIN, tmp_path, module="Toy/1.0", cure="", cuda="new!")


@pytest.mark.parametrize(
    ("spec", "where", "error"),
    [
        ("no-such", "", NotFoundError),
        ("elsewhere::no-such", "", NotFoundError),
        ("tool[", "", BadInputError),
        ("tool", "file:///no/such/channel", RemoteError),
        ("tool", "http://127.0.0.1:9/channel", RemoteError),
    ],
)
def test_errors_name_what_was_asked(
    tmp_path: Path, channel: str, spec: str, where: str, error: type[HpcmodError]
) -> None:
    with pytest.raises(error) as caught:
        solve(tmp_path, where or channel, spec)
    assert (spec if not where else "channel") in caught.value.message


def test_without_the_library_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rattler", None)
    with pytest.raises(LackingError, match="py-rattler") as caught:
        import_rattler()
    assert caught.value.cure == f"Install it: {sys.executable} -m pip install 'hpcmod[conda]'"
    monkeypatch.setattr("hpcmod.packages.conda.solving.sys.prefix", "/nonexistent/of-the-site")
    with pytest.raises(LackingError, match="py-rattler") as of_site:
        import_rattler()
    assert of_site.value.cure.startswith("Ask your site's support to add hpcmod[conda] to /nonexistent/of-the-site")


def test_a_file_with_another_checksum_or_a_missing_one_is_refused(tmp_path: Path) -> None:
    path = make_conda(tmp_path, "zlib", "1.3", {"lib/z": "z"})
    one = CondaPackage("zlib", "1.3", "h0_0", path.as_uri(), "a" * 64)
    with pytest.raises(VerificationError, match=f"expected sha256 {'a' * 64}, got "):
        fetch_conda([one], tmp_path / "1")
    (found,) = fetch_conda([replace(one, sha256="")], tmp_path / "2")
    assert len(found.package.sha256) == 64
    assert found.path.read_bytes() == path.read_bytes()
    with pytest.raises(NotFoundError, match="no such file"):
        fetch_conda([replace(one, url="file:///no/such/zlib-1.3-h0_0.conda")], tmp_path / "3")

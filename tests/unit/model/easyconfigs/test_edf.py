from __future__ import annotations

import pytest

from hpcmod.errors import BadInputError
from hpcmod.model.easyconfigs.edf import EdfText, make_edf
from tests.key_tables import RESULTS, read_results

HEAD = "easyblock = 'ContainerModule'\nname = 'tool'\nversion = '1.2'\ndescription = 'a tool'\ntoolchain = SYSTEM\n"
IMAGE = "image = 'docker://quay.io/org/tool:1.2'\n"
DIGEST = f"sha256:{'a' * 64}"


def made(text: str, *, image: str = "", head: str = HEAD + IMAGE) -> EdfText:
    return make_edf(head + text, "tool.eb", image=image)


SAMPLES = {
    "`name`": "",
    "`version`, `versionsuffix`": "",
    "... others": "version = '2'",
    "`description`": "",
    "`image`, `sources`: `docker://`": "",
    "... others: a SIF, `oras://`, `https://`": "image = 'oras://ghcr.io/a/b:1'",
    "`bind_paths`: `/SOURCE`, `/SOURCE:/DESTINATION`, `:ro`": "bind_paths = ['/a', '/a:/b', '/a:/c:ro']",
    "... `:image-src=/`": "bind_paths = ['/a.sqsh:/b:image-src=/']",
    "... with a pattern (`*`, `{uname_r}`), a colon or a comma in a path, other options": "bind_paths = ['/a*:/b']",
    "`environment`": "environment = {'A': 'b'}",
    "`netstack = 'off'`": "netstack = 'off'",
    "`netstack = 'swap'`": "netstack = 'swap'",
    "no `netstack`": "netstack = 'auto'",
    "the read-only image, and wrappers that run commands without the entry point": "",
    "`wrapped_commands`": "wrapped_commands = ['python']",
    "`user_packages`": "user_packages = ['einops']",
    "`modextravars`": "modextravars = {'A': 'b'}",
    "`sanity_check_commands`": "sanity_check_commands = ['python -V']",
    "`homepage`": "homepage = 'https://e.org'",
    "`easyblock`, `toolchain`, `moduleclass`, `site_profile`, `install_mode`, `checksums`, `sanity_check_paths`": (
        "moduleclass = 'ai'\nsite_profile = 'lumi'\ninstall_mode = 'copy'\nchecksums = [None]\n"
        "sanity_check_paths = {'files': ['x'], 'dirs': ['y']}"
    ),
    "run scripts, wrappers, your own packages; binds and variables of the site profile": "",
    "a value that EasyBuild would have to compute": "citing = open('x').read()",
    "other parameters": "citing = 'paper'",
}
"""For each row of the table in docs/reference/export-keys.md, lines of an easyconfig that it applies to."""

ROWS = read_results("export-keys.md", "Environment definition files (EDF) of CSCS")


def test_the_table_has_a_sample_for_every_row() -> None:
    assert [key for key, _ in ROWS] == list(SAMPLES)
    assert {result for _, result in ROWS} <= set(RESULTS)


@pytest.mark.parametrize(("key", "result"), ROWS)
def test_each_row_of_the_table_is_true(key: str, result: str) -> None:
    text = SAMPLES[key]
    if result == "refused":
        with pytest.raises(BadInputError):
            made(text)
        return
    if "netstack" in key:  # the three modes are mutually exclusive
        assert bool(made(text).changed) == (result == "changed")
        return
    plain, one = made("netstack = 'off'"), made(f"netstack = 'off'\n{text}")
    more = len(one.left_out) - len(plain.left_out), len(one.changed) - len(plain.changed)
    ours = key.startswith("run scripts")
    expected = {"carried": (0, 0), "changed": (0, 1), "not carried": (0 if ours else 1, 0)}[result]
    assert more == expected
    assert not ours or len(plain.left_out) == 2


def test_all_that_an_edf_can_have_is_carried() -> None:
    one = made(
        "bind_paths = ['/a', '/b:/c:ro', '/d:/e:rw', '/f.sqsh:/g:image-src=/']\nnetstack = 'off'\n"
        "environment = {'A': 'it\\'s \"b\"', 'T': '%%(name)s %(name)s'}\n"
    )
    assert one.image == "quay.io#org/tool:1.2"
    assert one.mounts == ("/a:/a", "/b:/c:ro", "/d:/e", "/f.sqsh:/g:sqsh")
    assert one.env == (("A", 'it\'s "b"'), ("T", "%(name)s tool"))
    assert one.annotations == (("com.hooks.cxi.enabled", "false"),)
    assert one.module == "tool/1.2"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("docker://docker.io/ubuntu:24.04", "docker.io#library/ubuntu:24.04"),
        (f"docker://nvcr.io/nvidia/pytorch@{DIGEST}", f"nvcr.io#nvidia/pytorch@{DIGEST}"),
        ("docker://localhost:5000/a:1", "localhost:5000#a:1"),
        ("/capstor/it's.sqsh", "/capstor/it's.sqsh"),
    ],
)
def test_the_image_can_be_another(image: str, expected: str) -> None:
    assert made("image = '/x/y.sif'\n", image=image).image == expected


@pytest.mark.parametrize(
    "text", ["image = '/x/y.sif'", "image = open('x').read()", "sources = ['x.sif']\nimage = None"]
)
def test_an_image_that_is_not_in_a_registry_is_refused(text: str) -> None:
    with pytest.raises(BadInputError) as caught:
        made(text)
    assert "--image docker://" in caught.value.cure


@pytest.mark.parametrize("image", ["x.sqsh", "oras://a.io/b:1", "/a/${USER}.sqsh", "a b"])
def test_an_image_that_the_engine_cannot_use_is_refused(image: str) -> None:
    with pytest.raises(BadInputError):
        made("", image=image)


def test_other_easyconfigs_are_refused() -> None:
    with pytest.raises(BadInputError, match="its easyblock is 'ConfigureMake'"):
        make_edf("easyblock = 'ConfigureMake'\nname = 'x'\n", "x.eb")


@pytest.mark.parametrize("bind", ["/a\\:b:/c", "/a$B:/c", "relative:/c", "/q:/q:id=3", "/a,/b"])
def test_a_bind_that_an_edf_cannot_have_is_named(bind: str) -> None:
    one = made(f"bind_paths = [{bind!r}]\n")
    assert one.mounts == ()
    assert bind in one.left_out[0]

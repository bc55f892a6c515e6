from __future__ import annotations

from pathlib import Path

import pytest

from hpcmod.core.errors import BadInputError
from hpcmod.importing.edf import convert_edf, import_edf
from hpcmod.importing.edf_files import EnvironmentFile
from hpcmod.importing.outcome import ImportedEasyconfig, Outcome, Refused
from hpcmod.machine.values.bind import Bind
from tests.foreign_recipes import A, write_edf


def convert(**values: object) -> ImportedEasyconfig:
    wanted = {"image": "ubuntu:24.04", "entrypoint": False, "writable": False, **values}
    return convert_edf(EnvironmentFile(**wanted), Path("/e/my-env.toml"))  # type: ignore[arg-type]


def imported(root: Path) -> dict[str, Outcome]:
    outcomes = import_edf([write_edf(root)], environ={}, working=root)
    return {Path(one.origin).name: one for one in outcomes}


def test_it_becomes_an_easyconfig_called_like_the_environment(tmp_path: Path) -> None:
    one = imported(tmp_path)["pytorch.toml"]
    assert isinstance(one, ImportedEasyconfig)
    easyconfig = one.easyconfig
    assert easyconfig.module == "pytorch/24.01-py3"
    assert easyconfig.image == "docker://nvcr.io/nvidia/pytorch:24.01-py3"
    assert easyconfig.bind_paths == ("/capstor/scratch", "/store/data.sqsh:/data:image-src=/", "/ro:/input:ro")
    assert easyconfig.environment == (("MODE", 'it\'s "quoted", %(name)s'), ("KEEP", "1"), ("UNSET", ""))


def test_all_that_is_lost_or_changed_is_named_with_what_to_do(tmp_path: Path) -> None:
    one = imported(tmp_path)["pytorch.toml"]
    assert isinstance(one, ImportedEasyconfig)
    lost, changed = "\n".join(one.left_out), "\n".join(one.changed)
    for text in (
        *("PATH", 'SINGULARITYENV_APPEND_PATH="/custom/bin"', 'SINGULARITYENV_NODE="${VAR_FROM_HOST}"', "OWNED"),
        *("mount ${SCRATCH}:${SCRATCH}: depends on ${SCRATCH}", "private of the mount /ro:/input:ro+private"),
        'SINGULARITY_BINDPATH="${SCRATCH}:${SCRATCH},${PWD}/here:/here"',
        *("com.hooks.ssh.enabled = true, com.hooks.ssh.authorize_ssh_key = /k", "hpcmod code"),
        *("example.org/thing=1", 'workdir ${SCRATCH}: singularity exec --pwd "${SCRATCH}"', "unknown key colour"),
    ):
        assert text in lost
    for text in (
        "UNSET is empty",
        "com.hooks.aws_ofi_nccl.variant = cuda12",
        "/dev/gdrdrv",
        "win over those of the file",
    ):
        assert text in changed


def test_others_are_refused_with_the_reason(tmp_path: Path) -> None:
    refused = {name: one.reason for name, one in imported(tmp_path).items() if isinstance(one, Refused)}
    assert set(refused) == {"common.toml", "squashfs.toml", "moving.toml", "broken.toml", "circle.toml"}
    assert "names no image" in refused["common.toml"]
    assert "hpcmod import sif" in refused["squashfs.toml"]
    assert "the tag latest" in refused["moving.toml"]
    assert "more than 10 levels" in refused["circle.toml"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("library/ubuntu:24.04", "docker://docker.io/library/ubuntu:24.04"),
        ("ubuntu:24.04", "docker://docker.io/library/ubuntu:24.04"),
        ("docker.io#library/ubuntu:24.04", "docker://docker.io/library/ubuntu:24.04"),
        ("quay.io#madeeks/osu-mb:6.2-mpich4.1", "docker://quay.io/madeeks/osu-mb:6.2-mpich4.1"),
        ("docker://quay.io#a/b:1", "docker://quay.io/a/b:1"),
        ("ghcr.io/sarus-suite/x/pyfr:2.1", "docker://ghcr.io/sarus-suite/x/pyfr:2.1"),
        (f"quay.io#a/b@{A}", f"docker://quay.io/a/b@{A}"),
        ("$oauthtoken@nvcr.io#a/b:1", None),
        ("me@nvcr.io#a/b:1", "docker://nvcr.io/a/b:1"),
    ],
)
def test_all_documented_forms_of_an_image_are_read(given: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(BadInputError, match="oauthtoken"):
            convert(image=given)
        return
    one = convert(image=given)
    assert one.easyconfig.image == expected
    assert any("user me" in text for text in one.left_out) == given.startswith("me@")


def test_a_digest_gives_the_version() -> None:
    assert convert(image=f"quay.io#a/b@{A}").easyconfig.version == "sha256-aaaaaaaa"
    assert convert(image=f"quay.io#a/b:latest@{A}").easyconfig.version == "latest-aaaaaaaa"


@pytest.mark.parametrize(
    "image", ["", "${USER}/x:1", "docker://", "a b", "x.io#UPPER:1", "a\nb:1", "/x.sqsh", "./x.sqsh"]
)
def test_refuses_an_image_that_is_not_in_a_registry(image: str) -> None:
    with pytest.raises(BadInputError):
        convert(image=image)


def test_a_squashfs_file_is_replaced_by_the_image_that_it_was_made_from(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text('image = "/x.sqsh"\nmounts = ["/a:/b"]\n')
    refusal, *_ = import_edf([tmp_path], environ={}, working=tmp_path)
    assert isinstance(refusal, Refused) and "--image docker://" in refusal.reason
    carried, *_ = import_edf([tmp_path], environ={}, working=tmp_path, image="docker://quay.io/a/b:2")
    assert isinstance(carried, ImportedEasyconfig)
    assert (carried.easyconfig.image, carried.easyconfig.bind_paths) == ("docker://quay.io/a/b:2", ("/a:/b",))
    assert "the image comes from the registry, not from the squashfs file: /x.sqsh" in carried.changed


def test_how_it_starts_is_reported_also_by_default() -> None:
    assert convert().left_out == ()
    lost = convert(entrypoint=None, writable=None).left_out
    assert [text.partition(":")[0] for text in lost] == [
        "the image's entry point, which runs by default",
        "a writable container, the default",
    ]
    assert len(convert(entrypoint=True, writable=True).left_out) == 2


def test_the_host_libraries_can_be_switched_off() -> None:
    off = convert(annotations=(("com.hooks.cxi.enabled", "false"),))
    assert (off.easyconfig.netstack, off.left_out, off.changed) == ("off", (), ())
    on = convert(annotations=(("com.hooks.cxi.enabled", "true"),))
    assert on.easyconfig.netstack == ""
    assert "com.hooks.cxi.enabled = true: the site profile" in on.changed[0]


def test_a_later_mount_hides_an_earlier_one() -> None:
    assert convert(mounts=("/a:/x", "/b:/y", "/c:/x")).easyconfig.bind_paths == ("/b:/y", "/c:/x")


@pytest.mark.parametrize(
    "mount",
    ["tmpfs:/x", "umount:/x", "a:b:c:d", "", "x", "/a*:/b", "/a:b", "a:/b", "/a\n:/b", "/{uname_r}:/b", "/a\\:/b"],
)
def test_a_mount_that_is_not_a_bind_is_reported(mount: str) -> None:
    one = convert(mounts=(mount,))
    assert one.easyconfig.bind_paths == ()
    assert len(one.left_out) == 1


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ("/a:/a", "/a"),
        ("/a", "/a"),
        ("/a:/b", "/a:/b"),
        ("/a:/a:ro", "/a:/a:ro"),
        ("/a:/b:rw+rbind,x-create=auto", "/a:/b"),
        ("/a.sqsh:/b:sqsh", "/a.sqsh:/b:image-src=/"),
        ("/a b,c:/e", r"/a b\,c:/e"),
    ],
)
def test_a_mount_becomes_a_bind(mount: str, expected: str) -> None:
    one = convert(mounts=(mount,))
    assert (one.easyconfig.bind_paths, one.left_out) == ((expected,), ())
    assert Bind.parse(expected).source == mount.partition(":")[0]


def test_flags_without_a_counterpart_are_named() -> None:
    one = convert(mounts=("/a:/b:ro+private+noexec",))
    assert one.easyconfig.bind_paths == ("/a:/b:ro",)
    assert one.left_out[0].startswith("private, noexec of the mount ")


def test_one_line_for_the_shell_has_all_mounts_of_the_user() -> None:
    lost = convert(mounts=("${A}:/a", "./c:/c:ro+private", "${D}/d.sqsh:/d:sqsh", "${E}:${E:-}")).left_out
    assert lost[-1].endswith(
        'export SINGULARITY_BINDPATH="${A}:/a,${PWD}/c:/c:ro,${D}/d.sqsh:/d:image-src=/,${E}:${E:-}"'
    )


def test_variables_that_an_easyconfig_can_set_are_carried() -> None:
    one = convert(env=(("A", "a b"), ("B", ""), ("SIF", "x"), ("D-E", "x"), ("C", "$${X}")))
    assert one.easyconfig.environment == (("A", "a b"), ("B", ""))
    assert one.changed[0] == "the variable B is empty in the container; the file would unset it"
    assert len(one.left_out) == 3
    assert "export" not in one.left_out[1]  # no shell can set a variable of this name
    assert "the variable C: C is '${X}': the runtime would alter" in one.left_out[2]


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        ("A", "${USER}-1", 'export SINGULARITYENV_A="${USER}-1"'),
        ("PATH", "${PATH}:/a b", 'export SINGULARITYENV_APPEND_PATH="/a b"'),
        (
            "PATH",
            "/a:${PATH}",
            'export SINGULARITYENV_PREPEND_PATH="/a:${SINGULARITYENV_PREPEND_PATH}" '
            'APPTAINERENV_PREPEND_PATH="/a:${SINGULARITYENV_PREPEND_PATH}"',
        ),
    ],
)
def test_a_line_for_the_shell_sets_the_other_variables(name: str, value: str, line: str) -> None:
    one = convert(env=((name, value),))
    assert one.easyconfig.environment == ()
    assert one.left_out[0].endswith(f"; after loading the module: {line}")
    assert one.changed == ()


@pytest.mark.parametrize("value", ["$(touch owned)", "`touch owned`", "${A}$(x)", "\\x", "$${A}", "${A:=$(x)}"])
def test_no_line_sets_what_the_runtime_would_run(value: str) -> None:
    (lost,) = convert(env=(("A", value),)).left_out
    assert "export" not in lost

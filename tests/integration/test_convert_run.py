"""A converted image runs like Apptainer's own conversion of it, and every squashfs reader accepts it."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpcmod.core.values.reference import ImageReference
from hpcmod.images.convert import ConvertOptions, convert_image
from hpcmod.images.oci.layout import read_layout
from hpcmod.images.sif.reader import read_sif
from tests.integration.test_convert_tree import different, mounted, read_tree
from tests.oci_corpus import write_layout
from tests.stack import Done, Stack, run

pytestmark = pytest.mark.stack

NASTY = 'it\'s "$HOME" `id` $(touch /tmp/hpcmod-was-here) \\ ; exit 3 #'
CONFIG: Mapping[str, object] = {
    "Env": ["PATH=/opt/x:/usr/bin:/bin", "PLAIN=it's a  b", "EMPTY=", "NOVALUE"],
    "Labels": {"title": NASTY, "other": "plain"},
}
FAST = ("--mksquashfs-args", "-comp zstd -Xcompression-level 1")
SHOW = '#!/bin/sh\necho "$# args"; for each; do printf \'<%s>\\n\' "$each"; done\n'


@dataclass(frozen=True)
class Pair:
    """The same image converted by us and by Apptainer."""

    stack: Stack
    home: Path
    ours: Path
    theirs: Path

    def both(self, *args: str, **env: str) -> tuple[Done, Done]:
        """Run an Apptainer command on both images; `SIF` stands for the path of the image."""
        ours, theirs = (
            self.apptainer(*(str(sif) if arg == "SIF" else arg for arg in args), **env)
            for sif in (self.ours, self.theirs)
        )
        return ours, theirs

    def apptainer(self, *args: str, **env: str) -> Done:
        places = {"APPTAINER_CACHEDIR": str(self.home / "cache"), "APPTAINER_TMPDIR": str(self.home)}
        return run([str(self.stack.apptainer), *args], self.stack.environment(self.home, **places, **env), self.home)


@pytest.fixture(scope="session")
def root_layer(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A root file system as a single layer, with a shell and a program that shows its arguments."""
    place = tmp_path_factory.mktemp("root")
    offset = next(each.offset for each in read_sif(stack.tiny_sif).descriptors if each.primary)
    unpack = ["unsquashfs", "-q", "-n", "-o", str(offset), "-d", place / "root", stack.tiny_sif]
    subprocess.run([*unpack, "bin", "lib", "lib64", "usr/bin", "usr/lib", "usr/lib64"], check=True, capture_output=True)
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        tar.add(place / "root", ".", filter=_without_python)
        show = tarfile.TarInfo("opt/x/show")
        show.size, show.mode = len(SHOW), 0o755
        tar.addfile(show, io.BytesIO(SHOW.encode()))
    return written.getvalue()


def _without_python(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    return None if "python3" in member.name else member


def make_pair(stack: Stack, place: Path, layers: Sequence[bytes], config: Mapping[str, object]) -> Pair:
    layout = write_layout(place / "layout", layers, config={**CONFIG, **config}, compression="none")
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        convert_image(image, place / "ours.sif", options=ConvertOptions())
    pair = Pair(stack, place, place / "ours.sif", place / "theirs.sif")
    built = pair.apptainer("build", *FAST, str(pair.theirs), f"oci:{layout}")
    assert built.returncode == 0, built.stderr
    return pair


@pytest.fixture(scope="module")
def pair(stack: Stack, root_layer: bytes, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    config = {"Entrypoint": ["show", "two words", NASTY], "Cmd": ["by default", "$HOME"]}
    return make_pair(stack, tmp_path_factory.mktemp("pair"), [root_layer], config)


def test_exec_runs_a_command(pair: Pair) -> None:
    ours, theirs = pair.both("exec", "SIF", "show", "a", "b c")
    assert ours.stdout == theirs.stdout == "2 args\n<a>\n<b c>\n"


@pytest.mark.parametrize("args", [(), ("one", "two words"), ("a'b", "*", "$HOME", "")])
@pytest.mark.parametrize("options", [(), ("--no-eval",)], ids=["", "no-eval"])
def test_run_gives_the_entry_point_the_same_arguments(pair: Pair, args: Sequence[str], options: Sequence[str]) -> None:
    ours, theirs = pair.both("run", *options, "SIF", *args)
    assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
    assert f"<{NASTY}>" in ours.stdout


@pytest.mark.parametrize(
    ("config", "args"),
    [
        ({"Cmd": ["show", "by default"]}, ("show", "mine")),
        ({"Entrypoint": ["show", "always"]}, ("mine",)),
        ({}, ("show", "mine")),
    ],
    ids=["command", "entry point", "nothing"],
)
def test_run_chooses_between_entry_point_and_command_alike(
    stack: Stack, root_layer: bytes, tmp_path: Path, config: Mapping[str, object], args: Sequence[str]
) -> None:
    pair = make_pair(stack, tmp_path, [root_layer], config)
    ours, theirs = pair.both("run", "SIF", *args)
    assert (ours.returncode, ours.stdout) == (0, theirs.stdout)
    ours, theirs = pair.both("run", "SIF")
    if config:
        assert (ours.returncode, ours.stdout) == (0, theirs.stdout)
    else:
        assert "has no default command" in ours.stderr


def environment(pair: Pair, **env: str) -> tuple[dict[str, str], dict[str, str]]:
    ours, theirs = pair.both("exec", "SIF", "env", "-0", **env)
    first, second = (dict(line.partition("=")[::2] for line in done.stdout.split("\0")) for done in (ours, theirs))
    own = {"APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "APPTAINER_NAME", "SINGULARITY_NAME"}
    return {k: v for k, v in first.items() if k not in own}, {k: v for k, v in second.items() if k not in own}


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"PLAIN": "the host's", "EMPTY": "the host's", "OTHER": "1", "LD_LIBRARY_PATH": "/host"},
        {
            "APPTAINERENV_PLAIN": "wished",
            "APPTAINERENV_PREPEND_PATH": "/first",
            "APPTAINERENV_LD_LIBRARY_PATH": "/mine",
        },
        {"APPTAINERENV_PATH": "/only/this:/usr/bin", "APPTAINERENV_APPEND_PATH": "/last", "PS1": "p"},
    ],
    ids=["none", "the host's", "wished", "path"],
)
def test_the_environment_is_the_same(pair: Pair, env: Mapping[str, str]) -> None:
    ours, theirs = environment(pair, **env)
    assert ours["PLAIN"]
    assert ours == theirs


def test_hostile_variables_are_inert(stack: Stack, root_layer: bytes, tmp_path: Path) -> None:
    """Apptainer's own conversion of such an image loses all variables, as its script has a syntax error."""
    env = ["PATH=/usr/bin:/bin", "a-b=1", "x;touch /tmp/hpcmod-was-here=2", "=3", f"NASTY={NASTY}", "LINES=a\nb"]
    layout = write_layout(tmp_path / "layout", [root_layer], config={"Env": env}, compression="none")
    with read_layout(ImageReference.parse(f"oci:{layout}"), architecture="amd64") as image:
        converted = convert_image(image, tmp_path / "ours.sif")
    assert converted.left_out == ("a-b", "x;touch /tmp/hpcmod-was-here", "")
    pair = Pair(stack, tmp_path, tmp_path / "ours.sif", tmp_path / "none")
    for command in (("exec",), ("exec", "--cleanenv")):
        done = pair.apptainer(*command, str(pair.ours), "env", "-0")
        found = dict(line.partition("=")[::2] for line in done.stdout.split("\0"))
        assert (done.returncode, found["NASTY"], found["LINES"]) == (0, NASTY, "a\nb")
    assert not Path("/tmp/hpcmod-was-here").exists()


def test_shell_starts(pair: Pair) -> None:
    done = subprocess.run(
        [pair.stack.apptainer, "shell", pair.ours],
        input='echo "$PLAIN"; exit 5\n',
        text=True,
        capture_output=True,
        env=pair.stack.environment(pair.home),
    )
    assert (done.returncode, done.stdout) == (5, "it's a  b\n")


def test_the_image_can_be_started_by_its_old_names_too(pair: Pair) -> None:
    for name in ("/.exec", "/.run", "/singularity"):
        done = pair.apptainer("exec", str(pair.ours), name, "show", "a")
        assert done.returncode == 0
        assert "<a>" in done.stdout


def test_inspect_shows_labels_scripts_and_definition(pair: Pair) -> None:
    ours, theirs = (
        json.loads(done.stdout)["data"]["attributes"] for done in pair.both("inspect", "--all", "--json", "SIF")
    )
    assert ours.keys() == theirs.keys()
    assert ours["environment"].keys() == theirs["environment"].keys()
    assert ours["labels"]["title"] == theirs["labels"]["title"] == NASTY
    made_by = {"org.label-schema.build-date", "org.label-schema.usage.apptainer.version"}
    assert ours["labels"].keys() == theirs["labels"].keys() - made_by
    assert ours["deffile"] == "bootstrap: oci\nfrom: layout"
    assert pair.both("inspect", "SIF")[0].returncode == 0


def test_the_oci_configuration_in_the_sif_says_the_same(pair: Pair) -> None:
    ours, theirs = (json.loads(done.stdout) for done in pair.both("sif", "dump", "3", "SIF"))
    assert ours == theirs


def test_the_sif_is_laid_out_as_apptainers(pair: Pair) -> None:
    ours, theirs = (read_sif(sif).descriptors for sif in (pair.ours, pair.theirs))
    assert [(one.kind, one.primary, one.architecture) for one in ours] == [
        (one.kind, one.primary, one.architecture) for one in theirs
    ]
    listed = pair.both("sif", "list", "SIF")
    assert listed[0].returncode == 0
    assert listed[0].stdout.count("JSON.Generic") == listed[1].stdout.count("JSON.Generic") == 2


def test_the_trees_are_the_same(pair: Pair) -> None:
    with mounted(pair.ours, pair.home / "a") as ours, mounted(pair.theirs, pair.home / "b") as theirs:
        first, second = read_tree(ours), read_tree(theirs)
        assert different(first, second, began=int(pair.theirs.stat().st_mtime) - 600) == {}
    assert len(first) > 100

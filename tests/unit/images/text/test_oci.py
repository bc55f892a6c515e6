"""Scripts of a converted image: shells run them, and values from the image stay literal, whatever they contain."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcmod.core.errors import BadInputError
from hpcmod.images.text import oci
from hpcmod.images.values.oci import ImageConfig

SOURCE = ("docker", "example.org/tool:1")
SHELLS = [shell for shell in ("sh", "bash", "dash", "busybox") if shutil.which(shell)]
NASTY = [
    *("", " ", "it's", '"', "$HOME", "`id`", "$(id)", "\\", "a\\'b", "line\nbreak"),
    *("*", "~", "!", "#x", "-n", "ü", "'" * 5),
]


def config(**fields: object) -> ImageConfig:
    lists = dict.fromkeys(("env", "entrypoint", "cmd", "labels", "diff_ids"), ())
    plain = {"architecture": "amd64", "os": "linux", "created": 0, **lists}
    return ImageConfig(**{**plain, **fields})  # type: ignore[arg-type]


def texts(**fields: object) -> Mapping[str, str]:
    return {
        file.path.removeprefix(".singularity.d/"): file.text
        for file in oci.render_files(config(**fields), source=SOURCE)
    }


def shell(script: str, *args: str, name: str = "sh", **env: str) -> subprocess.CompletedProcess[bytes]:
    argv = [name, *(["sh"] if name == "busybox" else []), "-c", script, "sh", *args]
    return subprocess.run(argv, capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": "/home/x", **env})


def run_arguments(script: str, *args: str, name: str = "sh", **env: str) -> list[str]:
    """Return the arguments that a run script passes to `exec`, which is replaced by printing them."""
    assert script.endswith('exec "$@"\n')
    done = shell(script.removesuffix('exec "$@"\n') + "printf '%s\\0' \"$@\"\n", *args, name=name, **env)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("name", SHELLS)
def test_variables_are_literal(name: str) -> None:
    env = tuple((f"V{number}", value) for number, value in enumerate(NASTY))
    script = texts(env=env)["env/10-docker2singularity.sh"]
    found = shell(f"{script}\nenv -0", name=name).stdout.decode().split("\0")
    assert {f"{key}={value}" for key, value in env} <= set(found)


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("no_eval", ["", "1"])
def test_entry_point_and_command_are_literal(name: str, no_eval: str) -> None:
    script = texts(entrypoint=("run", *NASTY), cmd=("cmd", *NASTY))["runscript"]
    assert run_arguments(script, name=name, SINGULARITY_NO_EVAL=no_eval) == ["run", *NASTY, "cmd", *NASTY]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1, max_size=5))
def test_any_words_are_literal(words: list[str]) -> None:
    script = texts(entrypoint=("x",), cmd=tuple(words), env=tuple((f"V{n}", word) for n, word in enumerate(words)))
    assert run_arguments(script["runscript"]) == ["x", *words]


@pytest.mark.parametrize(
    ("entrypoint", "cmd", "args", "expected"),
    [
        *((("e",), ("c",), (), ["e", "c"]), (("e",), ("c",), ("a",), ["e", "a"])),
        *((("e",), (), (), ["e"]), (("e",), (), ("a",), ["e", "a"])),
        *(((), ("c",), (), ["c"]), ((), ("c",), ("a",), ["a"]), ((), (), ("a",), ["a"])),
    ],
)
def test_arguments_take_the_place_of_the_command(
    entrypoint: Sequence[str], cmd: Sequence[str], args: Sequence[str], expected: list[str]
) -> None:
    assert run_arguments(texts(entrypoint=entrypoint, cmd=cmd)["runscript"], *args) == expected


def test_arguments_are_expanded_unless_that_is_not_wanted() -> None:
    script = texts(entrypoint=("e",))["runscript"]
    assert run_arguments(script, "$HOME", "a  b", "*") == ["e", "/home/x", "a  b", "*"]
    assert run_arguments(script, "$HOME", "a'b", SINGULARITY_NO_EVAL="1") == ["e", "$HOME", "a'b"]


def test_a_variable_that_is_set_wins_but_for_the_path() -> None:
    script = texts(env=(("A", "image"), ("B", "image"), ("PATH", "/image")))["env/10-docker2singularity.sh"]
    done = shell(f"{script}\necho $A $B $PATH", A="host", B="")
    assert done.stdout == b"host image /image\n"


def test_variables_that_no_shell_can_set_are_omitted_and_named() -> None:
    env = (("good", "1"), ("a-b", "2"), ("", "3"), ("x;id", "4"), ("1x", "5"), ("x\n", "6"), ("ü", "7"))
    assert oci.left_out(config(env=env)) == ("a-b", "", "x;id", "1x", "x\n", "ü")
    assert texts(env=env)["env/10-docker2singularity.sh"] == "#!/bin/sh\n[ -n \"${good:-}\" ] || export good='1'\n"


@pytest.mark.parametrize("field", ["env", "entrypoint", "cmd"])
def test_a_nul_cannot_be_written_into_a_script(field: str) -> None:
    value = (("A", "a\0b"),) if field == "env" else ("a\0b",)
    with pytest.raises(BadInputError):
        texts(**{field: value})


@pytest.mark.parametrize("name", SHELLS)
def test_every_script_is_one_that_shells_can_read(name: str) -> None:
    for path, text in texts(env=(("A", "it's"),), entrypoint=("e",), cmd=("c",)).items():
        if not path.endswith((".json", "Singularity")):
            assert subprocess.run([name, *(["sh"] if name == "busybox" else []), "-n", "-c", text]).returncode == 0, (
                path
            )


def test_scripts_of_the_environment_can_be_read_in_where_unset_variables_are_errors() -> None:
    scripts = [text for path, text in sorted(texts(env=(("A", "1"),)).items()) if path.startswith("env/")]
    done = shell("set -eu\n" + "\n".join(scripts) + '\necho "$PATH $LD_LIBRARY_PATH $PS1"', PS1="")
    assert done.stdout == b"/usr/bin:/bin /.singularity.d/libs Apptainer> \n"


def test_labels_are_the_images_and_tell_where_it_came_from() -> None:
    labels = json.loads(texts(labels=(("b", 'it\'s "x"\n</script>'), ("a", "1")))["labels.json"])
    assert labels["b"] == 'it\'s "x"\n</script>'
    assert labels["org.label-schema.usage.singularity.deffile.from"] == "example.org/tool:1"


def test_a_definition_has_two_lines_for_any_source_name() -> None:
    assert oci.render_oci_definition(("oci", "a\nb: c\n%post\nid")) == "bootstrap: oci\nfrom: a?b: c?%post?id\n\n"


def test_metadata_says_what_the_files_say() -> None:
    image = config(env=(("A", "1"),), labels=(("l", "2"),))
    files = oci.render_files(image, source=SOURCE)
    found = json.loads(oci.render_metadata(files, image, source=SOURCE))["data"]["attributes"]
    assert found["labels"]["l"] == "2"
    assert found["environment"].keys() == {
        "/.singularity.d/env/10-docker2singularity.sh",
        "/.singularity.d/env/90-environment.sh",
    }
    assert found["runscript"].startswith("#!/bin/sh\n")


@pytest.mark.parametrize(
    ("text", "expected"), [(b'{"config": {"Cmd": ["x"]}}', {"Cmd": ["x"]}), (b'{"config": null}', {}), (b"{}", {})]
)
def test_the_configuration_is_taken_out_of_the_whole(text: bytes, expected: object) -> None:
    assert json.loads(oci.render_config(text)) == expected

"""Render the scripts, labels and metadata that a SIF contains in addition to the OCI layers.

The scripts are hpcmod's own, and behave like those of Apptainer's conversion for images whose values are literal:
nothing in the values is expanded by a shell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.core.text import quote
from hpcmod.images.values.oci import ImageConfig

DIRECTORIES = [
    ".singularity.d/actions",
    ".singularity.d/env",
    ".singularity.d/libs",
    "dev",
    "proc",
    "root",
    "var/tmp",
    "tmp",
    "etc",
    "sys",
    "home",
]
"""Directories that a runtime needs for mounts or scripts."""

EMPTY_FILES = ("etc/hosts", "etc/resolv.conf")
"""Files on which a runtime mounts the machine's own."""

LINKS = (
    *((f".{action}", f".singularity.d/actions/{action}") for action in ("exec", "run", "shell", "test")),
    ("singularity", ".singularity.d/runscript"),
    ("environment", ".singularity.d/env/90-environment.sh"),
)
"""Links in the root directory and their targets."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEPT_ENVIRONMENT = re.compile(r"\.singularity\.d/env/(10-docker|9[0-9]-environment)")  # shown by `inspect -e`

_ENVIRONMENT = {
    "01-base": "",
    "90-environment": "# Add your own variables here.\n",
    "94-appsbase": "",
    "95-apps": "",
    "99-base": """\
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/.singularity.d/libs"
export PS1="${PS1:-Apptainer> }"
""",
    "99-runtimevars": "",
}
_ACTIONS = {
    "exec": 'exec "$@"\n',
    "run": 'exec /.singularity.d/runscript "$@"\n',
    "shell": 'exec /bin/sh "$@"\n',
    "start": "exec /.singularity.d/startscript\n",
    "test": "",
}
"""For callers in a container: Apptainer and SingularityCE (since 3.6) have these scripts and 99-runtimevars.sh
in themselves: `files.ActionScript` and `runtimeVarsHandler` of their runtime engine."""
_RUN = """\
# Run the image's entry point with the given arguments, or else with the image's default arguments.
if [ -z "${SINGULARITY_NO_EVAL:-}" ]; then
    # Like Apptainer without --no-eval: this shell expands variables and commands in the arguments.
    hpcmod_words=
    for hpcmod_word in "$@"; do hpcmod_words="$hpcmod_words \\"$hpcmod_word\\""; done
    eval "set -- $hpcmod_words"
    unset hpcmod_word hpcmod_words
fi
"""


@dataclass(frozen=True)
class ImageFile:
    """A file for the image, which replaces any existing one."""

    path: str
    """Relative to the root."""
    text: str
    mode: int


def render_files(config: ImageConfig, *, source: tuple[str, str]) -> tuple[ImageFile, ...]:
    """Render the files of /.singularity.d.

    `source` is the kind of the image's reference, and the rest of it.

    Raises BadInputError if a value in the configuration cannot be written into a script.
    """
    scripts = {f"actions/{name}": text for name, text in _ACTIONS.items()}
    scripts.update({f"env/{name}.sh": text for name, text in _ENVIRONMENT.items()})
    scripts["env/10-docker2singularity.sh"] = _render_environment(config)
    scripts["runscript"] = _render_run(config)
    scripts["startscript"] = ""
    labels = json.dumps(dict(_labels(config, source)), indent="\t", sort_keys=True)
    plain = {"Singularity": render_oci_definition(source), "labels.json": labels}
    files = [ImageFile(f".singularity.d/{name}", "#!/bin/sh\n" + text, 0o755) for name, text in scripts.items()]
    files += [ImageFile(f".singularity.d/{name}", text, 0o644) for name, text in plain.items()]
    return tuple(files)


def render_oci_definition(source: tuple[str, str]) -> str:
    """Render the definition file that describes a conversion."""
    bootstrap, origin = (quote.sh_comment(text) for text in source)
    return f"bootstrap: {bootstrap}\nfrom: {origin}\n\n"


def render_metadata(files: Sequence[ImageFile], config: ImageConfig, *, source: tuple[str, str]) -> str:
    """Render the output of `apptainer inspect`, so that the image need not be started for it."""
    texts = {file.path: file.text.rstrip("\n") for file in files}
    attributes = {
        "environment": {f"/{path}": text for path, text in texts.items() if _KEPT_ENVIRONMENT.match(path)},
        "labels": dict(_labels(config, source)),
        "runscript": texts[".singularity.d/runscript"],
        "deffile": render_oci_definition(source).rstrip("\n"),
        "startscript": texts[".singularity.d/startscript"],
    }
    return json.dumps({"data": {"attributes": attributes}, "type": "container"}, sort_keys=True)


def render_config(config_text: bytes) -> str:
    """Return the part of an image's configuration that says how to run it."""
    whole: Any = json.loads(config_text)
    return json.dumps(whole.get("config") or {}, sort_keys=True)


def left_out(config: ImageConfig) -> tuple[str, ...]:
    """Return the names of image variables that no shell can set."""
    return tuple(name for name, _ in config.env if not _NAME.fullmatch(name))


def _render_environment(config: ImageConfig) -> str:
    """Render the image's variables; except for PATH, a variable that is already set is kept."""
    lines = []
    for name, value in config.env:
        if _NAME.fullmatch(name):
            unless = "" if name == "PATH" else f'[ -n "${{{name}:-}}" ] || '
            lines.append(f"{unless}export {name}={_word(value)}\n")
    return "".join(lines)


def _render_run(config: ImageConfig) -> str:
    lines = [_RUN]
    if config.cmd:
        lines.append(f"[ $# -gt 0 ] || set -- {_words(config.cmd)}\n")
    if config.entrypoint:
        lines.append(f'set -- {_words(config.entrypoint)} "$@"\n')
    else:
        lines.append("[ $# -gt 0 ] || echo 'This image has no default command; pass one.' >&2\n")
    return "".join([*lines, 'exec "$@"\n'])


def _words(words: Sequence[str]) -> str:
    return " ".join(map(_word, words))


def _word(text: str) -> str:
    r"""Quote for shells that keep the backslash of \\' in an assignment, such as the one built into Apptainer."""
    return '"\'"'.join(quote.sh(part) for part in text.split("'"))


def _labels(config: ImageConfig, source: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the image's labels, and labels that record its source."""
    schema = "org.label-schema"
    return (
        *config.labels,
        (f"{schema}.build-arch", config.architecture),
        (f"{schema}.schema-version", "1.0"),
        (f"{schema}.usage.singularity.deffile.bootstrap", source[0]),
        (f"{schema}.usage.singularity.deffile.from", source[1]),
    )

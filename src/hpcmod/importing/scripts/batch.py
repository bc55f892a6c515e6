"""Batch scripts that start a container by hand: an easyconfig, and the `hpcmod job` line in place of the script.

What becomes of each option: docs/reference/import-scripts.md. Scripts are read, never run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hpcmod.check.jobs.reading.calls import RUNTIMES, SHELLS, Call
from hpcmod.check.jobs.reading.options import Option
from hpcmod.errors import BadInputError
from hpcmod.image.inspect.contents import read_facts
from hpcmod.importing.carried import Findings, shown_text
from hpcmod.importing.edf import edf_image
from hpcmod.importing.edf_files import is_file
from hpcmod.importing.formats import ImportFormat, ImportOption, Watch
from hpcmod.importing.outcome import (
    UNPINNED,
    ImportedEasyconfig,
    Outcome,
    choose_version,
    convert_files,
    describe_registry_image,
    settle_names,
    with_registry,
)
from hpcmod.importing.scripts.container import ContainerSettings, add_binds, add_variable, read_options_of_container
from hpcmod.importing.scripts.job_line import (
    exported_variables,
    job_line,
    read_job_options,
    read_program,
)
from hpcmod.importing.scripts.starts import ContainerStart, StartScript
from hpcmod.importing.sif import describe_sif, split_name
from hpcmod.importing.variables import Variables
from hpcmod.model.images.reference import ImageReference
from hpcmod.model.spec import OWNED_VARIABLES
from hpcmod.render.easyconfig import EasyconfigText
from hpcmod.render.quote import sh_word

SUFFIXES = (".sh", ".sbatch", ".slurm", ".job", ".batch")

_BINDS = re.compile(r"(?:SINGULARITY|APPTAINER)_BIND(?:PATH)?")
_VARIABLE = re.compile(r"(?:SINGULARITY|APPTAINER)ENV_(\w+)")
_OF_RUNTIME = re.compile(r"(?:SINGULARITY|APPTAINER|SHIFTER|ENROOT|PODMAN|SLURM|SBATCH|SRUN)_?\w*")
_FETCHERS = (*RUNTIMES, "enroot", "podman", "podman-hpc", "docker", "shifterimg", "sarus")
_FETCHING = ("pull", "import", "create", "build", "migrate", "squash")
_OPENING, _CLOSING = ("if", "for", "while", "until", "case", "select"), ("fi", "done", "esac")
_SHELL_WORDS = frozenset(("if", "then", "else", "elif", "fi", "for", "while", "do", "done", "case", "esac", "in", ""))


@dataclass
class _Group:
    """The steps of a script with the same image."""

    reference: str
    starts: list[ContainerStart] = field(default_factory=list)


def import_scripts(paths: Iterable[Path], *, environ: Mapping[str, str]) -> tuple[Outcome, ...]:
    """Convert batch scripts, and all below directories; `environ` are variables that scripts may use."""
    return settle_names(convert_files(paths, SUFFIXES, lambda text, path: convert_script(text, path, environ)))


def convert_script(text: str, path: Path, environ: Mapping[str, str]) -> Iterator[ImportedEasyconfig]:
    """Yield an easyconfig for each image that a batch script starts, with the line for its jobs.

    Raises
    ------
    BadInputError
        If it starts no container, or an image cannot be determined.
    """
    script = StartScript.read(text, environ)
    named = next((one.value for one in script.script.options if one.name == "environment"), "")
    fetched = dict(_fetched(script))
    groups: dict[str, _Group] = {}
    for start in script.starts():
        image = _image_of(start, script)
        groups.setdefault(image, _Group(image)).starts.append(start)
    if not groups and (named or any(one.name == "environment" for call in script.calls for one in call.srun or ())):
        raise BadInputError("it names an environment of CSCS: use hpcmod import edf for that file", "")
    if not groups:
        raise BadInputError(
            "it starts no container: expected singularity, apptainer, podman, docker, shifter, enroot, sarus, or "
            "srun --container-image",
            "",
        )
    for number, group in enumerate(groups.values()):
        said = Findings()
        if number == 0:
            _report_rest(script, said)
        else:
            said.notes.append("what the script does besides is reported for its first image")
        yield _convert_group(group, script, fetched, path, said)


def _image_of(start: ContainerStart, script: StartScript) -> str:
    """Return the image of a step, by its own option or by a directive of the script."""
    if start.image:
        return f"{start.runtime} {start.image}"
    name = "container-image" if start.runtime == "pyxis" else "image"
    given = next((one.value for one in script.script.options if one.name == name), "")
    image = script.expand(given)
    if not image:
        raise BadInputError(f"line {start.line}: {start.runtime} without an image, and no #SBATCH --{name}", "")
    return f"{start.runtime} {image}"


def _fetched(script: StartScript) -> Iterator[tuple[str, str]]:
    """Yield files and names that the script makes from registry images, with the images."""
    for call in script.calls:
        words = [script.expand(word) for word in _fetching_words(call)]
        source = next((word for word in words if word.startswith(("docker://", "oras://"))), "")
        files = [word for word in words[2:] if not word.startswith("-") and word != source]
        if source and files:
            yield files[0], source.replace("#", "/", 1)
        elif source:
            yield f"{source.rpartition('/')[2].replace(':', '_')}.sif", source
        elif words[1:2] == ["create"] and files:
            named = (
                words[words.index("--name") + 1 :][:1]
                if "--name" in words
                else words[words.index("-n") + 1 :][:1]
                if "-n" in words
                else []
            )
            yield (named[0] if named else Path(files[-1]).stem), files[-1]


def _fetching_words(call: Call) -> list[str]:
    """Return the words of a command that makes a file or a container from an image, from its program on; else none."""
    words = [word.plain for word in call.words]
    at = next((at for at, word in enumerate(words) if word.rpartition("/")[2] in _FETCHERS), len(words))
    return words[at:] if words[at + 1 : at + 2] and words[at + 1] in _FETCHING else []


def _convert_group(
    group: _Group, script: StartScript, fetched: Mapping[str, str], path: Path, said: Findings
) -> ImportedEasyconfig:
    """Return the easyconfig of an image, and the job line for its steps."""
    runtime, _, image = group.reference.partition(" ")
    settings = ContainerSettings()
    exported = dict(_exported(script, settings, said))
    directives = [replace(one, value=script.expand(one.value)) for one in script.script.options]
    of_container = [
        one for one in directives if one.name in ("volume", "module", "container-mounts", "container-workdir")
    ]
    if runtime in ("shifter", "pyxis"):
        read_options_of_container(replace(group.starts[0], options=tuple(of_container)), settings, said)
    for start in group.starts:
        read_options_of_container(start, settings, said)
        if start.verb == "run" and start.runtime in RUNTIMES:
            said.left_out.append(
                f"the image's run script, which {start.runtime} run starts: singularity run $SIF ARGUMENTS"
            )
    easyconfig = _easyconfig(runtime, image, fetched, path, said)
    easyconfig = replace(
        easyconfig,
        bind_paths=tuple(settings.binds.values()),
        environment=tuple(settings.variables.items()),
        netstack=settings.netstack,
    )
    line = _job_line(easyconfig.module, group.starts, directives, exported, said)
    return ImportedEasyconfig(
        str(path),
        easyconfig,
        tuple(dict.fromkeys(said.left_out)),
        tuple(dict.fromkeys(said.notes)),
        changed=tuple(dict.fromkeys(said.changed)),
        commands=(line,) if line else (),
    )


def _job_line(
    module: str,
    starts: Sequence[ContainerStart],
    directives: Sequence[Option],
    exported: Mapping[str, str],
    said: Findings,
) -> str:
    """Return the `hpcmod job` line for the steps with one image; empty if there is no program for it."""
    first = starts[0]
    options = read_job_options(directives, first, said)
    variables = dict(exported)
    for start in starts:
        variables.update(exported_variables(start))
    launcher, program = read_program(first, said)
    then = []
    for start in starts[1:]:
        if start.launcher != first.launcher:
            said.changed.append(f"line {start.line}: the step gets the nodes and ranks of the first one")
        _, words = read_program(start, said)
        then.append(" ".join(map(sh_word, words)))
    if not program:
        said.left_out.append(f"line {first.line}: {first.runtime} without a program: hpcmod shell {module}")
        return ""
    if any("\n" in word for words in (program, then, variables.values()) for word in words):
        said.left_out.append("a program or value of several lines: write it to a file, and name the file in hpcmod job")
        return ""
    return job_line(module, [*options, *launcher], variables, program, then)


def _exported(script: StartScript, settings: ContainerSettings, said: Findings) -> Iterator[tuple[str, str]]:
    """Yield variables for the programs of the job; those for the container become settings, all others are reported."""
    for call in script.calls:
        for one in call.variables:
            if not one.exported or one.in_step:
                continue
            value = script.expand(one.value)
            of_container = _VARIABLE.fullmatch(one.name)
            if _BINDS.fullmatch(one.name):
                add_binds(RUNTIMES[0], value, settings, said)
            elif of_container:
                add_variable(of_container[1], value, settings, said)
            elif _OF_RUNTIME.fullmatch(one.name):
                said.left_out.append(
                    f"line {one.line}: {one.name}={shown_text(value)}: a setting of the runtime or of Slurm"
                )
            elif re.search(r"[$`\x00-\x1f]", value):
                said.left_out.append(
                    f"line {one.line}: {one.name}={shown_text(one.value)}: hpcmod job does not expand it; add "
                    f"--env {one.name}=VALUE"
                )
            elif one.name in OWNED_VARIABLES:
                said.left_out.append(f"line {one.line}: {one.name}={shown_text(value)}: the module sets it")
            else:
                yield one.name, value


def _report_rest(script: StartScript, said: Findings) -> None:
    """Report what the script does besides its steps, and which parts of the steps the job line lacks."""
    starting = {id(call): call for call, _ in script.calls_that_start()}
    inner_lines = {line for call in starting.values() if call.inner for line in call.multiline}
    for call in script.calls:
        around = inner_lines & set(call.multiline)
        if id(call) in starting:
            _report_shell(call, said)
        elif call.inner and (call.container is not None or not around):
            continue  # a part of a program that is carried, or reported as a whole
        elif not (around and not call.inner and call.name in SHELLS) and not _is_nothing(call, script):
            words = " ".join(word.text for word in call.words)
            said.left_out.append(f"line {call.line}: {shown_text(words)}: {_what_to_do(call)}")
    said.left_out += [f"line {line}: an #SBATCH line that sbatch does not read" for line in script.script.late]
    _report_conditions(script, said)


def _report_shell(call: Call, said: Findings) -> None:
    """Report what the shell does with a step: files for its output, and the background."""
    if call.outputs:
        said.left_out.append(
            f"line {call.line}: the output to {shown_text(', '.join(call.outputs))}: hpcmod job --output FILE"
        )
    if call.background:
        said.changed.append(
            f"line {call.line}: the step in the background: steps of hpcmod job run one after the other"
        )


def _report_conditions(script: StartScript, said: Findings) -> None:
    """Report variables whose value depends on a condition, or changes: the last value is used everywhere."""
    depth, values = 0, dict[str, set[str]]()
    for call in script.calls:
        first = call.words[0].plain if call.words else ""
        depth += (first in _OPENING) - (first in _CLOSING)
        for one in call.variables:
            values.setdefault(one.name, set()).add(one.value)
            if depth > 0:
                said.changed.append(
                    f"line {one.line}: {one.name} is set under a condition or in a loop: it always has this value"
                )
    for name, given in values.items():
        if len(given) > 1:
            said.changed.append(f"the variable {name} has several values: the last one is used everywhere")


def _is_nothing(call: Call, script: StartScript) -> bool:
    """Return whether a command needs no report: an assignment that is expanded, or a part of the shell's grammar."""
    words = [word.plain for word in call.words]
    if _fetching_words(call):
        return True
    if not call.program and call.variables and all(one.exported for one in call.variables):
        return True  # reported with the variables
    if not call.program:
        plain = all("$(" not in one.value and "`" not in one.value for one in call.variables)
        return (bool(call.variables) and plain) or set(words) <= _SHELL_WORDS
    if call.name == "set" or words[:1] == ["true"]:
        return True
    loads = words[:2] in (["module", "load"], ["ml", "load"])
    return loads and all(one.partition("/")[0].lower() in (*RUNTIMES, "podman", "shifter") for one in words[2:])


def _what_to_do(call: Call) -> str:
    if call.name in ("module", "ml"):
        return "programs of the container do not use the host's modules"
    if call.name in ("cd", "pushd"):
        return "hpcmod job --chdir DIRECTORY"
    if call.container is not None or call.name in _FETCHERS:
        return "use the command of hpcmod: hpcmod exec, hpcmod info, hpcmod add"
    if call.srun is not None:
        return "a step without a container"
    if call.words[0].plain in (*_OPENING, *_CLOSING, "then", "else", "elif"):
        return "hpcmod job writes no conditions and loops; an array is --array"
    return "run it before you submit the job, or as --before of hpcmod job, if an image has it"


def _easyconfig(runtime: str, image: str, fetched: Mapping[str, str], path: Path, said: Findings) -> EasyconfigText:
    """Return the easyconfig for an image as its runtime names it.

    Raises
    ------
    BadInputError
        If it is not known, or neither it nor its name has a version.
    """
    for _ in fetched:
        image = fetched.get(image, image)
    if re.search(r"[$`]", image):
        raise BadInputError(f"its image {shown_text(image)!r} depends on the environment: try --expand", "")
    if runtime == "enroot" and not image.startswith("docker://"):
        raise BadInputError(f"the enroot container {image!r}: the script does not say from which image it was made", "")
    if runtime in RUNTIMES and "://" not in image:
        return _of_file(image, path, said)
    if runtime == "pyxis":
        reference = edf_image(image, Variables(complete=False, bare=False), said)
    else:
        reference = ImageReference.parse(_registry_name(runtime, image))
    if reference.kind not in ("docker", "oras"):
        raise BadInputError(f"its image {shown_text(image)!r} is not in a registry that hpcmod can fetch from", "")
    name = reference.repository.rpartition("/")[2]
    easyconfig, lost = describe_registry_image(
        name,
        choose_version(reference),
        reference,
        description=f"{name} from {reference.registry}",
        url="",
        commands=None,
    )
    said.left_out += lost
    if not reference.pinned:
        said.notes.append(UNPINNED)
    return easyconfig


def _registry_name(runtime: str, image: str) -> str:
    if runtime == "shifter":
        kind, colon, rest = image.partition(":")
        if colon and kind in ("id", "custom"):
            raise BadInputError(f"its image {image!r} is not in a registry: name it as docker:NAME:TAG", "")
        image = rest if colon and kind == "docker" else image
    scheme, _, rest = image.rpartition("://")
    if rest.startswith("localhost/"):
        raise BadInputError(f"the image {image!r} was built here: push it to a registry, or make a SIF of it", "")
    return f"{scheme or 'docker'}://{with_registry(rest)}"


def _of_file(image: str, path: Path, said: Findings) -> EasyconfigText:
    """Return the easyconfig for a SIF, which need not exist here."""
    file = path.absolute().parent / image
    if not image.startswith("/"):
        said.changed.append(f"the image {shown_text(image)}: the file beside the script, as an absolute path")
    if is_file(file):
        one = describe_sif(read_facts(file), file)
        said.left_out += one.left_out
        said.notes += one.notes
        return one.easyconfig
    if file.suffix != ".sif":
        raise BadInputError(f"its image {image!r} is not a SIF: make one, and use hpcmod import sif", "")
    named = split_name(file.name.removesuffix(".sif"))
    if named is None:
        raise BadInputError(
            f"its image {image!r} does not exist here, and its name has no version: NAME_VERSION.sif", ""
        )
    said.notes.append("the image does not exist here, so it was not read")
    return EasyconfigText(
        name=named[0], version=named[1], image=str(file), description=f"{named[0]} {named[1]}", moduleclass="tools"
    )


def _convert(paths: Iterable[Path], _: Watch, *, expand: bool = False) -> tuple[Outcome, ...]:
    return import_scripts(paths, environ=os.environ if expand else {})


FORMAT = ImportFormat(
    "Convert batch scripts that start a container by hand, and print the `hpcmod job` line for each.",
    _convert,
    examples=("job.sh --dry-run", "job.sh --output ours", "job.sh --expand --output mine"),
    options=(
        ImportOption("expand", "Replace $VARIABLE by its value in the environment (default: report what needs it)."),
    ),
)

"""What an easyconfig requests, validated as one value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcmod.core.errors import BadInputError
from hpcmod.core.values.text import check_plain
from hpcmod.machine.values.bind import Bind
from hpcmod.machine.values.site import HOST_PYTHON, INSTALL_MODES, RUNTIMES

COMMAND_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
"""A name that is safe as a file in bin/: no slash, no leading dot or dash."""

_PROGRAM = re.compile(rf"{COMMAND_NAME.pattern}|/[^\x00-\x1f\x7f]+")

OWN_COMMANDS = frozenset({*RUNTIMES, "start-shell", "list-packages", "make-squashfs", "unmake-squashfs"})
"""Programs that hpcmod itself installs in bin/; the last three only with a directory for the user's packages."""

HOST_COMMANDS = OWN_COMMANDS | {"module", "ml", "sh", "bash", "env", "eb", "hpcmod", "srun", "sbatch"}
"""Commands that a wrapper must not shadow: scripts, and the wrappers themselves, start with them."""

OWNED_VARIABLES = frozenset(
    {
        *(set(HOST_PYTHON) - {"LD_PRELOAD"}),
        "PYTHONNOUSERSITE", "WITH_VENV", "WITH_CONDA_VENV", "LD_LIBRARY_PATH", "HOME",
        "PATH", "PREPEND_PATH", "APPEND_PATH",
    }
)  # fmt: skip
"""Container variables that are set by the module or the runtime."""

_OWNED = re.compile(r"(?:SINGULARITY|APPTAINER|_?HPCMOD|SIF|RUNSCRIPTS|CONTAINERROOT)\w*")

Commands = tuple[tuple[str, tuple[str, ...]], ...]
"""For each wrapper its name and command line: a program of the image by name or path, and its first arguments."""


HELP_PARAMETERS = (
    *("whatis", "usage", "examples", "citing", "docpaths", "docurls", "upstream_contacts", "site_contacts"),
)
"""Names of the easyconfig parameters; EasyBuild's own easyblocks show them in `module help` and `module whatis`."""

SPEC_PARAMETERS = (
    *("description", "homepage", "install_mode", "bind_paths", "wrapped_commands", "environment"),
    *HELP_PARAMETERS,
)
"""Names of the easyconfig parameters that `parse_spec` reads."""

_HELP_STRINGS = ("usage", "examples", "citing")


@dataclass(frozen=True)
class HelpTexts:
    """Texts for `module help` and `module whatis`."""

    whatis: tuple[str, ...] | None = None
    """Lines of `module whatis`; None: description and homepage."""
    usage: str = ""
    examples: str = ""
    citing: str = ""
    docpaths: tuple[str, ...] = ()
    """Paths below the installation."""
    docurls: tuple[str, ...] = ()
    upstream_contacts: tuple[str, ...] = ()
    site_contacts: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstallSpec:
    """One requested installation."""

    name: str
    module: str
    """Short module name, e.g. PyTorch/2.7.1-rocm-6.2.4-singularity."""
    variable: str
    """Name as used in variables, e.g. PYTORCH in SIFPYTORCH; EasyBuild's rule: upper case, `-` becomes `MIN`."""
    root: str
    """Root of the installation, an absolute path."""
    image: str
    """File name of the SIF."""
    easyconfig: str
    """File name of the easyconfig, for the cure in messages."""
    found_at: str = ""
    """Where the image was found, if anywhere: the module looks there last, because a site may keep images there."""
    description: str = ""
    homepage: str = ""
    install_mode: str = "auto"
    published: bool = False
    """Whether it is a catalogue's: nobody changes its packages, which all users get, not even who may write there."""
    binds: tuple[Bind, ...] = ()
    """Added to the site's bind paths."""
    commands: Commands | None = None
    """Commands to wrap; None: the default ones that the image has."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables of the container; the user's own values win."""
    help_texts: HelpTexts = HelpTexts()
    syntaxes: tuple[str, ...] = ("Lua", "Tcl")
    """Syntaxes of its modulefiles: the installation has the logic that they call."""

    def __post_init__(self) -> None:
        """Check for characters that are special where these strings are used in the user's environment."""
        for what in ("name", "module", "root", "image", "easyconfig", "found_at"):
            check_plain(getattr(self, what), what)
        if ":" in self.root:
            raise BadInputError(
                f"the installation directory {self.root!r} contains a colon, which separates the parts of a bind path",
                "Choose another directory: eb --installpath=DIRECTORY ...",
            )


def parse_spec(values: Mapping[str, Any], **known: Any) -> InstallSpec:
    """Return what SPEC_PARAMETERS of an easyconfig request.

    `known`: The other fields.

    Raises BadInputError if a value is not valid.
    """
    return InstallSpec(
        description=values.get("description") or "",
        homepage=values.get("homepage") or "",
        install_mode=parse_install_mode(values.get("install_mode", "auto")),
        binds=tuple(Bind.parse(text) for text in values.get("bind_paths", ())),
        commands=parse_commands(values.get("wrapped_commands")),
        environment=parse_environment(values.get("environment", {})),
        help_texts=parse_help_texts(values),
        **known,
    )


_CURE = (
    "List programs of the image by name, without directories: ['python'], or with the command to run: "
    "{'fork': ['/code/salad', 'fork']}."
)


def parse_commands(
    given: Sequence[str] | Mapping[str, Sequence[str]] | None, where: str = "wrapped_commands", cure: str = _CURE
) -> Commands | None:
    """Check the commands to wrap, names or a table of names and words; report all errors together.

    None means the default commands, and is returned as it is.

    Raises BadInputError if a name is not a valid command name or hides a host command, or there is nothing to run.
    """
    if given is None:
        return None
    table = given if isinstance(given, Mapping) else {name: [name] for name in _listed(given)}
    faults = [fault for name, words in table.items() for fault in _command_faults(name, words)]
    if faults:
        raise BadInputError(f"{where}: {'; '.join(faults)}", cure)
    return tuple((name, tuple(words)) for name, words in table.items())


def _listed(given: object) -> Sequence[str]:
    if isinstance(given, (list, tuple)):
        return given
    raise BadInputError(f"wrapped_commands: {given!r} is not a list", "Write ['python', 'pip'], or a table of words.")


def _command_faults(name: object, words: object) -> Iterator[str]:
    """Yield the errors of a wrapper."""
    if not isinstance(name, str) or not COMMAND_NAME.fullmatch(name):
        yield f"{name!r} is not a valid command name"
    elif name in HOST_COMMANDS:
        yield f"{name!r} would hide the {'module' if name in OWN_COMMANDS else 'host'}'s own command of that name"
    elif not isinstance(words, (list, tuple)) or not words or not all(isinstance(word, str) for word in words):
        yield f"{name!r} runs {words!r}, which is not a list of strings"
    elif not is_program(words[0]):
        yield f"{name!r} runs {words[0]!r}, which is neither a command name nor an absolute path"
    elif "\0" in "".join(words):
        yield f"{name!r} runs a string that contains a NUL"


def is_program(word: str) -> bool:
    """Return whether a word names a program of an image, by name or by absolute path."""
    return _PROGRAM.fullmatch(word) is not None


def parse_environment(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Check the variables of the container; report all errors together.

    Raises BadInputError if a name is invalid or reserved for the module, or the runtime would alter a value.
    """
    if not isinstance(given, Mapping):
        raise BadInputError(f"environment: {given!r} is not a table", "Write {'NAME': 'value'}.")
    faults = [fault for name, value in given.items() if (fault := why_no_variable(name, value))]
    if faults:
        raise BadInputError(f"environment: {'; '.join(faults)}", "Leave them out, or set them in the image.")
    return tuple(given.items())


def why_no_variable(name: object, value: object) -> str:
    """Return why an easyconfig cannot set a container variable; empty if it can.

    Notes
    -----
    Apptainer and SingularityCE evaluate the values of APPTAINERENV_NAME like a shell within double quotes, unless the
    user sets --no-eval: so a string with `$`, a backtick or a backslash does not mean the same for all users.
    """
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        return f"{name!r} is not a valid variable name"
    if name in OWNED_VARIABLES or _OWNED.fullmatch(name):
        return f"{name} is set by the module or the runtime"
    if not isinstance(value, str):
        return f"{name} is {value!r}, which is not a string"
    if re.search(r"[$`\\\x00-\x1f\x7f]", value):
        return f"{name} is {value[:80]!r}: the runtime would alter $, `, \\ or control characters"
    return ""


def parse_install_mode(word: str) -> str:
    """Return the installation mode if it is valid."""
    if word not in INSTALL_MODES:
        raise BadInputError(f"install_mode: {word!r} is not a valid mode", f"Use one of {', '.join(INSTALL_MODES)}.")
    return word


def parse_help_texts(values: Mapping[str, Any]) -> HelpTexts:
    """Return the help texts in an easyconfig's parameters; missing ones and None count as not given.

    Raises BadInputError if a value is neither a string nor a list of strings.
    """
    lines = {name: _strings_of(name, values[name]) for name in HELP_PARAMETERS if values.get(name) is not None}
    texts: dict[str, Any] = {
        name: "\n".join(given).strip("\n") for name, given in lines.items() if name in _HELP_STRINGS
    }
    return HelpTexts(**{**lines, **texts})


def list_references(texts: HelpTexts, root_variable: str) -> Iterator[str]:
    """Yield the lines on documents and contacts, as EasyBuild writes them.

    `root_variable`: Variable with the root of the installation, e.g. EBROOTPYTORCH.
    """
    documents = [*(f"${root_variable}/{path}" for path in texts.docpaths), *texts.docurls]
    groups = {
        "Documentation": documents,
        "Upstream contacts": texts.upstream_contacts,
        "Site contacts": texts.site_contacts,
    }
    for title, entries in groups.items():
        if entries:
            yield f" - {title}:"
            yield from (f"    - {entry}" for entry in entries)


def _strings_of(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        raise BadInputError(f"{name}: {value!r} is not a list of strings", "Write ['...', '...'].")
    return tuple(value)

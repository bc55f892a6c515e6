"""Turn an easyconfig into ReFrame tests: its checks, and the network tests and benchmarks of hpcmod."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hpcmod.errors import BadInputError
from hpcmod.model.easyconfigs.easyconfig_text import CONSTANTS, fill_templates, templates_of
from hpcmod.model.easyconfigs.static_values import read_static_values

NETWORKED = frozenset({"torch", "mpi4py"})
"""Python packages with which `hpcmod verify-net` and `hpcmod bench` run in a container."""

_MODULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*/[A-Za-z0-9_.+-]+")
_STARTS = "start-shell -c true"


@dataclass(frozen=True)
class ReframeTests:
    """The ReFrame tests of a container."""

    module: str
    """The module that they load."""
    commands: tuple[str, ...]
    """Shell commands that must succeed with the module loaded, on a machine without GPUs too."""
    networked: bool
    """Whether the container has what the network tests of hpcmod need."""


def read_reframe_tests(text: str, where: str, *, packages: Sequence[str] = ()) -> ReframeTests:
    """Return the tests of the container that an easyconfig installs; it is read, never run.

    Parameters
    ----------
    text
        The easyconfig.
    where
        File name for messages.
    packages
        Python packages of the image; empty if not known.

    Raises
    ------
    BadInputError
        If the name, the version or the checks cannot be determined without running it.
    """
    read = read_static_values(text, where, constants=CONSTANTS)
    templates = templates_of(read.known)
    if not templates["name"] or not templates["version"]:
        raise BadInputError(f"{where}: name or version is missing", "Give an easyconfig of a container.")
    given = read.known.get("sanity_check_commands", [])
    if "sanity_check_commands" in read.unknown or not isinstance(given, (list, tuple)):
        raise BadInputError(f"{where}: sanity_check_commands is not a list of strings", "Write them as strings.")
    commands = [_command(one, where) for one in given]
    module = f"{templates['name']}/{templates['version']}{templates['versionsuffix']}"
    if not _MODULE.fullmatch(module):
        raise BadInputError(f"{where}: {module!r} is not a valid module name", "Correct its name and version.")
    filled = (fill_templates(command, templates) for command in commands)
    return ReframeTests(module, (_STARTS, *filled), not NETWORKED.isdisjoint(packages))


def _command(given: object, where: str) -> str:
    """Return one of EasyBuild's commands: a string, or a pair of the program and its arguments."""
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(part, str) for part in given):
        given = " ".join(given)
    if not isinstance(given, str):
        raise BadInputError(f"{where}: {given!r} in sanity_check_commands is not a string", "Write it as a string.")
    return given


def render_reframe(tests: ReframeTests) -> str:
    """Return a Python file for `reframe -c FILE -r`."""
    commands = "".join(f"        {command!a},\n" for command in tests.commands)
    text = _CHECKS.format(module=tests.module, quoted=repr(tests.module), name=_identifier(tests), commands=commands)
    if tests.networked:
        text = text.replace(_IMPORTS, f"{_IMPORTS}from reframe.core.backends import getlauncher\n")
        text += _NETWORK.format(module=tests.module, name=_identifier(tests))
    return text


def _identifier(tests: ReframeTests) -> str:
    """Return the beginning of class names: ReFrame's directories of two versions must differ."""
    name = re.sub(r"\W", "_", tests.module, flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name


_IMPORTS = "import reframe.utility.sanity as sn\n"
_CHECKS = '''\
"""ReFrame tests of the container {module}, made by `hpcmod export reframe`."""

import reframe as rfm
import reframe.utility.sanity as sn


class {name}_Container(rfm.RunOnlyRegressionTest):
    valid_systems = ['*']
    valid_prog_environs = ['*']
    time_limit = '15m'
    executable_opts = ['&& echo "hpcmod: succeeded"']

    @sanity_function
    def succeeded(self):
        return sn.assert_found(r'^hpcmod: succeeded$', self.stdout)


@rfm.simple_test
class {name}_Check(_CONTAINER_):
    descr = 'A command of the container, without a GPU and without the network'
    modules = [{quoted}]
    command = parameter([
{commands}    ])

    @run_before('run')
    def set_command(self):
        self.executable = self.command
'''.replace("_CONTAINER_", "{name}_Container")
_NETWORK = """

class {name}_Network({name}_Container):
    num_tasks = 2
    num_tasks_per_node = 1
    tags = {{'network'}}

    @run_after('setup')
    def start_once(self):
        self.job.launcher = getlauncher('local')()  # hpcmod starts the ranks itself


@rfm.simple_test
class {name}_VerifyNet({name}_Network):
    descr = 'The container uses the fast network: exit code 1 if not'
    executable = 'hpcmod verify-net {module}'


@rfm.simple_test
class {name}_Bench({name}_Network):
    descr = 'Bandwidth between two nodes: exit code 1 if it is below the reference of the site profile'
    executable = 'hpcmod bench {module} -N 2 --ops all_reduce'

    @performance_function('GB/s')
    def all_reduce(self):
        return sn.max(sn.extractall(r'all_reduce on .*: ([0-9.]+) GB/s', self.stdout, 1, float))
"""

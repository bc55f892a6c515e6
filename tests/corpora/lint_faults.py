"""Files with one fault each.

The faults are of kinds described in public documents: man pages of sbatch and srun, the ShellCheck wiki, EasyBuild's
pages on easyconfigs, singularity-hpc's developer guide.
"""

from __future__ import annotations

from dataclasses import dataclass

A = f"sha256:{'a' * 64}"


@dataclass(frozen=True)
class Fault:
    """A file with one fault."""

    name: str
    file: str
    text: str
    line: str
    """Text of the wrong line."""


JOB = """\
#!/bin/bash -l
#SBATCH --account=project_465000001
#SBATCH --partition=standard-g
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --mem=480G
#SBATCH --time=01:00:00

module load PyTorch/2.7.1-rocm-6.2.4-singularity
srun singularity exec $SIF conda-python-distributed -u train.py --epochs 3
"""
EASYCONFIG = f"""\
easyblock = 'ContainerModule'

name = 'Tool'
version = '1.2'

homepage = 'https://example.org'
description = "Tool 1.2"
toolchain = SYSTEM

image = 'docker://quay.io/org/tool:1.2@{A}'
wrapped_commands = ['tool']

sanity_check_paths = {{'files': ['runscripts/conda-python-simple'], 'dirs': ['bin']}}
enhance_sanity_check = True

moduleclass = 'tools'
"""
CLEAN = {"job.sh": JOB, "Tool-1.2.eb": EASYCONFIG}
"""Files without faults, by name."""


def _edit(file: str, name: str, old: str, new: str, line: str = "") -> Fault:
    text = CLEAN[file]
    assert text.count(old) >= 1, name
    return Fault(name, file, text.replace(old, new, 1), line or new.strip().splitlines()[-1])


FAULTS = (
    _edit("job.sh", "no shebang", "#!/bin/bash -l\n", "", "#SBATCH --account"),
    Fault("directive after a command", "job.sh", JOB + "#SBATCH --exclusive\n", "#SBATCH --exclusive"),
    _edit("job.sh", "misspelt directive", "#SBATCH --nodes", "#SBTACH --nodes"),
    _edit("job.sh", "blanks around equals", "--nodes=2", "--nodes = 2"),
    _edit("job.sh", "unknown option", "--ntasks-per-node", "--ntask-per-node"),
    _edit("job.sh", "hours as a suffix", "--time=01:00:00", "--time=24h"),
    _edit(
        "job.sh",
        "variable in a directive",
        "#SBATCH --nodes=2",
        "#SBATCH --output=$HOME/log\n#SBATCH --nodes=2",
        "$HOME",
    ),
    _edit("job.sh", "megabytes", "--mem=480G", "--mem=480"),
    _edit("job.sh", "wrong total", "--nodes=2", "--nodes=2\n#SBATCH --ntasks=4", "--ntasks=4"),
    _edit("job.sh", "no account", "#SBATCH --account=project_465000001\n", "", "#!/bin/bash"),
    _edit("job.sh", "unclosed quote", "train.py", "'train.py"),
    _edit("job.sh", "assignment with blanks", "module load", "LIMIT = 4\nmodule load", "LIMIT = 4"),
    _edit("job.sh", "unexported setting", "module load", "NCCL_DEBUG=INFO\nmodule load", "NCCL_DEBUG"),
    _edit("job.sh", "module forgotten", "module load PyTorch/2.7.1-rocm-6.2.4-singularity\n", "", "srun"),
    _edit("job.sh", "quoted image", "exec $SIF ", "exec '$SIF' "),
    _edit("job.sh", "flag of another vendor", "exec $SIF", "exec --nv $SIF"),
    _edit("job.sh", "environment removed", "exec $SIF", "exec --cleanenv $SIF"),
    _edit("job.sh", "option after the image", "exec $SIF ", "exec $SIF --rocm "),
    _edit("job.sh", "no ranks", "conda-python-distributed", "python"),
    _edit("job.sh", "step larger than the job", "srun ", "srun --nodes=4 "),
    _edit("job.sh", "background without wait", "epochs 3", "epochs 3 &"),
    _edit("job.sh", "space after a backslash", "srun singularity", "srun \\ \n  singularity", "srun \\"),
    _edit("job.sh", "purge after load", "srun", "module purge\nsrun", "module purge"),
    _edit("job.sh", "install in the job", "srun", "singularity exec $SIF pip install einops\nsrun", "pip install"),
    _edit("job.sh", "cores of a node", "--cpus-per-task=7", "--cpus-per-task=70"),
    _edit("job.sh", "Windows line end", "--nodes=2\n", "--nodes=2\r\n", "--nodes=2"),
    _edit("Tool-1.2.eb", "version of another file", "version = '1.2'", "version = '1.3'", "name = "),
    _edit("Tool-1.2.eb", "name with a blank", "name = 'Tool'", "name = 'My Tool'"),
    _edit("Tool-1.2.eb", "no name", "name = 'Tool'\n", "", "easyblock"),
    _edit("Tool-1.2.eb", "syntax", "toolchain = SYSTEM", "toolchain = [", "toolchain"),
    _edit("Tool-1.2.eb", "moving tag", f":1.2@{A}", ":latest"),
    _edit("Tool-1.2.eb", "no digest", f"@{A}", "", "image ="),
    _edit("Tool-1.2.eb", "no registry", "quay.io/org", "org", "image ="),
    _edit("Tool-1.2.eb", "bad digest", "a" * 64, "abc", "image ="),
    _edit("Tool-1.2.eb", "command with a path", "['tool']", "['/usr/bin/tool']"),
    _edit("Tool-1.2.eb", "command of the host", "['tool']", "['srun']"),
    _edit(
        "Tool-1.2.eb",
        "variable of the module",
        "wrapped_commands",
        "environment = {'SIF': 'x'}\nwrapped_commands",
        "environment",
    ),
    _edit(
        "Tool-1.2.eb", "missing bind", "wrapped_commands", "bind_paths = ['/nowhere/x']\nwrapped_commands", "bind_paths"
    ),
    _edit(
        "Tool-1.2.eb",
        "empty element",
        "wrapped_commands",
        "modextravars = {'X_PATH': '/a::/b'}\nwrapped_commands",
        "X_PATH",
    ),
    _edit("Tool-1.2.eb", "misspelt help", '"Tool 1.2"', '"Tool 1.2: set SINGULAIRTY_BINDPATH"'),
    _edit("Tool-1.2.eb", "another module's image", '"Tool 1.2"', '"Tool 1.2: singularity exec $SIFJAX"'),
    _edit("Tool-1.2.eb", "parameter misspelt", "wrapped_commands", "wraped_commands"),
    _edit("Tool-1.2.eb", "no class", "moduleclass = 'tools'", "moduleclass = 'toolz'"),
)
"""All faults."""

"""Recipes in the formats of other tools, written for the tests, with the surprises found in real collections.

Found in 301 recipes of singularity-hpc, 70 of LUMI and 52 modules of NGC in 2026-11: error pages as tags, hundreds of
aliases, aliases with arguments, an alias called `module`, tags without a digest, the moving tag, empty values, clashing
names.
"""

from __future__ import annotations

from pathlib import Path

A, B, C = (f"sha256:{letter * 64}" for letter in "abc")

SAMTOOLS = f"""\
docker: quay.io/biocontainers/samtools
url: https://example.org/samtools
maintainer: '@somebody'
description: "It's \\"quoted\\", $(touch owned), `touch owned`, %(name)s and ]] or \\\\"
latest:
  1.10: {A}
tags:
  1.10: {A}
  1.9--h91753b0_8: {B}
  latest: {C}
filter: ['1.*']
aliases:
  samtools: /usr/local/bin/samtools
  plot-bamstats: plot-bamstats
env:
  EMPTY: ''
  SAM: "a b; $(touch owned)"
features:
  gpu: true
  home: /home/x
  x11: false
"""

ERROR_PAGE = f"""\
docker: ghcr.io/org/site
url: https://example.org/site
description: a tag that is an error page
latest: {{'<!DOCTYPE html><html><body>401</body></html>': {A}}}
tags:
  '<!DOCTYPE html><html><body>401</body></html>': {A}
  "1.0": {B}
  "1.1": "<html>not found</html>"
"""

ODD_ALIASES = f"""\
docker: vanessa/salad
url: http://example.org/salad
description: 'aliases that are no programs'
latest: {{v1: {A}}}
tags: {{v1: {A}}}
aliases:
- {{name: salad, command: /code/salad, singularity_options: "--nv", docker_options: "-it"}}
- {{name: fork, command: "/code/salad fork"}}
- {{name: pick, command: "shuf -n $(shuf -i 1-9 -n1)"}}
- {{name: prof, command: ". /etc/profile && module load x"}}
- {{name: module, command: /usr/bin/module}}
- {{name: ../../evil, command: ../../evil}}
- {{name: R4, command: /usr/bin/R}}
- {{name: '', command: ''}}
- just a text
singularity_scripts: {{post: x.sh}}
overrides: {{v1: v1.yaml}}
colour: green
"""

UNPINNED = """\
docker: alpine
url: https://example.org
description: tags without a digest
latest: {}
tags: {"3.18": , "3.19": null, "3.20": ~, latest: ''}
"""

OTHER_SAMTOOLS = SAMTOOLS.replace("quay.io/biocontainers", "ghcr.io/other")
ONLY_LATEST = f"docker: docker.io/org/tool\nurl: https://e.org\ndescription: x\nlatest: {{latest: {A}}}\n"
SAME_LATEST = ONLY_LATEST.replace("org/tool", "org/same") + f"tags: {{latest: {A}, v7: {A}}}\n"
MANY = f"oras: ghcr.io/org/openfoam\nurl: https://e.org\ndescription: x\nlatest: {{v2012: {A}}}\naliases:\n" + "".join(
    f"  foam{number}: /bin/sh /opt/openfoam/bin/foam{number}\n" for number in range(310)
)

SHPC = {
    "quay.io/biocontainers/samtools": SAMTOOLS,
    "ghcr.io/other/samtools": OTHER_SAMTOOLS,
    "ghcr.io/org/site": ERROR_PAGE,
    "vanessa/salad": ODD_ALIASES,
    "alpine": UNPINNED,
    "docker.io/org/tool": ONLY_LATEST,
    "docker.io/org/same": SAME_LATEST,
    "ghcr.io/org/openfoam": MANY,
    "released": "gh: org/released\nurl: https://e.org\ndescription: x\nlatest: {a: b}\n",
    "broken": "docker: [\n",
    "empty": "",
    "several": "docker: a/b\noras: c.io/d\n",
}

LUMI = """\
#DOC Contains PyTorch 2.7.1, on Python 3.12 and ROCm 6.2.4.
easyblock = 'MakeCp'

local_rocm = '6.2.4'
local_python = '3.12'
local_python_m = local_python.split('.')[0]
local_suffix = ''

name =          'PyTorch'
version =       '2.7.1'
versionsuffix = f'-rocm-{local_rocm}-python-{local_python}-singularity-20250827'
local_sif =     f'lumi-pytorch-rocm-{local_rocm}-python-{local_python}-pytorch-v2.7.1-dockerhash-0123456789ab.sif'

homepage = 'https://pytorch.org/'
whatis = [
    'Description: PyTorch, a machine learning package, with "quotes" and $(touch owned)',
    'Keywords: PyTorch'
]
description = f\"\"\"
This module provides a container with PyTorch %(version)s on Python {local_python}.

And help of many lines.
\"\"\"
toolchain = SYSTEM
sources = [{'filename': local_sif, 'extract_cmd': '/bin/cp -L %s .'}]
skipsteps = ['build']
files_to_copy = [([local_sif], '.')]

local_bin_python = \"\"\"
#!/bin/bash
sed -e 's|\\([[:digit:]]\\)||' ; singularity exec $SIFPYTORCH $(basename "$0") "$@"
\"\"\".replace( '$', '\\\\$' )

postinstallcmds = [
    'mkdir -p %(installdir)s/bin',
    f'cat >%(installdir)s/bin/python <<EOF {local_bin_python}EOF',
    f'ln -s ./python %(installdir)s/bin/python{local_python_m}',
    'ln -s  ./python %(installdir)s/bin/torchrun',
]
sanity_check_paths = {'files': [], 'dirs': ['runscripts']}
sanity_check_commands = ['python --version']
modextravars = {
    'CONTAINERROOT': '%(installdir)s',
    'RUNSCRIPTSPYTORCH': '%(installdir)s/runscripts',
    'SINGULARITYENV_PREPEND_PATH': '/runscripts::/user-software/venv/pytorch/bin',
    'NCCL_SOCKET_IFNAME': 'hsn',
}
modluafooter = f\"\"\"
conflict( 'singularity-AI-bindings' )
-- Call a routine to set the various environment variables.
create_container_vars( '{local_sif}', 'PyTorch', '%(installdir)s', '/pfs,/scratch' )
\"\"\"
moduleclass = 'devel'
"""
LUMI_NAME = "PyTorch-2.7.1-rocm-6.2.4-python-3.12-singularity-20250827"

NGC = """\
-- A licence
help([==[
local uri = "docker://nowhere.example.org/not/this:1"
]==])
whatis("Name: PyTorch")
whatis("Version: 21.06-py3")
whatis("Description: PyTorch, with \\"quotes\\" and $(touch owned)")
whatis("URL: https://example.org/pytorch")
conflict(myModuleName(), "rapidsai", "tensorflow")
local image = "nvcr.io_nvidia_pytorch:21.06-py3.sif"
local uri = "docker://nvcr.io/nvidia/pytorch:21.06-py3"
--local uri = "docker://nvcr.io/nvidia/pytorch:old"
local programs = {"python", "python3",
                  "nvc++", "module"}
local entrypoint_args = ""
setenv("SINGULARITYENV_LD_LIBRARY_PATH", "")
append_path("SINGULARITY_BINDPATH", workspace .. ":/workspace", ",")
local singularity = capture("which singularity | head -c -1")
local container_launch = singularity .. " exec --nv --pid --pwd /w " .. image .. " " .. entrypoint_args
for i,program in pairs(programs) do
        set_shell_function(program, container_launch .. " " .. program .. " \\"$@\\"")
end
"""

EDF_BASE = """\
mounts = ["/capstor/scratch:/capstor/scratch", "/old:/data"]
workdir = "/base"
devices = ["nvidia.com/gpu=all"]
[env]
MODE = "base"
KEEP = "1"
[annotations]
com.hooks.aws_ofi_nccl.enabled = "true"
com.hooks.aws_ofi_nccl.variant = "cuda12"
"""
EDF = """\
base_environment = ["common"]
image = "nvcr.io#nvidia/pytorch:24.01-py3"
mounts = ["/store/data.sqsh:/data:sqsh", "${SCRATCH}:${SCRATCH}", "/ro:/input:ro+private", "./here:/here"]
workdir = "${SCRATCH}"
entrypoint = false
writable = false
devices = ["nvidia.com/gpu=all", "/dev/gdrdrv", "example.org/thing=1"]
colour = "green"
[env]
MODE = "it's \\"quoted\\", %(name)s"
PATH = "${PATH}:/custom/bin"
NODE = "${VAR_FROM_HOST}"
OWNED = "$(touch owned)"
UNSET = ""
[annotations.com.hooks.ssh]
enabled = "true"
authorize_ssh_key = "/k"
"""
"""An environment definition file of CSCS with all documented keys, and the one that it inherits from."""


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write files by path; return the root directory."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def write_shpc(root: Path) -> Path:
    """Write a singularity-hpc registry with all the surprises."""
    return write_tree(root, {f"{name}/container.yaml": text for name, text in SHPC.items()})


def write_lumi(root: Path) -> Path:
    """Write easyconfigs in LUMI's style: one valid, the others with one fault each."""
    return write_tree(
        root,
        {
            f"{LUMI_NAME}.eb": LUMI,
            f"{LUMI_NAME.replace('singularity', 'singularity-exampleVenv')}.eb": LUMI,
            "PyTorch-computed.eb": LUMI.replace("version =       '2.7.1'", "version = open('/etc/hostname').read()"),
            "PyTorch-source.eb": LUMI.replace(
                "sources = [{'filename': local_sif,", "sources = [{'filename': 'x.tar.gz',"
            ),
            "ours.eb": "easyblock = 'ContainerModule'\nname = 'x'\nversion = '1'\nsources = ['x.sif']\n",
            "broken.eb": "name = 'x\n",
        },
    )


def write_ngc(root: Path) -> Path:
    """Write modules in NGC's pattern: one valid, the others without a reliable image reference."""
    return write_tree(
        root,
        {
            "pytorch/21.06-py3.lua": NGC,
            "pytorch/moving.lua": NGC.replace('pytorch:21.06-py3"', 'pytorch:latest"'),
            "other/1.0.lua": 'setenv("X", "1")\n',
        },
    )


def write_edf(root: Path) -> Path:
    """Write environment definition files: one with all keys, the one it inherits from, and some invalid ones."""
    return write_tree(
        root,
        {
            "pytorch.toml": EDF,
            "common.toml": EDF_BASE,
            "squashfs.toml": 'image = "/capstor/image.sqsh"\n',
            "moving.toml": 'image = "ubuntu:latest"\n',
            "broken.toml": "image = [\n",
            "pyproject.toml": "[project]\nname = 'x'\n",
            "circle.toml": 'base_environment = "circle"\n',
        },
    )

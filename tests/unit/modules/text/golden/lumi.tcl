set root "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"
if {[encoding system] ne "utf-8"} { catch { source $root/libexec/utf-8.tcl } } ;# Lmod reads this file as bytes, but prints UTF-8

proc ModulesHelp { } {
    puts stderr "Description\n~~~~~~~~~~~\nPyTorch 2.7.1 for AMD GPUs\n\nUse\n~~~\nsingularity exec \$SIF conda-python-simple ARGS\n    one process with the image's Python\nsrun ... singularity exec \$SIF conda-python-distributed ARGS\n    one rank of a distributed job\nstart-shell \[COMMAND ARGS\]\n    a shell in the container, or one command\nhpcmod add PyTorch PACKAGES\n    your own packages, from then on\nHPCMOD_PACKAGES=none\n    without them; SET or SET@STATE: with others\n\$SIF, \$SIFPYTORCH\n    the image\n\$RUNSCRIPTS, \$RUNSCRIPTSPYTORCH\n    the run scripts; inside the container: /runscripts\n\$CONTAINERROOT/README\n    what each file does, and where to change what\n\nCommands\n~~~~~~~~\npip, python, python3.12, torchrun, start-shell\n\nImage\n~~~~~\nThe first of:\n/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n/appl/local/containers/easybuild-sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n/appl/local/containers/sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n/appl/local/laifs/containers/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n\nImage labels\n~~~~~~~~~~~~\norg.opencontainers.image.title: PyTorch for LUMI\n\nMore information\n~~~~~~~~~~~~~~~~\nhttps://pytorch.org/"
    if {![catch {open [format %s "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"]/libexec/packages} packages]} {
        puts stderr "\nPython packages in the image\n~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n[read $packages]"
        close $packages
    }
}

module-whatis "Description: PyTorch 2.7.1 for AMD GPUs"
module-whatis "Homepage: https://pytorch.org/"
# The packages in the image, for `whatis` and `spider`.
if {![module-info mode load] && ![module-info mode unload] && ![catch {open $root/libexec/packages} packages]} {
    module-whatis "Packages: [string map {\n { }} [read $packages]]"
    close $packages
}
if {[info commands setPutMode] ne "" && [info commands extensions] ne ""} { # Lmod, from 8.2.8 on
    extensions "numpy/2.1.0" "torch/2.7.1+rocm6.2.4" "torchvision/0.22.1"
}

conflict "PyTorch"

# Written by hpcmod. From here on, this file is data; libexec/module.tcl in the installation sets and restores the variables.
array unset container
set container(module) "PyTorch/2.7.1-rocm-6.2.4-singularity"
set container(mark) "PYTORCH" ;# ends the names SIFPYTORCH and RUNSCRIPTSPYTORCH
set container(root) "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"
set container(easyconfig) "PyTorch-2.7.1-rocm-6.2.4-singularity.eb"
set container(family) "ai_container"
set container(python) 1 ;# 1: loaded next to another such module only if HPCMOD_SEVERAL=1

# $SIF: the first of these files that exists.
set container(image) [list \
    "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif" \
    "/appl/local/containers/easybuild-sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif" \
    "/appl/local/containers/sif-images/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif" \
    "/appl/local/laifs/containers/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif" \
]

# SINGULARITY_BINDPATH, APPTAINER_BINDPATH: source, path in the container ("": the same), options, and how the source is found
# ("": as it is). Of several in a group, the first whose source exists on the node. If none does: skipped, with a message if it
# is `required`. The user's own come last and win.
set container(binds) {}
lappend container(binds) [list [list "/var/spool/slurmd" "" "" "" "required"]] ;# lumi.toml: required to run across nodes: Slurm's files of the job (LUMI)
lappend container(binds) [list [list "/opt/cray" "" "" "" "required"]] ;# lumi.toml: required to run across nodes: the host's Cray libraries (LUMI)
lappend container(binds) [list [list "/usr/lib64/libcxi.so.1" "" "" "" "required"]] ;# lumi.toml: required to run across nodes: the library of Slingshot (LUMI)
lappend container(binds) [list [list "/pfs"]] ;# lumi.toml: links in /scratch, /flash, ... point there (LUMI)
lappend container(binds) [list [list "/scratch"]] ;# lumi.toml: the file systems of projects (LUMI)
lappend container(binds) [list [list "/projappl"]] ;# lumi.toml: the file systems of projects (LUMI)
lappend container(binds) [list [list "/project"]] ;# lumi.toml: the file systems of projects (LUMI)
lappend container(binds) [list [list "/flash"]] ;# lumi.toml: the file systems of projects (LUMI)
lappend container(binds) [list [list "/appl"]] ;# lumi.toml: the site's software (LUMI)
lappend container(binds) [list [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts" "/runscripts"]] ;# the run scripts
lappend container(binds) [list \
    [list [list "PyTorch" "cp312-555555555555"] "/user-software" "image-src=/,ro" "own_packages"] \
    [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software.squashfs" "/user-software" "image-src=/,ro"] \
    [list "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software" "/user-software"] \
] ;# the user's packages (hpcmod add); packages of this installation

set container(sets_bind) 1 ;# 1: in SINGULARITY_BIND too, for scripts that read or extend it

# Variables, unless the user has set them.
set container(variables) {}
lappend container(variables) "NCCL_SOCKET_IFNAME" "hsn" ;# start RCCL over the Slingshot interfaces (LUMI)
lappend container(variables) "NCCL_NET_GDR_LEVEL" "3" ;# 3: RDMA between GPUs and network cards; jobs of ROCm 7 hang with it (LUMI)
lappend container(variables) "FI_MR_CACHE_MONITOR" "userfaultfd" ;# the memory monitor that does not deadlock with RCCL (LUMI AI Factory, HPE)

# Variables in the container, as SINGULARITYENV_* and APPTAINERENV_*, unless the user has set one of the two; those of the
# second list also not if the variable is set on the host.
set container(in_container) [list \
    "VIRTUAL_ENV" "/user-software/venv/pytorch" \
    "WITH_VENV" ". /runscripts/init-conda-venv" \
    "WITH_CONDA_VENV" ". /runscripts/init-conda-venv"]
set container(in_container_unless_set) [list]
set container(path) [list "/runscripts" "/user-software/venv/pytorch/bin" "/opt/miniconda3/envs/pytorch/bin"] ;# first in the container's PATH

# Kept out of the container: the host's Python, some always, some only if set now. directory: the user's packages.
set container(keep_out) [list \
    [list "PYTHONPATH" "" if_set] \
    [list "PYTHONHOME" "" if_set] \
    [list "PYTHONSTARTUP" "" if_set] \
    [list "LD_PRELOAD" "" if_set] \
    [list "CONDA_PREFIX" ""] \
    [list "CONDA_DEFAULT_ENV" ""] \
    [list "CONDA_EXE" ""] \
    [list "CONDA_PYTHON_EXE" ""] \
    [list "CONDA_SHLVL" ""] \
    [list "CONDA_PROMPT_MODIFIER" ""]]

# Messages of the site about this image, shown once per shell.
set container(notices) [list]
if {[file isfile $root/libexec/module.tcl]} {
    source $root/libexec/module.tcl
} elseif {[module-info mode load]} {
    error "the installation is not complete: $root/libexec/module.tcl is missing. Install $container(easyconfig) again"
}

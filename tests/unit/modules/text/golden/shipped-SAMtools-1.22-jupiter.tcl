set root "/project/software/SAMtools/1.22-singularity"
if {[encoding system] ne "utf-8"} { catch { source $root/libexec/utf-8.tcl } } ;# Lmod reads this file as bytes, but prints UTF-8

proc ModulesHelp { } {
    puts stderr "Description\n~~~~~~~~~~~\nRead, write, sort and index sequence alignments in SAM, BAM and CRAM files\n\nUse\n~~~\nstart-shell \[COMMAND ARGS\]\n    a shell in the container, or one command\n\$SIF, \$SIFSAMTOOLS\n    the image\n\$RUNSCRIPTS, \$RUNSCRIPTSSAMTOOLS\n    the run scripts; inside the container: /runscripts\n\$CONTAINERROOT/README\n    what each file does, and where to change what\n\nCommands\n~~~~~~~~\nsamtools, plot-bamstats, wgsim, ace2sam, maq2sam-long, start-shell\n\nImage\n~~~~~\nThe first of:\n/project/software/SAMtools/1.22-singularity/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif\n\nMore information\n~~~~~~~~~~~~~~~~\nhttps://www.htslib.org/"
}

module-whatis "Description: Read, write, sort and index sequence alignments in SAM, BAM and CRAM files"
module-whatis "Homepage: https://www.htslib.org/"

conflict "SAMtools"

# Written by hpcmod. From here on, this file is data; libexec/module.tcl in the installation sets and restores the variables.
array unset container
set container(module) "SAMtools/1.22-singularity"
set container(mark) "SAMTOOLS" ;# ends the names SIFSAMTOOLS and RUNSCRIPTSSAMTOOLS
set container(root) "/project/software/SAMtools/1.22-singularity"
set container(easyconfig) "SAMtools-1.22-singularity.eb"
set container(family) "ai_container"
set container(python) 0 ;# 1: loaded next to another such module only if HPCMOD_SEVERAL=1

# $SIF: the first of these files that exists.
set container(image) [list \
    "/project/software/SAMtools/1.22-singularity/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif" \
]

# SINGULARITY_BINDPATH, APPTAINER_BINDPATH: source, path in the container ("": the same), options, and how the source is found
# ("": as it is). Of several in a group, the first whose source exists on the node. If none does: skipped, with a message if it
# is `required`. The user's own come last and win.
set container(binds) {}
lappend container(binds) [list [list "/project/software/SAMtools/1.22-singularity/runscripts" "/runscripts"]] ;# the run scripts
set container(sets_bind) 0 ;# 1: in SINGULARITY_BIND too, for scripts that read or extend it

# Variables, unless the user has set them.
set container(variables) {}

# Variables in the container, as SINGULARITYENV_* and APPTAINERENV_*, unless the user has set one of the two; those of the
# second list also not if the variable is set on the host.
set container(in_container) [list]
set container(in_container_unless_set) [list]
set container(path) [list "/runscripts"] ;# first in the container's PATH

# Kept out of the container: the host's Python, some always, some only if set now. directory: the user's packages.
set container(keep_out) [list \
    [list "PYTHONPATH" "" if_set] \
    [list "PYTHONHOME" "" if_set] \
    [list "PYTHONSTARTUP" "" if_set] \
    [list "LD_PRELOAD" "" if_set] \
    [list "VIRTUAL_ENV" ""] \
    [list "CONDA_PREFIX" ""] \
    [list "CONDA_DEFAULT_ENV" ""] \
    [list "CONDA_EXE" ""] \
    [list "CONDA_PYTHON_EXE" ""] \
    [list "CONDA_SHLVL" ""] \
    [list "CONDA_PROMPT_MODIFIER" ""] \
    [list "PYTHONNOUSERSITE" "1"]]

# Messages of the site about this image, shown once per shell.
set container(notices) [list]
if {[file isfile $root/libexec/module.tcl]} {
    source $root/libexec/module.tcl
} elseif {[module-info mode load]} {
    error "the installation is not complete: $root/libexec/module.tcl is missing. Install $container(easyconfig) again"
}

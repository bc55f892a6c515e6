help("Description\n~~~~~~~~~~~\nRead, write, sort and index sequence alignments in SAM, BAM and CRAM files\n\nUse\n~~~\nstart-shell [COMMAND ARGS]\n    a shell in the container, or one command\n$SIF, $SIFSAMTOOLS\n    the image\n$RUNSCRIPTS, $RUNSCRIPTSSAMTOOLS\n    the run scripts; inside the container: /runscripts\n$CONTAINERROOT/README\n    what each file does, and where to change what\n\nCommands\n~~~~~~~~\nsamtools, plot-bamstats, wgsim, ace2sam, maq2sam-long, start-shell\n\nImage\n~~~~~\nThe first of:\n/project/software/SAMtools/1.22-singularity/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif\n/appl/local/containers/easybuild-sif-images/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif\n/appl/local/containers/sif-images/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif\n/appl/local/laifs/containers/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif\n\nMore information\n~~~~~~~~~~~~~~~~\nhttps://www.htslib.org/")
whatis("Description: Read, write, sort and index sequence alignments in SAM, BAM and CRAM files")
whatis("Homepage: https://www.htslib.org/")

local root = "/project/software/SAMtools/1.22-singularity"

conflict("SAMtools")

-- Written by hpcmod. From here on, this file is data; libexec/module.lua in the installation sets and restores the variables.
if mode() == "spider" then return end -- `avail` and `spider` read all modules and need no variables
local container = {
    module = "SAMtools/1.22-singularity",
    mark = "SAMTOOLS", -- ends the names SIFSAMTOOLS and RUNSCRIPTSSAMTOOLS
    root = "/project/software/SAMtools/1.22-singularity",
    easyconfig = "SAMtools-1.22-singularity.eb",
    family = "ai_container",
    python = false, -- true: loaded next to another such module only if HPCMOD_SEVERAL=1

    -- $SIF: the first of these files that exists.
    image = {
        "/project/software/SAMtools/1.22-singularity/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif",
        "/appl/local/containers/easybuild-sif-images/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif",
        "/appl/local/containers/sif-images/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif",
        "/appl/local/laifs/containers/samtools-1.22--h96c455f_0-sha256-6d00e632bae58b7e.sif",
    },

    -- SINGULARITY_BINDPATH, APPTAINER_BINDPATH: source, `to` a path in the container (default: the same), options. Of several
    -- in a group, the first whose source exists on the node. If none does: skipped, with a message if it is `required`. The
    -- user's own come last and win.
    binds = {
        { "/var/spool/slurmd", required = true }, -- lumi.toml: required to run across nodes: Slurm's files of the job (LUMI)
        { "/opt/cray", required = true }, -- lumi.toml: required to run across nodes: the host's Cray libraries (LUMI)
        { "/usr/lib64/libcxi.so.1", required = true }, -- lumi.toml: required to run across nodes: the library of Slingshot (LUMI)
        { "/pfs" }, -- lumi.toml: links in /scratch, /flash, ... point there (LUMI)
        { "/scratch" }, -- lumi.toml: the file systems of projects (LUMI)
        { "/projappl" }, -- lumi.toml: the file systems of projects (LUMI)
        { "/project" }, -- lumi.toml: the file systems of projects (LUMI)
        { "/flash" }, -- lumi.toml: the file systems of projects (LUMI)
        { "/appl" }, -- lumi.toml: the site's software (LUMI)
        { "/project/software/SAMtools/1.22-singularity/runscripts", to = "/runscripts" }, -- the run scripts
    },
    sets_bind = true, -- true: in SINGULARITY_BIND too, for scripts that read or extend it

    -- Variables, unless the user has set them.
    variables = {
        { "NCCL_SOCKET_IFNAME", "hsn" }, -- start RCCL over the Slingshot interfaces (LUMI)
        { "FI_MR_CACHE_MONITOR", "userfaultfd" }, -- the memory monitor that does not deadlock with RCCL (LUMI AI Factory, HPE)
    },

    -- Variables in the container, as SINGULARITYENV_* and APPTAINERENV_*, unless the user has set one of the two; with
    -- host_wins also if the variable is set on the host.
    in_container = {
    },
    path = { "/runscripts" }, -- first in the container's PATH

    -- Kept out of the container: the host's Python, some always, some only if set now. directory: the user's packages.
    keep_out = {
        { "PYTHONPATH", "", if_set = true },
        { "PYTHONHOME", "", if_set = true },
        { "PYTHONSTARTUP", "", if_set = true },
        { "LD_PRELOAD", "", if_set = true },
        { "VIRTUAL_ENV", "" },
        { "CONDA_PREFIX", "" },
        { "CONDA_DEFAULT_ENV", "" },
        { "CONDA_EXE", "" },
        { "CONDA_PYTHON_EXE", "" },
        { "CONDA_SHLVL", "" },
        { "CONDA_PROMPT_MODIFIER", "" },
    },

    -- Messages of the site about this image, shown once per shell.
    notices = {
    },
}
local code = root .. "/libexec/module.lua"
local logic = lfs.attributes(code, "mode") == "file" and loadfile(code)
if logic then
    logic(container)
elseif mode() == "load" then
    LmodError("the installation is not complete: " .. code .. " is missing. Install " .. container.easyconfig .. " again")
end

help("Description\n~~~~~~~~~~~\nPyTorch 2.7.1 for AMD GPUs\n\nUse\n~~~\nsingularity exec $SIF conda-python-simple ARGS\n    one process with the image's Python\nsrun ... singularity exec $SIF conda-python-distributed ARGS\n    one rank of a distributed job\nstart-shell [COMMAND ARGS]\n    a shell in the container, or one command\nhpcmod add PyTorch PACKAGES\n    your own packages, from then on\nHPCMOD_PACKAGES=none\n    without them; SET or SET@STATE: with others\n$SIF, $SIFPYTORCH\n    the image\n$RUNSCRIPTS, $RUNSCRIPTSPYTORCH\n    the run scripts; inside the container: /runscripts\n$CONTAINERROOT/README\n    what each file does, and where to change what\n\nCommands\n~~~~~~~~\npip, python, python3.12, torchrun, start-shell\n\nImage\n~~~~~\nThe first of:\n/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif\n\nImage labels\n~~~~~~~~~~~~\norg.opencontainers.image.title: PyTorch for LUMI\n\nMore information\n~~~~~~~~~~~~~~~~\nhttps://pytorch.org/")
whatis("Description: PyTorch 2.7.1 for AMD GPUs")
whatis("Homepage: https://pytorch.org/")
if LmodVersion and convertToCanonical(LmodVersion()) >= convertToCanonical("8.2.8") then
    extensions("numpy/2.1.0,torch/2.7.1+rocm6.2.4,torchvision/0.22.1")
end

local root = "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity"

-- The packages in the image, for `help`, `whatis` and `spider`.
local packages = mode() ~= "load" and mode() ~= "unload" and io.open(root .. "/libexec/packages")
if packages then
    local text = packages:read("*a")
    packages:close()
    help("\nPython packages in the image\n~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n" .. text)
    whatis("Packages: " .. string.gsub(text, "\n", " "))
end

conflict("PyTorch")

-- Written by hpcmod. From here on, this file is data; libexec/module.lua in the installation sets and restores the variables.
if mode() == "spider" then return end -- `avail` and `spider` read all modules and need no variables
local container = {
    module = "PyTorch/2.7.1-rocm-6.2.4-singularity",
    mark = "PYTORCH", -- ends the names SIFPYTORCH and RUNSCRIPTSPYTORCH
    root = "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity",
    easyconfig = "PyTorch-2.7.1-rocm-6.2.4-singularity.eb",
    family = "ai_container",
    python = true, -- true: loaded next to another such module only if HPCMOD_SEVERAL=1

    -- $SIF: the first of these files that exists.
    image = {
        "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/lumi-pytorch-rocm-6.2.4-python-3.12-pytorch-v2.7.1.sif",
    },

    -- SINGULARITY_BINDPATH, APPTAINER_BINDPATH: source, `to` a path in the container (default: the same), options. Of several
    -- in a group, the first whose source exists on the node. If none does: skipped, with a message if it is `required`. The
    -- user's own come last and win.
    binds = {
        { "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/runscripts", to = "/runscripts" }, -- the run scripts
        {
            { own_packages = { name = "PyTorch", fits = "cp312-555555555555" }, to = "/user-software", options = "image-src=/,ro" }, -- the user's packages (hpcmod add)
            { "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software.squashfs", to = "/user-software", options = "image-src=/,ro" }, -- packages of this installation
            { "/project/software/PyTorch/2.7.1-rocm-6.2.4-singularity/user-software", to = "/user-software" }, -- packages of this installation
        },
    },
    sets_bind = false, -- true: in SINGULARITY_BIND too, for scripts that read or extend it

    -- Variables, unless the user has set them.
    variables = {
    },

    -- Variables in the container, as SINGULARITYENV_* and APPTAINERENV_*, unless the user has set one of the two; with
    -- host_wins also if the variable is set on the host.
    in_container = {
        { "VIRTUAL_ENV", "/user-software/venv/pytorch" },
        { "WITH_VENV", ". /runscripts/init-conda-venv" },
        { "WITH_CONDA_VENV", ". /runscripts/init-conda-venv" },
    },
    path = { "/runscripts", "/user-software/venv/pytorch/bin", "/opt/miniconda3/envs/pytorch/bin" }, -- first in the container's PATH

    -- Kept out of the container: the host's Python, some always, some only if set now. directory: the user's packages.
    keep_out = {
        { "PYTHONPATH", "", if_set = true },
        { "PYTHONHOME", "", if_set = true },
        { "PYTHONSTARTUP", "", if_set = true },
        { "LD_PRELOAD", "", if_set = true },
        { "CONDA_PREFIX", "" },
        { "CONDA_DEFAULT_ENV", "" },
        { "CONDA_EXE", "" },
        { "CONDA_PYTHON_EXE", "" },
        { "CONDA_SHLVL", "" },
        { "CONDA_PROMPT_MODIFIER", "" },
        { "PYTHONNOUSERSITE", "1", directory = "lib/python3.12/site-packages" },
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

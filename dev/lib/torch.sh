# PyTorch for CPUs, whichever indexes pip uses.
# shellcheck shell=bash disable=SC2154  # see paths.sh

# with_cpu_torch COMMAND...: run a pip command that needs the CPU build of torch, version X+cpu. PyPI has only the CUDA build,
# with 2.8 GB of libraries. So if pip's own indexes do not have it, try PyTorch's index of CPU builds.
cpu_index=https://download.pytorch.org/whl/cpu
with_cpu_torch() {
    "$@" && return
    talk "pip's indexes have no CPU build of torch; trying $cpu_index"
    "$@" --retries 1 --timeout 15 --extra-index-url "$cpu_index" && return
    die "pip finds no CPU build of torch $torch (the build on PyPI is for CUDA and takes 2.8 GB, so it is not used)" \
        "PIP_EXTRA_INDEX_URL=$cpu_index (or a mirror of it), or PIP_FIND_LINKS=DIRECTORY with the wheel; HPCMOD_TORCH=VERSION for another version"
}

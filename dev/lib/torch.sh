# PyTorch for CPUs, whichever indexes pip uses.
# shellcheck shell=bash disable=SC2154  # see paths.sh

# with_cpu_torch COMMAND...: run a pip command that asks for torch's build for CPUs, version X+cpu. PyPI lacks it: its torch is
# the build for CUDA, with 2.8 GB of libraries. So where pip's own indexes have none, PyTorch's index of CPU builds is asked.
cpu_index=https://download.pytorch.org/whl/cpu
with_cpu_torch() {
    "$@" && return
    talk "no build of torch for CPUs where pip looks; asking $cpu_index"
    "$@" --retries 1 --timeout 15 --extra-index-url "$cpu_index" && return
    die "pip finds no build of torch $torch for CPUs (the one on PyPI is for CUDA and takes 2.8 GB, so it is not used)" \
        "PIP_EXTRA_INDEX_URL=$cpu_index (or a mirror of it), or PIP_FIND_LINKS=DIRECTORY with the wheel; HPCMOD_TORCH=VERSION for another version"
}

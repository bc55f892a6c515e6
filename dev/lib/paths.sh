# The directory of the test stack, set only here.
# shellcheck shell=bash disable=SC2034,SC2154  # read and set by the scripts that source this file

worker=$(id -un) # the user who does the work; for root, an ordinary user, because EasyBuild refuses root
if ((EUID == 0)); then worker=${SUDO_USER:-hpcmod-dev}; fi
if [[ $worker == root ]]; then worker=hpcmod-dev; fi

stack=${HPCMOD_DEV_DIR:-/var/tmp/hpcmod-dev-$worker}
checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
torch=${HPCMOD_TORCH:-2.13.0}
jupyterlab=4.6.6
ipykernel=7.4.0

venv=$stack/venv
tiny_sif=$stack/images/tiny.sif
torch_sif=$stack/images/hpcmod-pytorch-${torch%%+*}-cpu.sif
jupyter_sif=$stack/images/jupyter-$jupyterlab-$ipykernel.sif
base_image=$stack/images/base
wheels=$stack/wheels

# An ordinary user's PATH on Debian lacks sbin, where the daemons of Slurm are.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

# remove_left DIRECTORY COUNT: remove what failed runs of dev/test have left there, but for the last COUNT.
remove_left() {
    local path
    find "$1" -maxdepth 1 -type d -user "$worker" -regex '.*/hpcmod-[0-9]+-[0-9]+' 2>/dev/null | sort | while read -r path; do
        kill -0 "${path##*-}" 2>/dev/null || echo "$path"
    done | head -n "-$2" | while read -r path; do
        { chmod -R u+w "$path" && rm -rf "$path"; } || talk "cannot remove $path"
    done || true # find fails if another process removes a file meanwhile
}

#!/bin/bash
# Horovod over the MPI in the prefix. HOROVOD: its version; FRAMEWORK: PYTORCH or TENSORFLOW; GPU: cuda or rocm.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"
enter_work

# 0.28.1, the last release, sets C++14, but PyTorch from 2.1 on needs C++17: this cmake changes it.
cmake=$(type -P cmake || true)
[[ -n $cmake ]] || { install_packages cmake; cmake=$(type -P cmake); }
cat >"$work/cmake" <<END
#!/bin/bash
for place in "\$@"; do
    if [[ -f \$place/CMakeLists.txt ]]; then
        sed -i "s/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/" "\$place/CMakeLists.txt"
    fi
done
exec "$cmake" "\$@"
END
chmod 755 "$work/cmake"
export PATH=$prefix/bin:$PATH
export HOROVOD_CMAKE=$work/cmake HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_GPU_OPERATIONS=NCCL
export "HOROVOD_WITH_$FRAMEWORK=1"
case $GPU in
    cuda) export HOROVOD_NCCL_LINK=SHARED HOROVOD_CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" ;;
    rocm) export HOROVOD_GPU=ROCM HOROVOD_ROCM_HOME="${ROCM_PATH:-/opt/rocm}" ;;
esac
NO_BINARY=horovod pip_install "horovod==$HOROVOD"

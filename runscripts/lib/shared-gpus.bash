# For warn_of_shared_gpus: the ranks of a node share GPUs.
_mps=''
[[ ${_gpu_variables[0]-} != CUDA_VISIBLE_DEVICES ]] || _mps=', and CUDA MPS on each node'
say "$LOCAL_WORLD_SIZE ranks on this node share $_devices GPU(s), which NCCL and RCCL refuse. Start one rank per GPU; for \
programs without NCCL: --gpus-visible one$_mps"

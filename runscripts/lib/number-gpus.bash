# For number_gpus: mpirun, mpiexec and PALS do not assign GPUs, and a scheduler that assigns none only counts them. If the node
# type has one for each rank, and the job has all of them, each rank gets the GPU with its index.
[[ ${_gpu_variables[0]-} ]] || return 0
find_node_type
[[ $_launcher == @(mpirun|mpiexec|PALS) || ($_launcher == "$_task_launcher" && $_gpus_here == "$_node_gpus") ]] || return 0
((LOCAL_WORLD_SIZE > 1 && LOCAL_WORLD_SIZE <= _node_gpus)) || return 0
find_near_gpu "$_node_gpus" || REPLY=$_place
put "${_gpu_variables[0]}" "$REPLY" "of $_node_gpus on this node type"
_devices=1

# For warn_of_missing_mpi, with its arguments: the script uses MPI, and the launcher gives it no PMI.
IFS= read -r -N 65536 _text <"$1"
[[ $'\n'$_text =~ $'\n'[[:blank:]]*(import|from)[[:blank:]]+(mpi4py|dask_mpi|petsc4py) ]] || return 0
say "$1 uses MPI, which gets no PMI from $_launcher, so that each rank is rank 0 of 1: add --mpi=pmi2 (MPICH) or --mpi=pmix (Open MPI)"

"""Why a run failed or hangs: known endings, what a log says of each rank, and how stacks and collectives compare."""

"""Install conda packages next to an image, with rattler's solver, without starting anything of theirs."""

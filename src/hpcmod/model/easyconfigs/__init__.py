"""Read and edit easyconfigs as text, without executing them."""

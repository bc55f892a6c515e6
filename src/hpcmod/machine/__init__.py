"""What is known of a machine: site profiles, the one that is meant, its GPUs, its module tool."""

"""Jobs: node layout, ranks, CPU masks and launchers."""

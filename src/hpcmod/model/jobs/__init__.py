"""What a job is: who runs where, on which cores, started by what."""

"""The commands that start jobs: job, launch."""

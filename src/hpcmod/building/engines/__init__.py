"""Programs that build images: buildah, podman, apptainer."""

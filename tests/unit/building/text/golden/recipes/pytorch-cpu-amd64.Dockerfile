# pytorch-cpu for amd64, fingerprint (fingerprint). Written by `hpcmod build`.
FROM docker.io/library/debian:12
COPY hpcmod/common.sh hpcmod/lock /opt/hpcmod/build/
COPY hpcmod/01-debian-python.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env ARCH=amd64 bash /opt/hpcmod/build/01-debian-python.sh
COPY hpcmod/02-debian-openmpi.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env ARCH=amd64 bash /opt/hpcmod/build/02-debian-openmpi.sh
COPY hpcmod/03-python-packages.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env PACKAGES="torch==2.13.0+cpu numpy==2.4.6" INDEX="" PYTHON=/opt/miniconda3/envs/pytorch/bin/python ARCH=amd64 bash /opt/hpcmod/build/03-python-packages.sh
COPY hpcmod/04-python-packages.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env PACKAGES=mpi4py==4.1.2 PYTHON=/opt/miniconda3/envs/pytorch/bin/python ARCH=amd64 bash /opt/hpcmod/build/04-python-packages.sh
COPY hpcmod/05-finish.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env LIBRARIES=/opt/miniconda3/envs/pytorch/lib ARCH=amd64 bash /opt/hpcmod/build/05-finish.sh
ENV WITH_CONDA="source /opt/miniconda3/bin/activate pytorch"
ENV PATH=/opt/miniconda3/envs/pytorch/bin${PATH:+:$PATH}
LABEL org.opencontainers.image.title=pytorch-cpu \
org.opencontainers.image.description="PyTorch for CPUs with MPI on libfabric, all from binary packages" \
org.hpcmod.recipe=pytorch-cpu \
org.hpcmod.options="arch=amd64 debian=12 mpi=ompi mpi4py=4.1.2 numpy=2.4.6 ofi=swap torch=2.13.0+cpu" \
org.hpcmod.gpu=none \
org.hpcmod.mpi=ompi \
org.hpcmod.ofi=swap \
org.hpcmod.fingerprint=(fingerprint)

# pytorch-rocm-wheels-2.2.2 for amd64, fingerprint (fingerprint). Written by `hpcmod build`.
FROM docker.io/rocm/dev-ubuntu-22.04:5.7.1
COPY hpcmod/common.sh hpcmod/lock /opt/hpcmod/build/
COPY hpcmod/01-build-tools.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env OFI=swap ARCH=amd64 bash /opt/hpcmod/build/01-build-tools.sh
COPY hpcmod/02-system-python.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env PIP=24.0 ARCH=amd64 bash /opt/hpcmod/build/02-system-python.sh
COPY hpcmod/03-libfabric.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env LIBFABRIC_VERSION=1.19.1 LIBFABRIC_URL=https://github.com/ofiwg/libfabric/releases/download/v1.19.1/libfabric-1.19.1.tar.bz2 OFI=swap GPU=rocm ARCH=amd64 bash /opt/hpcmod/build/03-libfabric.sh
COPY hpcmod/04-mpich.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env MPICH_VERSION=4.1.2 MPICH_URL=https://www.mpich.org/static/downloads/4.1.2/mpich-4.1.2.tar.gz GPU=rocm ARCH=amd64 bash /opt/hpcmod/build/04-mpich.sh
COPY hpcmod/05-aws-ofi-nccl.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env AWS_OFI_NCCL_VERSION=1.20.0 AWS_OFI_NCCL_URL=https://github.com/aws/aws-ofi-nccl/archive/v1.20.0.tar.gz GPU=rocm EXTRAS=aws-trace ARCH=amd64 bash /opt/hpcmod/build/05-aws-ofi-nccl.sh
COPY hpcmod/06-python-packages.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env PACKAGES="torch==2.2.2+rocm5.7 torchvision==0.17.2 torchaudio==2.2.2 numpy==1.26.4" INDEX="" ARCH=amd64 bash /opt/hpcmod/build/06-python-packages.sh
COPY hpcmod/07-mpi4py.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env MPI4PY=4.1.2 CYTHON=3.3.1 ARCH=amd64 bash /opt/hpcmod/build/07-mpi4py.sh
COPY hpcmod/08-host-links.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env ARCH=amd64 bash /opt/hpcmod/build/08-host-links.sh
COPY hpcmod/09-host-libs.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env ARCH=amd64 bash /opt/hpcmod/build/09-host-libs.sh
COPY hpcmod/10-finish.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env LIBRARIES=/container/hpc/lib ARCH=amd64 bash /opt/hpcmod/build/10-finish.sh
ENV LD_LIBRARY_PATH=/host/lib:/container/host-links:/container/host-libs:/container/hpc/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
ENV PATH=/container/hpc/bin${PATH:+:$PATH}
LABEL org.opencontainers.image.title=pytorch-rocm-wheels-2.2.2 \
org.opencontainers.image.description="PyTorch 2.2.2 for ROCm 5.7 from wheels, as Frontiers guide installs it" \
org.hpcmod.recipe=pytorch-rocm-wheels-2.2.2 \
org.hpcmod.options="arch=amd64 aws-ofi-nccl=1.20.0 cython=3.3.1 libfabric-swap=1.19.1 mpi=mpich mpi4py=4.1.2 mpich=4.1.2 numpy=1.26.4 ofi=swap pip=24.0 rocm-base=5.7.1 torch=2.2.2+rocm5.7 torchaudio=2.2.2 torchvision=0.17.2 ubuntu=22.04 with=aws-trace" \
org.hpcmod.gpu=rocm \
org.hpcmod.mpi=mpich \
org.hpcmod.ofi=swap \
org.hpcmod.fingerprint=(fingerprint)

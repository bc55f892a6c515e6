# tensorflow-rocm-ofi for amd64, fingerprint (fingerprint). Written by `hpcmod build`.
FROM docker.io/rocm/pytorch:rocm6.0_ubuntu20.04_py3.9_pytorch_2.1.1
COPY hpcmod/common.sh hpcmod/lock /opt/hpcmod/build/
COPY hpcmod/01-build-tools.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env OFI=builtin ARCH=amd64 bash /opt/hpcmod/build/01-build-tools.sh
COPY hpcmod/02-cxi.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env SHS_CASSINI_HEADERS_VERSION=13.0.0 SHS_CASSINI_HEADERS_URL=https://github.com/HewlettPackard/shs-cassini-headers/archive/refs/tags/release/shs-13.0.0.tar.gz SHS_CXI_DRIVER_VERSION=13.0.0 SHS_CXI_DRIVER_URL=https://github.com/HewlettPackard/shs-cxi-driver/archive/refs/tags/release/shs-13.0.0.tar.gz SHS_LIBCXI_VERSION=13.0.0 SHS_LIBCXI_URL=https://github.com/HewlettPackard/shs-libcxi/archive/refs/tags/release/shs-13.0.0.tar.gz ARCH=amd64 bash /opt/hpcmod/build/02-cxi.sh
COPY hpcmod/03-libfabric.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env LIBFABRIC_VERSION=2.2.0 LIBFABRIC_URL=https://github.com/ofiwg/libfabric/releases/download/v2.2.0/libfabric-2.2.0.tar.bz2 OFI=builtin GPU=rocm ARCH=amd64 bash /opt/hpcmod/build/03-libfabric.sh
COPY hpcmod/04-mpich.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env MPICH_VERSION=4.3.2 MPICH_URL=https://www.mpich.org/static/downloads/4.3.2/mpich-4.3.2.tar.gz GPU=rocm ARCH=amd64 bash /opt/hpcmod/build/04-mpich.sh
COPY hpcmod/05-aws-ofi-nccl.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env AWS_OFI_NCCL_VERSION=1.20.0 AWS_OFI_NCCL_URL=https://github.com/aws/aws-ofi-nccl/archive/v1.20.0.tar.gz GPU=rocm EXTRAS=aws-trace,horovod ARCH=amd64 bash /opt/hpcmod/build/05-aws-ofi-nccl.sh
COPY hpcmod/06-python-packages.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env PACKAGES=tensorflow-rocm==2.14.0.600 ARCH=amd64 bash /opt/hpcmod/build/06-python-packages.sh
COPY hpcmod/07-mpi4py.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env MPI4PY=4.1.2 CYTHON=3.3.1 ARCH=amd64 bash /opt/hpcmod/build/07-mpi4py.sh
COPY hpcmod/08-horovod.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env HOROVOD=0.28.1 FRAMEWORK=TENSORFLOW GPU=rocm ARCH=amd64 bash /opt/hpcmod/build/08-horovod.sh
COPY hpcmod/09-host-libs.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env ARCH=amd64 bash /opt/hpcmod/build/09-host-libs.sh
COPY hpcmod/10-finish.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env LIBRARIES=/container/hpc/lib ARCH=amd64 bash /opt/hpcmod/build/10-finish.sh
ENV LD_LIBRARY_PATH=/container/host-libs:/container/hpc/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
ENV PATH=/container/hpc/bin${PATH:+:$PATH}
LABEL org.opencontainers.image.title=tensorflow-rocm-ofi \
org.opencontainers.image.description="TensorFlow for AMD GPUs with MPI, libfabric and the RCCL plugin" \
org.hpcmod.recipe=tensorflow-rocm-ofi \
org.hpcmod.options="arch=amd64 aws-ofi-nccl=1.20.0 cython=3.3.1 horovod=0.28.1 libfabric=2.2.0 mpi=mpich mpi4py=4.1.2 mpich=4.3.2 ofi=builtin shs=13.0.0 tag=rocm6.0_ubuntu20.04_py3.9_pytorch_2.1.1 tensorflow-rocm=2.14.0.600 with=aws-trace,horovod" \
org.hpcmod.gpu=rocm \
org.hpcmod.mpi=mpich \
org.hpcmod.ofi=builtin \
org.hpcmod.fingerprint=(fingerprint)

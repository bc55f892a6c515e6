# pytorch-ngc-ofi for amd64, fingerprint (fingerprint). Written by `hpcmod build`.
FROM nvcr.io/nvidia/pytorch:25.06-py3
COPY hpcmod/common.sh hpcmod/lock /opt/hpcmod/build/
COPY hpcmod/01-build-tools.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env OFI=builtin ARCH=amd64 bash /opt/hpcmod/build/01-build-tools.sh
COPY hpcmod/02-remove-vendor-ofi.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env ARCH=amd64 bash /opt/hpcmod/build/02-remove-vendor-ofi.sh
COPY hpcmod/03-cxi.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env SHS_CASSINI_HEADERS_VERSION=13.0.0 SHS_CASSINI_HEADERS_URL=https://github.com/HewlettPackard/shs-cassini-headers/archive/refs/tags/release/shs-13.0.0.tar.gz SHS_CXI_DRIVER_VERSION=13.0.0 SHS_CXI_DRIVER_URL=https://github.com/HewlettPackard/shs-cxi-driver/archive/refs/tags/release/shs-13.0.0.tar.gz SHS_LIBCXI_VERSION=13.0.0 SHS_LIBCXI_URL=https://github.com/HewlettPackard/shs-libcxi/archive/refs/tags/release/shs-13.0.0.tar.gz ARCH=amd64 bash /opt/hpcmod/build/03-cxi.sh
COPY hpcmod/04-libfabric.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env LIBFABRIC_VERSION=2.2.0 LIBFABRIC_URL=https://github.com/ofiwg/libfabric/releases/download/v2.2.0/libfabric-2.2.0.tar.bz2 OFI=builtin GPU=cuda ARCH=amd64 bash /opt/hpcmod/build/04-libfabric.sh
COPY hpcmod/05-pmix.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env PMIX_VERSION=5.0.3 PMIX_URL=https://github.com/openpmix/openpmix/releases/download/v5.0.3/pmix-5.0.3.tar.bz2 ARCH=amd64 bash /opt/hpcmod/build/05-pmix.sh
COPY hpcmod/06-openmpi.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env OPENMPI_VERSION=5.0.8 OPENMPI_URL=https://download.open-mpi.org/release/open-mpi/v5.0/openmpi-5.0.8.tar.bz2 OFI=builtin GPU=cuda ARCH=amd64 bash /opt/hpcmod/build/06-openmpi.sh
COPY hpcmod/07-nccl.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env NCCL_VERSION=2.27.7-1 NCCL_URL=https://github.com/NVIDIA/nccl/archive/v2.27.7-1.tar.gz GENCODE="-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90" ARCH=amd64 bash /opt/hpcmod/build/07-nccl.sh
COPY hpcmod/08-aws-ofi-nccl.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env AWS_OFI_NCCL_VERSION=1.20.0 AWS_OFI_NCCL_URL=https://github.com/aws/aws-ofi-nccl/archive/v1.20.0.tar.gz GPU=cuda EXTRAS=aws-trace,deepspeed,horovod,nccl,nccl-tests ARCH=amd64 bash /opt/hpcmod/build/08-aws-ofi-nccl.sh
COPY hpcmod/09-nccl-tests.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env NCCL_TESTS_VERSION=2.17.6 NCCL_TESTS_URL=https://github.com/NVIDIA/nccl-tests/archive/v2.17.6.tar.gz MPI=ompi GENCODE="-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90" ARCH=amd64 bash /opt/hpcmod/build/09-nccl-tests.sh
COPY hpcmod/10-mpi4py.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env MPI4PY=4.1.2 CYTHON=3.3.1 ARCH=amd64 bash /opt/hpcmod/build/10-mpi4py.sh
COPY hpcmod/11-horovod.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env HOROVOD=0.28.1 FRAMEWORK=PYTORCH GPU=cuda ARCH=amd64 bash /opt/hpcmod/build/11-horovod.sh
COPY hpcmod/12-python-packages.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env PACKAGES="deepspeed==0.16.4 transformers==4.56.2" NO_BINARY=deepspeed CONSTRAINT=none ARCH=amd64 bash /opt/hpcmod/build/12-python-packages.sh
COPY hpcmod/13-host-libs.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env ARCH=amd64 bash /opt/hpcmod/build/13-host-libs.sh
COPY hpcmod/14-finish.sh /opt/hpcmod/build/
RUN --mount=type=bind,source=hpcmod/sources,target=/opt/hpcmod/build/sources --mount=type=bind,source=hpcmod/wheels,target=/opt/hpcmod/build/wheels --mount=type=bind,source=hpcmod/host-libs,target=/opt/hpcmod/build/host-libs env LIBRARIES=/container/hpc/lib ARCH=amd64 bash /opt/hpcmod/build/14-finish.sh
ENV LD_LIBRARY_PATH=/container/host-libs:/container/hpc/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
ENV PATH=/container/hpc/bin${PATH:+:$PATH}
LABEL org.opencontainers.image.title=pytorch-ngc-ofi \
org.opencontainers.image.description="PyTorch from NVIDIAs registry with MPI, libfabric and the NCCL plugin for Slingshot" \
org.hpcmod.recipe=pytorch-ngc-ofi \
org.hpcmod.options="arch=amd64 aws-ofi-nccl=1.20.0 cython=3.3.1 deepspeed=0.16.4 gencode=-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 horovod=0.28.1 libfabric=2.2.0 mpi=ompi mpi4py=4.1.2 nccl=2.27.7-1 nccl-tests=2.17.6 ngc=25.06 ofi=builtin openmpi=5.0.8 pmix=5.0.3 shs=13.0.0 transformers=4.56.2 with=aws-trace,deepspeed,horovod,nccl,nccl-tests" \
org.hpcmod.gpu=cuda \
org.hpcmod.mpi=ompi \
org.hpcmod.ofi=builtin \
org.hpcmod.fingerprint=(fingerprint)

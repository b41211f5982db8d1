#!/bin/sh
# nvcc.sh ARGUMENT…: runs nvcc for a single GPU architecture. The arguments name nine architectures, as the samples do,
# which would take nine times as long. CMake takes this file as CMAKE_CUDA_COMPILER.
# With separable compilation, also makes machine code, which the linker of device code needs. Other code is PTX only.
# $VIRGATE_NVCC is the compiler, and $VIRGATE_ARCH the architecture.
arch=${VIRGATE_ARCH:-90}
code=compute_$arch
for argument in "$@"; do
	shift
	case $argument in
	--generate-code=* | -gencode=*) continue ;;
	-rdc=true | -dlink) code="[compute_$arch,sm_$arch]" ;;
	esac
	set -- "$@" "$argument"
done
exec "${VIRGATE_NVCC:-/usr/local/cuda/bin/nvcc}" -gencode "arch=compute_$arch,code=$code" "$@"

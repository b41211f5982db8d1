#!/bin/sh
# nvcc.sh ARGUMENT…: runs nvcc for one GPU architecture instead of those in the arguments: the samples have nine, which
# take nine times as long. Separable compilation also makes machine code, which the linker of device code needs; other
# code is PTX only. $VIRGATE_NVCC is the compiler, $VIRGATE_ARCH the architecture. CMake takes this file as
# CMAKE_CUDA_COMPILER.
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

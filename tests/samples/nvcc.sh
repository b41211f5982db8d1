#!/bin/sh
# nvcc.sh ARGUMENT…: nvcc for one GPU architecture, whatever a build names: the samples name nine, which take nine
# times as long. Code of separable compilation has machine code, too, since the linker of device code needs it; other
# code is PTX alone. $VIRGATE_NVCC is the compiler, $VIRGATE_ARCH the architecture. CMake takes this file as
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

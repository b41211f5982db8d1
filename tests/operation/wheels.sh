#!/bin/sh
# wheels.sh COMMAND...: runs the command with the libraries cuBLASLt and cuDNN. Takes them from the toolkit or the
# dynamic linker, or else from the packages of Python that PyTorch needs: nvidia/cublas/lib, nvidia/cudnn/lib or
# nvidia/cu13/lib below a directory of Python's path.
set -u
there() { # FILE: succeeds if the dynamic linker or a toolkit has it
	for root in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
		[ -n "$root" ] && { [ -e "$root/lib64/$1" ] || [ -e "$root/lib/$1" ]; } && return 0
	done
	ldconfig -p 2>/dev/null | grep -qF "$1"
}
package() { # FILE...: prints the path of the first FILE that a package has
	python3 - "$@" 2>/dev/null <<-'END'
		import glob, sys
		print(next((path for name in sys.argv[1:] for folder in sys.path
		            for path in sorted(glob.glob(f"{folder}/nvidia/*/lib/{name}"))), ""))
	END
}
if [ -z "${VIRGATE_CUBLASLT:-}" ] && ! there libcublasLt.so.13 && ! there libcublasLt.so.12; then
	VIRGATE_CUBLASLT=$(package libcublasLt.so.13 libcublasLt.so.12)
	[ -z "$VIRGATE_CUBLASLT" ] || export VIRGATE_CUBLASLT
fi
if [ -z "${VIRGATE_CUDNN:-}" ] && ! there libcudnn.so.9; then
	VIRGATE_CUDNN=$(package libcudnn.so.9)
	[ -z "$VIRGATE_CUDNN" ] || export VIRGATE_CUDNN
fi
exec "$@"

/* Exports all names that libnvidia-ml.so.1 exports. */
#define SLOTS shim_slots
#define EXPORTS shim_exports
#define RESOLVE shim_resolve
#include "trampoline.inc"

	rows
#define NVML(name) row name
#include "abi/nvml.def"
	rows_end

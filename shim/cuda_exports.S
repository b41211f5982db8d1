/* Every name that libcuda.so.1 exports, and dlopen. */
#define SLOTS shim_slots
#define EXPORTS shim_exports
#define RESOLVE shim_resolve
#include "trampoline.inc"

	rows
#define ENTRY(abi, api, version, stream, family, need) row abi
#include "abi/entries.def"
#define OPAQUE(abi) row abi
#include "abi/entries.def"
	rows_end

/* dlopen(file, mode): shim_dlopen_file() may answer with another name; then the real
 * dlopen runs by a tail jump. It finds its caller by the return address, and with it the
 * RUNPATH that counts, so that address must stay the program's.
 */
	.text
	.globl dlopen
	.type dlopen, @function
dlopen:
	.cfi_startproc
	endbr64
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	call shim_dlopen_file
	popq %rsi
	.cfi_adjust_cfa_offset -8
	movq %rax, %rdi
	jmp *shim_real_dlopen(%rip)
	.cfi_endproc
	.size dlopen, . - dlopen

/* Defines a stub for each driver function that must not run while memory is in the host. In an evictable vGPU, the stub
 * replaces the function in the table shim_slots. It enters the pager's gate (pager/gate.h), calls what the table had
 * before, and leaves the gate. For this call, the stub copies six words of arguments on the stack, since none of these
 * functions has more.
 */
.set evict_index, 0

.macro evict name
	.section .text.evict, "ax", @progbits
	.balign 16
	.type evict_\name, @function
evict_\name:
	.cfi_startproc
	endbr64
	movl $evict_index, %eax
	jmp evict_call
	.cfi_endproc
	.size evict_\name, . - evict_\name

	.section .rodata.evict, "a", @progbits
	.long evict_\name - shim_evict_stubs

	.set evict_index, evict_index + 1
.endm

	.section .rodata.evict, "a", @progbits
	.balign 4
	.globl shim_evict_stubs
	.hidden shim_evict_stubs
	.type shim_evict_stubs, @object
shim_evict_stubs:
#define ENTRY(abi, api, version, stream, family, need) evict abi
#include "abi/entries.def"
	.section .rodata.evict, "a", @progbits
	.size shim_evict_stubs, . - shim_evict_stubs

	.section .text.evict, "ax", @progbits
	.balign 16
	.type evict_call, @function
evict_call: /* %eax has the row of the function in entries.def */
	.cfi_startproc
	movq pager_mark@gottpoff(%rip), %r11
	movq %fs:(%r11), %r11
	testq %r11, %r11
	jz 3f
	movl %eax, 4(%r11)
	addl $1, (%r11)
	cmpl $0, pager_gate(%rip)
	jne 2f
1:	pushq %r11
	.cfi_adjust_cfa_offset 8
	pushq 56(%rsp)
	.cfi_adjust_cfa_offset 8
	pushq 56(%rsp)
	.cfi_adjust_cfa_offset 8
	pushq 56(%rsp)
	.cfi_adjust_cfa_offset 8
	pushq 56(%rsp)
	.cfi_adjust_cfa_offset 8
	pushq 56(%rsp)
	.cfi_adjust_cfa_offset 8
	pushq 56(%rsp)
	.cfi_adjust_cfa_offset 8
	leaq shim_evict_below(%rip), %r11
	call *(%r11,%rax,8)
	addq $48, %rsp
	.cfi_adjust_cfa_offset -48
	popq %r11
	.cfi_adjust_cfa_offset -8
	subl $1, (%r11)
	ret
2:	subl $1, (%r11) /* gate closed: uncount the call; if it is the outermost, wait at 3, else go to 1 */
	jz 3f
	addl $1, (%r11)
	jmp 1b
3:	pushq %rax
	.cfi_adjust_cfa_offset 8
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	pushq %rcx
	.cfi_adjust_cfa_offset 8
	pushq %r8
	.cfi_adjust_cfa_offset 8
	pushq %r9
	.cfi_adjust_cfa_offset 8
	subq $32, %rsp /* no driver function takes more than two floating-point arguments */
	.cfi_adjust_cfa_offset 32
	movups %xmm0, (%rsp)
	movups %xmm1, 16(%rsp)
	call pager_gate_wait
	movups (%rsp), %xmm0
	movups 16(%rsp), %xmm1
	addq $32, %rsp
	.cfi_adjust_cfa_offset -32
	popq %r9
	.cfi_adjust_cfa_offset -8
	popq %r8
	.cfi_adjust_cfa_offset -8
	popq %rcx
	.cfi_adjust_cfa_offset -8
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	popq %rax
	.cfi_adjust_cfa_offset -8
	jmp evict_call
	.cfi_endproc
	.size evict_call, . - evict_call
	.section .note.GNU-stack, "", @progbits

/* Exports all names that libcuda.so.1 exports, and dlopen. */
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

/* dlopen(file, mode): shim_dlopen_file() may replace the name, then a tail jump runs the real dlopen. The real
 * dlopen uses its return address to find its caller and the caller's RUNPATH. So the return address must stay that
 * of the program.
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

/* Defines a stub for each function in turns.def. In a vGPU, the table shim_slots has the stub in place of the driver's
 * function. A stub reads the word that the daemon writes for the vGPU. If the word is 0, the stub jumps to the driver.
 * If the word only asks to count launches, the stub counts the launch, and jumps to the driver except at every 64th
 * launch. Otherwise it calls shim_turn_pass(row, registers, stack), which returns where to jump, or NULL: then it calls
 * shim_turn_call() with the same arguments (turn.c). turn.c asserts the following numbers.
 */
.set turn_index, 0
.set COUNTS, 8 /* offset in shim_turns */
.set ROWS, 16 /* offset in shim_turns */
.set ROW, 16 /* size of a row */
.set OPEN_STEP, 1 << 26
.set OPEN_COUNT, 1 /* the lowest byte of a word of turn/page.h: TURN_OPEN with only TURN_COUNT */
.set TURN_KERNEL, 1
.set TURN_EXTENDED, 1
.set TURN_OBJECT, 1
.set TURN_BYTES, 0
.set TURN_CALL, 0
.set TURN_COPY, 0
.set TURN_COPY_2D, 0
.set TURN_COPY_3D, 0
.set TURN_WAIT, 0
.set TURN_WAIT_ALL, 0
.set TURN_PASS, 0

.macro turn name is_launch
	.section .text.turns, "ax", @progbits
.if \is_launch
	.balign 64
.else
	.balign 16
.endif
	.type turn_\name, @function
turn_\name:
	.cfi_startproc
	endbr64
	movq shim_turns(%rip), %r11
	cmpl $0, (%r11)
	jne 2f
1:	jmp *(shim_turns + ROWS + ROW * turn_index)(%rip)
2:	movl $turn_index, %eax
.if \is_launch
	cmpb $OPEN_COUNT, (%r11)
	jne turn_call
	movslq (shim_turns + COUNTS)(%rip), %r11
	addl $OPEN_STEP, %fs:(%r11)
	jnz 1b
	subl $OPEN_STEP, %fs:(%r11)
.endif
	jmp turn_call
	.cfi_endproc
	.size turn_\name, . - turn_\name

	.section .rodata.turns, "a", @progbits
	.long turn_\name - shim_turn_stubs

	.set turn_index, turn_index + 1
.endm

	.section .rodata.turns, "a", @progbits
	.balign 4
	.globl shim_turn_stubs
	.hidden shim_turn_stubs
	.type shim_turn_stubs, @object
shim_turn_stubs:
#define TURN(abi, class, stream, shape) turn abi TURN_##class
#include "shim/turns.def"
	.section .rodata.turns, "a", @progbits
	.size shim_turn_stubs, . - shim_turn_stubs

	.section .text.turns, "ax", @progbits
	.balign 64
	.type turn_call, @function
turn_call: /* %eax has the row */
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	pushq %r9
	pushq %r8
	pushq %rcx
	pushq %rdx
	pushq %rsi
	pushq %rdi
	pushq %rax
	pushq %rax /* aligns the stack */
	movl %eax, %edi
	leaq 16(%rsp), %rsi
	leaq 16(%rbp), %rdx
	call shim_turn_pass
	testq %rax, %rax
	jz 1f
	movq %rax, %r11
	addq $16, %rsp
	popq %rdi
	popq %rsi
	popq %rdx
	popq %rcx
	popq %r8
	popq %r9
	popq %rbp
	.cfi_remember_state
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	jmp *%r11
	.cfi_restore_state
1:	movl (%rsp), %edi
	leaq 16(%rsp), %rsi
	leaq 16(%rbp), %rdx
	call shim_turn_call
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size turn_call, . - turn_call

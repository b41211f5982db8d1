// Declares the PTX interpreter. It loads modules, gives their variables places in memory, and runs their kernels on
// host threads. It does not depend on the driver API. A bound module does not change: any thread may launch its
// kernels, also several at once.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_module;
struct ptx_function;

// A log of the just-in-time compiler. Appended text is cut at the capacity and always terminated.
struct ptx_log {
	char *text;
	size_t capacity, used;
};

enum ptx_load_status {
	PTX_LOADED = 0,
	PTX_SYNTAX = 1,	    // the PTX is invalid (CUDA_ERROR_INVALID_PTX); the log has line and reason
	PTX_VERSION = 2,    // .version is newer than the interpreter's (CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
	PTX_TARGET = 3,	    // .target is above the device (CUDA_ERROR_NO_BINARY_FOR_GPU)
	PTX_UNRESOLVED = 4, // an extern symbol has no definition (CUDA_ERROR_INVALID_PTX)
};

// Loads a module from texts, which need not be terminated. `target` is the device's compute capability, such as 90.
// Several texts of one module (a linked fatbin, cuLink) can use each other's symbols. A kernel with an unsupported
// instruction is loaded, but cannot run (ptx_function_refusal). Returns an enum ptx_load_status or a negative errno.
int ptx_module_load(const char *const *texts, const size_t *lengths, size_t count, int target, struct ptx_log *log,
		    struct ptx_module **ret_module);
void ptx_module_destroy(struct ptx_module *module);

// The variables in .global and .const are in one device image. The caller allocates ptx_module_image_size() bytes,
// aligned to ptx_module_image_align(). It then binds the module: `device` is the memory's device address, `host` its
// host address. Binding stores the initial values, and adjusts addresses in them. Returns 0 or -EINVAL.
size_t ptx_module_image_size(const struct ptx_module *module);
size_t ptx_module_image_align(const struct ptx_module *module);
int ptx_module_bind(struct ptx_module *module, uint64_t device, void *host);
// Variables with .attribute(.managed) are in host memory of their own. The caller allocates it, and passes its address
// before it binds the module. `is_kept`: another module of the same texts has stored their initial values.
size_t ptx_module_managed_size(const struct ptx_module *module);
void ptx_module_bind_managed(struct ptx_module *module, uint64_t address, bool is_kept);
// Stores the initial values of managed variables. Call it before ptx_module_bind(). Returns false and stores nothing if
// a value is the address of a variable in the device's image.
bool ptx_module_initialize_managed(const struct ptx_module *module);
// Returns whether the module has a managed variable of this name.
bool ptx_module_is_managed(const struct ptx_module *module, const char *name);
// Finds a variable. Returns false if it is not found.
bool ptx_module_variable(const struct ptx_module *module, const char *name, uint64_t *ret_device, size_t *ret_size);
// Finds a variable of type .texref or .surfref: eight bytes that hold the handle of an object (texture.h).
bool ptx_module_reference(const struct ptx_module *module, const char *name, uint64_t *ret_device,
			  bool *ret_is_surface);

// The following functions return the number of kernels (.entry), and find a kernel by its index or name.
size_t ptx_module_function_count(const struct ptx_module *module);
const struct ptx_function *ptx_module_function_at(const struct ptx_module *module, size_t index);
const struct ptx_function *ptx_module_function(const struct ptx_module *module, const char *name);

struct ptx_parameter {
	size_t offset, size, align;
};

struct ptx_function_info {
	const char *name;
	size_t parameter_count, parameter_bytes; // parameter_bytes: where the last parameter ends
	const struct ptx_parameter *parameters;
	uint32_t static_shared; // bytes
	uint32_t local;		// local memory: bytes for each thread
	uint32_t registers;	// an estimate from 16 to 255
	uint32_t max_threads;	// product of .maxntid, or 1024
	uint32_t required[3];	// .reqntid, or 0
	uint32_t cluster[3];	// .reqnctapercluster, or 0
	bool explicit_cluster;	// the kernel can only be launched with a cluster
	bool uses_cluster;	// blocks wait for other blocks of their cluster, or use their shared memory
	int ptx_version;	// for example 83 for 8.3
	int target;		// 90
	bool empty;		// the kernel returns at once, so a launch need not run it
};
const struct ptx_function_info *ptx_function_info(const struct ptx_function *function);
// Returns why the kernel, or a function that it may call, cannot run: "line 120: instruction "wgmma.mma_async…" is not
// supported by the simulated GPU". NULL: the kernel can run.
const char *ptx_function_refusal(const struct ptx_function *function);

// Says how kernels access memory. An address in [base, base + size) has the host address `address + offset`. The access
// is allowed if `permission` has the bit (1 read, 2 write) for its granule, (address - base) >> granule_shift.
// Permissions may change between launches, and are read with relaxed order. For any other address, `other` returns the
// host address of `length` bytes (pinned or managed memory). NULL: the address is illegal.
struct ptx_space {
	uint64_t base, size;
	intptr_t offset;
	const uint8_t *permission;
	unsigned granule_shift;
	// Finds the memory of an address outside [base, base + size). Every thread that runs the kernel may call it at
	// the same time.
	void *(*other)(void *context, uint64_t address, size_t length, bool write);
	void *context;
};

// The device heap of a context (malloc and free in kernels): a range of device memory.
struct ptx_heap;
struct ptx_heap *ptx_heap_create(uint64_t device, size_t size);
void ptx_heap_destroy(struct ptx_heap *heap);

enum ptx_fault_kind {
	PTX_FAULT_NONE = 0,
	PTX_FAULT_ILLEGAL_ADDRESS,
	PTX_FAULT_MISALIGNED,
	PTX_FAULT_SHARED_RANGE, // an address beyond shared, local or parameter memory: CUDA_ERROR_ILLEGAL_ADDRESS, too
	PTX_FAULT_TRAP,		// trap: CUDA_ERROR_LAUNCH_FAILED
	PTX_FAULT_ASSERT,
	PTX_FAULT_STACK_OVERFLOW,
	PTX_FAULT_ILLEGAL_INSTRUCTION,
	PTX_FAULT_DEADLOCK, // no thread can make progress; `text` has the source lines
	PTX_FAULT_CANCELLED,
};

struct ptx_fault {
	enum ptx_fault_kind kind;
	uint64_t address;
	uint32_t block[3], thread[3];
	unsigned line;	// line of the PTX
	char text[512]; // for people
};

struct ptx_launch {
	const struct ptx_function *function;
	uint32_t grid[3], block[3];
	uint32_t cluster[3];	 // size of a cluster in blocks; 0 counts as 1
	uint32_t dynamic_shared; // bytes
	const void *parameters;	 // packed as in ptx_function_info
	const struct ptx_space *space;
	struct ptx_heap *heap;	    // NULL: malloc returns 0
	uint32_t stack_bytes;	    // stack of each thread, for calls and alloca; 0 counts as 1 MiB
	uint32_t sm_count;	    // value of %nsmid; the blocks get the values of %smid in turn
	uint32_t clock_khz;	    // frequency of %clock, which runs on CLOCK_MONOTONIC; 0 counts as 1 GHz
	bool cooperative;	    // all blocks run at once, so that they can synchronize
	uint64_t grid_workspace;    // for a cooperative launch: device address of at least 64 zeroed bytes
	unsigned threads;	    // number of host threads; 0 counts as 1
	uint32_t deadlock_ms;	    // how long all threads may poll memory that does not change, before it is a
				    // deadlock (six times as long if the loops read a clock); 0: 10 s
	const volatile int *cancel; // nonzero stops the launch (PTX_FAULT_CANCELLED); may be NULL
	// Finds texture and surface objects (texture.h). NULL: there are no objects.
	const struct ptx_texture *(*texture)(uint64_t handle);
	void (*print)(void *context, const char *text, size_t length); // called by vprintf with whole messages
	void *print_context;
};

// Runs a launch to its end, on the calling thread and at most launch->threads - 1 others. Returns 0, or 1 after a fault
// (*ret_fault). Otherwise returns a negative errno: -EINVAL (configuration), -ENOMEM, -EAGAIN (too few threads for a
// cooperative launch).
int ptx_run(const struct ptx_launch *launch, struct ptx_fault *ret_fault);

/* Virtual GPUs from a C program: what the verbs of virgate(1) do, as functions.
 *
 * A node is one machine's daemon as this process sees it: the system's, or the user's own, which
 * starts by itself on the first request. A vGPU is a named slice of one physical GPU. Sizes are
 * bytes, times are seconds since the epoch. Every function may be called from any thread; one
 * node may be used by several threads at once. After a failure vg_last_error() has the whole
 * sentence: what was asked, what there is, what to do next. */
#ifndef VIRGATE_VGPU_H
#define VIRGATE_VGPU_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_node;

struct vg_node_options {
	size_t size;		 /* sizeof(struct vg_node_options) */
	const char *runtime_dir; /* where the daemon listens; NULL: VIRGATE_RUNTIME_DIR, else the usual places */
	const char *simulate; /* "1" or a specification; NULL: as VIRGATE_SIM says, else a real GPU; "": a real GPU */
	const char *libdir;   /* where the interposer lies; NULL: VIRGATE_LIBDIR, else beside the program or library */
	int no_start;		 /* nonzero: do not start a daemon where none answers */
	unsigned timeout;	 /* seconds for a request, or for a daemon's start; 0: 20 */
};

/* Finds out where the node's daemon listens; nothing is started or asked yet. `options` may be
 * NULL. The caller owns *ret_node and ends it with vg_node_close(). INVALID, SYSTEM. */
VG_PUBLIC enum vg_status vg_node_open(const struct vg_node_options *options, struct vg_node **ret_node);
/* NULL is fine. */
VG_PUBLIC void vg_node_close(struct vg_node *node);
/* The path of the daemon's socket; valid until the node is closed. */
VG_PUBLIC const char *vg_node_socket(const struct vg_node *node);
/* Asks the daemon for nothing but an answer, starting it where allowed. NO_DAEMON, NO_DRIVER. */
VG_PUBLIC enum vg_status vg_node_ping(struct vg_node *node);

/* Ends the daemon; the next request starts another where allowed. DENIED, NO_DAEMON. */
VG_PUBLIC enum vg_status vg_node_shutdown(struct vg_node *node);

/* Where the device memory of a process in an evictable vGPU is. All fields are 0 if they are not known. The process
 * itself says all of it but `suspended`. */
struct vg_eviction_info {
	int known; /* 0: the vGPU is not evictable, or the process has ended, is a guest, or shares a vGPU of its own */
	/* "none" (it has no memory that can move), "running", "asked" (to leave; it has not begun), "preparing" (it
	 * pins host memory, and goes on), "draining" (it waits for its threads and the GPU), "leaving", "suspended" (in
	 * the host), "out" (in the host, to make room for other vGPUs), "returning", "waiting" (to return, when the GPU
	 * has room), "broken" (a copy failed, and its memory is lost), "unknown" */
	const char *state;
	/* nonzero: a user suspended it or its vGPU: its memory is in the host, or is to go there */
	int suspended;
	int pending;   /* nonzero: it has not carried out the last request, nor given it up */
	/* why it gave up the last request: "" (it did not), "thread" (a thread did not return from `call`), "gpu" (the
	 * GPU did not finish), "capture" (a stream capture did not end), "host" (the host lacks `missing` bytes),
	 * "device" (the GPU lacks them; it goes on trying), "driver" (`error`), "file" (the file with its memory in
	 * /dev/shm: `error`), "unknown" */
	const char *reason;
	const char *call;  /* the driver's function; "": not known */
	unsigned error;	   /* a CUresult; for "file" an errno */
	uint64_t bytes;	   /* memory that can move */
	uint64_t host;	   /* of these, in the host */
	uint64_t missing;
	uint64_t state_ns;  /* how long it has been in that state */
	uint64_t moved_ns;  /* duration of the last move */
	uint64_t waited_ns; /* time for which its threads waited for the memory, all together */
	unsigned waiting;   /* threads that wait for it now */
	unsigned moves;	    /* how often it moved to the host */
	uint64_t unchanged; /* bytes that the last of these moves did not copy, because the host had them already */
	/* a CUresult: why the GPU could not tell which these are, and all was copied; 0: it could */
	unsigned hash_error;
};

/* Whether the driver has taken a process off the GPU (virgate-suspend(1), --deep). */
enum vg_deep {
	VG_DEEP_NONE,
	VG_DEEP_BEGUN, /* it is about to, or comes back; or the command that did it was killed */
	VG_DEEP_DONE,
};

/* A process that runs inside a vGPU, or is its guest, or has ended and is still charged. */
struct vg_tenant_info {
	int64_t pid;
	const char *command;
	uint64_t charged;  /* what counts against the limit, overhead included */
	uint64_t overhead; /* the part it did not ask for: contexts, modules, limits */
	uint64_t physical; /* what the driver reports, if physical_known */
	int physical_known;
	double started; /* a guest: since when it has been one */
	int guest;	/* of another vGPU or of none: it has opened memory of this one, and is charged nothing here */
	int ended;	/* memory of it is charged until the driver has released it or others have closed it */
	struct vg_eviction_info eviction;
	enum vg_deep deep;
};

/* How the programs of a vGPU take turns on their GPU with those of other vGPUs. */
enum vg_scheduling_class {
	VG_CLASS_BATCH,
	VG_CLASS_LATENCY, /* its work starts at once, while it fits the share */
};

/* How programs of several vGPUs are on one GPU. All that run there at a time have the same mode. */
enum vg_sharing_mode {
	VG_MODE_TIME, /* each has contexts of its own, and one vGPU at a time launches */
	/* All are clients of NVIDIA's MPS and may run side by side. A fault in one ends all, there is no checkpoint, and
	 * a GPU has at most 48 such processes, of one user. */
	VG_MODE_MPS,
};

/* What a vGPU got of its GPU's time, as the daemon measured it. All fields are 0 if they are not known. */
struct vg_turns_info {
	int known;	    /* 0: no program runs in the vGPU, or no vGPU of its GPU has a share or the latency class */
	const char *mode;   /* how programs share the GPU: "time" or "mps", see enum vg_sharing_mode */
	int held;	    /* nonzero: the vGPU gets its share whenever it has work; or it has none to get */
	const char *reason; /* a short text: the reason if the share is not held, otherwise the present state */
	double recent;	    /* the part of the GPU's time in the last 10 s, in percent */
	double weight; /* the part that it is entitled to among the vGPUs active now, in percent; 0: idle time only */
	uint64_t gpu_ns;    /* GPU time used since the first of its programs started */
	uint64_t waited_ns; /* time for which it waited for a turn, likewise */
	uint64_t turns;	    /* likewise */
	const char *holder; /* name of the vGPU that has the turn now; "": none, or one that runs alone */
	uint64_t quantum_ns; /* the mean turn on its GPU now */
	double handovers;    /* of its GPU from one vGPU to another, per second, in the last 10 s */
};

struct vg_vgpu_info {
	const char *name;
	const char *uuid; /* of the GPU, "GPU-…" */
	int device;	  /* its index on the node */
	uint64_t memory;  /* the limit */
	uint64_t charged;
	uint64_t overhead;
	uint64_t physical;
	int physical_known;
	unsigned share;	 /* percent of the GPU's time; 0: none asked */
	int share_limit; /* nonzero: never more than the share, even if the GPU is idle otherwise */
	enum vg_scheduling_class scheduling_class;
	enum vg_sharing_mode mode;
	struct vg_turns_info turns;
	const char *owner;
	const char *group; /* "" : none */
	int ephemeral;	   /* goes away with its last tenant */
	int damaged;	   /* somebody truncated or removed its ledger: what is charged is not known; remove it */
	double created;
	uint64_t refusals;
	int tenants_known; /* 0: not for this user to see */
	size_t tenant_count; /* guests and those that have ended among them */
	const struct vg_tenant_info *tenants;
	uint64_t shared; /* of `charged`: memory that its owner has freed or left behind, and others have open */
	int evictable;	 /* nonzero: device memory of its processes can move to the host; else the following are 0 */
	uint64_t swap;	 /* how much host memory each process may use for that */
	uint64_t fixed;	 /* how much of the limit may be memory that cannot move */
	int suspended;	 /* nonzero: it is suspended as a whole, with all processes that come later */
	/* "running", "moving", "waiting" (to return), "suspended", "partly suspended", "out" (others have the GPU); "": not
	 * known */
	const char *eviction_state;
	uint64_t on_gpu;  /* memory that can move, and is on the GPU */
	uint64_t in_host; /* and in the host. It stays charged */
	unsigned idle_suspend; /* its memory leaves the GPU after so many seconds without use; 0: it does not */
};

struct vg_vgpu_list {
	size_t count;
	const struct vg_vgpu_info *vgpus; /* by name */
};

struct vg_device_info {
	int index;
	const char *uuid;
	const char *name;
	uint64_t memory;
	uint64_t memory_used; /* as the driver reports it, if memory_used_known */
	int memory_used_known;
	uint64_t reserved; /* the sum of the vGPUs' limits, of other users' daemons too */
	const char *compute_capability;
	const char *driver;
	int simulated;
	unsigned vgpus; /* of this daemon */
};

struct vg_device_list {
	size_t count;
	const struct vg_device_info *devices;
};

/* A request that a quota refused. */
struct vg_refusal_info {
	double time;
	int64_t pid;
	const char *entry; /* the driver's function */
	uint64_t asked;
	uint64_t charged; /* of all tenants, then */
	uint64_t limit;
	uint64_t overhead;
};

struct vg_refusal_list {
	size_t count;
	const struct vg_refusal_info *refusals; /* oldest first */
};

/* The mode of new vGPUs on one GPU. */
struct vg_device_mode {
	const char *device; /* index or UUID */
	enum vg_sharing_mode mode;
};

struct vg_vgpu_options {
	size_t size;	    /* sizeof(struct vg_vgpu_options) */
	const char *name;   /* [A-Za-z0-9][A-Za-z0-9._-]{0,62} */
	uint64_t memory;    /* the limit, overhead included; 0: the share's part of the GPU's memory */
	unsigned share;	    /* percent of the GPU's time, 1 to 100; 0: none */
	const char *device; /* index or UUID; NULL: of those where it fits and may run now, the one with the most room */
	const char *group;  /* a group whose members may use it; NULL: none */
	const char *owner;  /* name or number of the user it will belong to, for root to choose; NULL: the caller */
	int share_limit;    /* nonzero: never more than `share`, even if the GPU is idle otherwise; needs a share */
	enum vg_scheduling_class scheduling_class;
	enum vg_sharing_mode mode;
	const struct vg_device_mode *device_modes; /* modes of single GPUs, which win over `mode` there; NULL: none */
	size_t device_mode_count;
	int evictable; /* nonzero: device memory of its processes can move to the host (virgate-suspend(1)) */
	uint64_t swap; /* evictable: how much host memory each process may use for that; 0: as much as `memory` */
	uint64_t fixed; /* evictable: how much of `memory` may be memory that cannot move; 0: a context and up to 1 GiB */
	unsigned idle_suspend; /* evictable: its memory leaves the GPU after so many seconds without use; 0: never */
};

/* Creates a vGPU that stays until it is removed. Where CUDA_VISIBLE_DEVICES is set, the device must be one that it
 * shows, and without a device one of those is chosen; virgate(1) says how the list is read. INVALID (also: a device
 * that CUDA_VISIBLE_DEVICES does not show), EXISTS, LIMIT (the limits on that GPU would exceed its memory, or its
 * shares 100 percent; `swap` exceeds the machine's memory), DENIED, NOT_FOUND (a device or the group), NO_DAEMON,
 * UNSUPPORTED (a MIG instance in the list; the machine has no MPS), NVML (it does not tell the GPUs' order). */
VG_PUBLIC enum vg_status vg_vgpu_create(struct vg_node *node, const struct vg_vgpu_options *options);
/* Changes a vGPU, also while programs run in it. 0 leaves a value as it is; VG_SHARE_NONE removes the share, and
 * `share_limit` with it. A new share is in force within 100 ms. BUSY: more is in use than the new limit. NOT_FOUND,
 * LIMIT, DENIED, INVALID, NO_DAEMON. */
#define VG_SHARE_NONE 0xffffffffu
VG_PUBLIC enum vg_status vg_vgpu_set(struct vg_node *node, const char *name, uint64_t memory, unsigned share);
/* Removes it. BUSY: programs run in it. NOT_FOUND, DENIED, NO_DAEMON. */
VG_PUBLIC enum vg_status vg_vgpu_remove(struct vg_node *node, const char *name);
/* Removes it also while programs run in it or its ledger is damaged: the daemon ends its programs (SIGKILL), and the
 * call returns when they have ended and their memory is released. NOT_FOUND, DENIED; BUSY: they have not ended within
 * the node's timeout, and the vGPU goes when they have. */
VG_PUBLIC enum vg_status vg_vgpu_end(struct vg_node *node, const char *name);

/* Sends a signal (1 to SIGRTMAX) to every process that runs in the vGPU, also in containers and of other users;
 * *ret_count says how many got it. Guests and programs that have not used CUDA yet are left out. SYSTEM: some processes
 * could not be signalled, and the last error says how many were. NOT_FOUND, DENIED, INVALID, NO_DAEMON. */
VG_PUBLIC enum vg_status vg_vgpu_signal(struct vg_node *node, const char *name, int signal, unsigned *ret_count);

/* What there is. A list is one block: its strings and arrays live until the matching free, which
 * takes NULL. */
VG_PUBLIC enum vg_status vg_vgpu_list(struct vg_node *node, struct vg_vgpu_list **ret_list);
/* A list of the one vGPU of that name. NOT_FOUND, DENIED. */
VG_PUBLIC enum vg_status vg_vgpu_inspect(struct vg_node *node, const char *name, struct vg_vgpu_list **ret_list);
VG_PUBLIC void vg_vgpu_list_free(struct vg_vgpu_list *list);
VG_PUBLIC enum vg_status vg_device_list(struct vg_node *node, struct vg_device_list **ret_list);
VG_PUBLIC void vg_device_list_free(struct vg_device_list *list);
VG_PUBLIC enum vg_status vg_refusal_list(struct vg_node *node, const char *name, struct vg_refusal_list **ret_list);
VG_PUBLIC void vg_refusal_list_free(struct vg_refusal_list *list);

/* The way into a vGPU for programs this process will start: environment variables. */
struct vg_entrance;

/* Enters the vGPU `name`, or, if `name` is NULL, one that `options` describe (a name is made up if
 * it has none) and that goes away when this process and every tenant have ended. CUDA_VISIBLE_DEVICES counts as with
 * vg_vgpu_create(); a vGPU on a GPU that it does not show is not entered. */
VG_PUBLIC enum vg_status vg_vgpu_enter(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				       struct vg_entrance **ret_entrance);
VG_PUBLIC void vg_entrance_free(struct vg_entrance *entrance);
VG_PUBLIC const char *vg_entrance_name(const struct vg_entrance *entrance);
VG_PUBLIC const char *vg_entrance_ledger(const struct vg_entrance *entrance);
VG_PUBLIC uint64_t vg_entrance_memory(const struct vg_entrance *entrance);
/* `base` (an environment as execve(2) takes it) with what a tenant needs put in; valid until the
 * entrance is freed or asked again. NULL after a failure. */
VG_PUBLIC char **vg_entrance_environment(struct vg_entrance *entrance, char *const *base);

#ifdef __cplusplus
}
#endif
#endif

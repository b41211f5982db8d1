/* Virtual GPUs from a C program: the verbs of virgate(1) as functions.
 *
 * A node is the machine's daemon as this process uses it: the system's, or the user's own, which the first request
 * starts. A vGPU is a named part of one physical GPU. Sizes are in bytes, times in seconds since the epoch. Every
 * function may be called from any thread, and several threads may use one node at once. After a failure vg_last_error()
 * has a text with the request, what is available, and what to do. */
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
	size_t size; /* sizeof(struct vg_node_options) */
	/* Directory of the daemon's socket; NULL: VIRGATE_RUNTIME_DIR, else the default directories. */
	const char *runtime_dir;
	const char *simulate; /* "1" or a specification; NULL: VIRGATE_SIM, else a real GPU; "": a real GPU */
	/* Directory of the interposer; NULL: VIRGATE_LIBDIR, else beside the program or library. */
	const char *libdir;
	int no_start;	  /* nonzero: do not start a daemon if none answers */
	unsigned timeout; /* seconds for a request, or for a daemon's start; 0: 20 */
};

/* Finds the socket of the node's daemon; does not start one. `options` may be NULL. The caller owns *ret_node and
 * ends it with vg_node_close(). INVALID, SYSTEM. */
VG_PUBLIC enum vg_status vg_node_open(const struct vg_node_options *options, struct vg_node **ret_node);
/* Closes the node. Accepts NULL. */
VG_PUBLIC void vg_node_close(struct vg_node *node);
/* Returns the path of the daemon's socket; valid until the node is closed. */
VG_PUBLIC const char *vg_node_socket(const struct vg_node *node);
/* Checks that the daemon answers; starts it if allowed. NO_DAEMON, NO_DRIVER. */
VG_PUBLIC enum vg_status vg_node_ping(struct vg_node *node);

/* Ends the daemon; the next request starts another if allowed. DENIED, NO_DAEMON. */
VG_PUBLIC enum vg_status vg_node_shutdown(struct vg_node *node);

/* Where the device memory of a process in an evictable vGPU is. All fields are 0 if unknown. The process itself reports
 * all of them but `suspended`. */
struct vg_eviction_info {
	int known; /* 0: the vGPU is not evictable, or the process has ended, is a guest, or shares a vGPU of its own */
	/* "none" (it has no memory that can move), "running", "asked" (it should leave the GPU and has not begun),
	 * "preparing" (it pins host memory, and runs), "draining" (it waits for its threads and the GPU), "leaving",
	 * "suspended" (in the host), "out" (in the host, to make room for other vGPUs), "returning", "waiting" (for
	 * room on the GPU, to return), "broken" (a copy failed, and its memory is lost), "unknown" */
	const char *state;
	/* Nonzero: a user suspended the process or its vGPU, so its memory is in the host or will move there. */
	int suspended;
	int pending; /* nonzero: the process has neither carried out the last request nor given it up */
	/* the reason why it gave up the last request: "" (it did not), "thread" (a thread did not return from `call`),
	 * "gpu" (the GPU did not finish), "capture" (a stream capture did not end), "host" (the host lacks `missing`
	 * bytes), "device" (the GPU lacks them; it retries), "driver" (`error`), "file" (the file with its memory in
	 * /dev/shm: `error`), "restore" (the restore failed or ended before the memory was on the GPU, and the process
	 * ends), "unknown" */
	const char *reason;
	const char *call; /* name of the driver's function in which the process is; "": unknown */
	unsigned error;	  /* a CUresult; for "file" an errno */
	uint64_t bytes;	  /* memory that can move */
	uint64_t host;	  /* how many of these bytes are in the host */
	uint64_t missing;
	uint64_t state_ns;  /* how long the process has been in that state */
	uint64_t moved_ns;  /* duration of the last move */
	uint64_t waited_ns; /* sum of the times for which its threads waited for the memory */
	unsigned waiting;   /* number of threads that wait for the memory now */
	unsigned moves;	    /* how often the memory moved to the host */
	uint64_t unchanged; /* bytes that the last of these moves did not copy, since the host had them already */
	/* CUresult of hashing on the GPU. Not 0: hashing failed, and all blocks were copied. */
	unsigned hash_error;
};

/* Whether the driver has taken a process off the GPU (virgate-suspend(1), --deep). */
enum vg_deep {
	VG_DEEP_NONE,
	VG_DEEP_BEGUN, /* the driver is taking the process off the GPU or restoring it, or the command was killed */
	VG_DEEP_DONE,
};

/* A process that runs inside a vGPU, or is its guest, or has ended and is still charged. */
struct vg_tenant_info {
	int64_t pid;
	const char *command;
	uint64_t charged;  /* bytes charged against the limit, overhead included */
	uint64_t overhead; /* the part of `charged` that was not requested: contexts, modules, limits */
	uint64_t physical; /* bytes that the driver reports, if physical_known */
	int physical_known;
	double started; /* start time; of a guest: when it became a guest */
	/* Nonzero: the process is not of this vGPU; it has opened memory of the vGPU, and is charged nothing here. */
	int guest;
	/* Nonzero: the process has ended, but its memory is charged until the driver has freed it or others have
	 * closed it. */
	int ended;
	struct vg_eviction_info eviction;
	enum vg_deep deep;
	const char *container; /* id of the container in which the process runs; "": none, or unknown */
	const char *image;     /* the name of that container's image; "": unknown */
	/* Nonzero: the process uses the GPU in that container without Virgate's library, so no quota applies. */
	int outside;
};

/* How the programs of a vGPU take turns on their GPU with those of other vGPUs. */
enum vg_scheduling_class {
	VG_CLASS_BATCH,
	VG_CLASS_LATENCY, /* the vGPU's work starts at once, as long as it is within the share */
};

/* How programs of several vGPUs use one GPU. All that run there at the same time have the same mode. */
enum vg_sharing_mode {
	VG_MODE_TIME, /* each program has its own contexts, and one vGPU at a time launches */
	/* All are clients of NVIDIA's MPS, and may run at the same time. A fault in one ends all, checkpoints are
	 * impossible, and a GPU has at most 48 such processes, of one user. */
	VG_MODE_MPS,
};

/* The GPU time of a vGPU, as the daemon measured it. All fields are 0 if unknown. */
struct vg_turns_info {
	int known;	    /* 0: no program runs in the vGPU, or no vGPU of its GPU has a share or the latency class */
	const char *mode;   /* how programs share the GPU: "time" or "mps", see enum vg_sharing_mode */
	int held;	    /* nonzero: the vGPU gets its share whenever it has work, or it has no share */
	const char *reason; /* a short text: why the vGPU does not get its share, or else the present state */
	double recent;	    /* part of the GPU's time that the vGPU had in the last 10 s, in percent */
	/* Part to which the vGPU is entitled among the active vGPUs, in percent; 0: idle time only. */
	double weight;
	uint64_t gpu_ns;     /* GPU time used since the first of its programs started */
	uint64_t waited_ns;  /* time for which the vGPU waited for a turn, since the same moment */
	uint64_t turns;	     /* number of turns since the first program started */
	const char *holder;  /* name of the vGPU that has the turn now; "": none, or one vGPU runs alone */
	uint64_t quantum_ns; /* present mean length of a turn on the GPU */
	double handovers;    /* handovers of the GPU between vGPUs per second, in the last 10 s */
};

struct vg_vgpu_info {
	const char *name;
	const char *uuid; /* UUID of the GPU, "GPU-…" */
	int device;	  /* index of the GPU on the node */
	uint64_t memory;  /* the limit */
	uint64_t charged;
	uint64_t overhead;
	uint64_t physical;
	int physical_known;
	unsigned share;	 /* percent of the GPU's time; 0: none */
	int share_limit; /* nonzero: never more than the share, even if the GPU is idle otherwise */
	enum vg_scheduling_class scheduling_class;
	enum vg_sharing_mode mode;
	struct vg_turns_info turns;
	const char *owner;
	const char *group; /* "" : none */
	int ephemeral;	   /* nonzero: the vGPU is removed with its last tenant */
	/* Nonzero: the vGPU's ledger was truncated or removed, so the charge is unknown; remove the vGPU. */
	int damaged;
	double created;
	uint64_t refusals;
	int tenants_known;   /* 0: this user may not see the tenants */
	size_t tenant_count; /* number of tenants, including guests and ended processes */
	const struct vg_tenant_info *tenants;
	/* Part of `charged` for memory that its process has freed, or whose process has ended, but that others have
	 * open. */
	uint64_t shared;
	/* Nonzero: device memory of the vGPU's processes can move to the host. If 0, the following members down to
	 * `idle_suspend` are 0. */
	int evictable;
	uint64_t swap;	/* the most host memory that each process may use for evicted memory */
	uint64_t fixed; /* the largest part of the limit for memory that cannot move */
	int suspended;	/* nonzero: the vGPU is suspended as a whole, including processes that start later */
	/* "running", "moving", "waiting" (to return), "suspended", "partly suspended", "out" (others use the GPU),
	 * "contradicted" (memory is on the GPU that is in the host by the processes' reports); "": unknown */
	const char *eviction_state;
	uint64_t on_gpu;       /* movable memory on the GPU */
	uint64_t in_host;      /* bytes of movable memory in the host; they stay charged */
	unsigned idle_suspend; /* seconds without use after which the vGPU's memory leaves the GPU; 0: never */
	int drained;	       /* nonzero: its GPU is drained, and no new programs can enter it */
	/* These members count since the daemon started, or since the vGPU was created. Programs that have ended are
	 * included. */
	uint64_t most_charged; /* the highest charge that the daemon has seen; it looks every 250 ms */
	uint64_t gpu_ns;       /* GPU time of all programs, if gpu_ns_known */
	int gpu_ns_known;      /* 0: no vGPU of its GPU had a share or the latency class */
	/* Since the daemon started: how often a user suspended it or a process of it, how often an image of its
	 * programs was complete, on disk or for another machine, and how often the daemon moved it out to make room. */
	uint64_t suspends, checkpoints, evictions;
	const char *job; /* the job that has this vGPU and others on other GPUs; "": none */
};

struct vg_vgpu_list {
	size_t count;
	const struct vg_vgpu_info *vgpus; /* sorted by name */
};

struct vg_device_info {
	int index;
	const char *uuid;
	const char *name;
	uint64_t memory;
	uint64_t memory_used; /* bytes that the driver reports, if memory_used_known */
	int memory_used_known;
	uint64_t reserved; /* sum of the limits of all vGPUs, including those of other users' daemons */
	const char *compute_capability;
	const char *driver;
	int simulated;
	unsigned vgpus;		 /* of this daemon */
	unsigned share_reserved; /* the sum of the vGPUs' compute shares, in percent */
	/* Nonzero: another user's daemon has given shares of this GPU, so this daemon cannot give any. */
	int shares_elsewhere;
	uint64_t movable_reserved; /* the part of `reserved` that evictable vGPUs use in turns */
	uint64_t context_memory;   /* memory of a CUDA context of this user, which is the least limit of a vGPU */
	int drained;		   /* nonzero: no new vGPUs and programs are admitted, see vg_device_drain() */
	unsigned in_use;	   /* number of vGPUs of this daemon in which programs run */
	unsigned waiting;	   /* number of requests that wait for room on the GPU */
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
	uint64_t charged; /* bytes charged to all tenants at that time */
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
	size_t size;	  /* sizeof(struct vg_vgpu_options) */
	const char *name; /* [A-Za-z0-9][A-Za-z0-9._-]{0,62} */
	uint64_t memory;  /* the limit, overhead included; 0: the same part of the GPU's memory as `share` */
	unsigned share;	  /* percent of the GPU's time, 1 to 100; 0: no share */
	/* Index or UUID; NULL: of the GPUs where the vGPU fits and may run now, the one with most room. */
	const char *device;
	const char *group; /* a group whose members may use the vGPU; NULL: none */
	const char *owner; /* name or number of the vGPU's user; only root may set it; NULL: the caller */
	int share_limit;   /* nonzero: never more than `share`, even if the GPU is idle otherwise; needs a share */
	enum vg_scheduling_class scheduling_class;
	enum vg_sharing_mode mode;
	const struct vg_device_mode *device_modes; /* modes for single GPUs, instead of `mode`; NULL: none */
	size_t device_mode_count;
	int evictable;	       /* nonzero: device memory of its processes can move to the host (virgate-suspend(1)) */
	uint64_t swap;	       /* evictable: maximum host memory that each process may use for that; 0: `memory` */
	uint64_t fixed;	       /* evictable: maximum part of `memory` that cannot move; 0: a context and up to 1 GiB */
	unsigned idle_suspend; /* evictable: seconds without use after which the memory leaves the GPU; 0: never */
	unsigned wait; /* vg_vgpu_enter(): maximum seconds to wait for room, at most VG_WAIT_MOST; 0: fail at once */
	/* vg_vgpu_enter(): number of GPUs, at most VG_GPUS_MOST; 0 and 1: one. With more, the program is a job: it
	 * gets a vGPU with these options on each of so many GPUs, named `name` with ".0", ".1" and so on. `device` may
	 * then be a list of GPUs to choose from, with commas. A job can be neither evictable nor of the latency class,
	 * and does not wait. Its GPUs have one mode. */
	unsigned gpus;
};

#define VG_GPUS_MOST 16u

#define VG_WAIT_MOST 1000000u
#define VG_WAIT_FOREVER 0xffffffffu

/* Creates a vGPU that stays until it is removed. If CUDA_VISIBLE_DEVICES is set, the device must be visible; without
 * a device, a visible one is chosen. virgate(1) describes how the list is read. INVALID (also: a device that is not
 * visible), EXISTS, LIMIT (the limits on that GPU would exceed its memory, or its shares 100 percent; `swap` exceeds
 * the machine's memory), DENIED, NOT_FOUND (a device or the group), NO_DAEMON, UNSUPPORTED (a MIG instance in the
 * list; the machine has no MPS), NVML (it fails to return the order of the GPUs). */
VG_PUBLIC enum vg_status vg_vgpu_create(struct vg_node *node, const struct vg_vgpu_options *options);
#define VG_SHARE_NONE 0xffffffffu
/* Changes a vGPU, also while programs run in it. 0 leaves a value as it is; VG_SHARE_NONE removes the share, and
 * `share_limit` with it. A new share takes effect within 100 ms. BUSY: more memory is charged than the new limit.
 * NOT_FOUND, LIMIT, DENIED, INVALID, NO_DAEMON. */
VG_PUBLIC enum vg_status vg_vgpu_set(struct vg_node *node, const char *name, uint64_t memory, unsigned share);
/* Removes a vGPU. BUSY: programs run in it. NOT_FOUND, DENIED, NO_DAEMON. */
VG_PUBLIC enum vg_status vg_vgpu_remove(struct vg_node *node, const char *name);
/* Removes a vGPU also while programs run in it or its ledger is damaged. The daemon ends its programs (SIGKILL), and
 * the call returns when they have ended and their memory is freed. NOT_FOUND, DENIED; BUSY: they have not ended
 * within the node's timeout; the vGPU is removed when they have. */
VG_PUBLIC enum vg_status vg_vgpu_end(struct vg_node *node, const char *name);

/* Sends a signal (1 to SIGRTMAX) to every process that runs in the vGPU, also in containers and of other users.
 * *ret_count: the number of processes that got it. Guests and programs that have not used CUDA yet get none. SYSTEM:
 * the signal could not be sent to some processes; the last error has the numbers. NOT_FOUND, DENIED, INVALID,
 * NO_DAEMON. */
VG_PUBLIC enum vg_status vg_vgpu_signal(struct vg_node *node, const char *name, int signal, unsigned *ret_count);

/* These functions return lists. Each list is one block: its strings and arrays are valid until the matching free
 * function, which accepts NULL. */
VG_PUBLIC enum vg_status vg_vgpu_list(struct vg_node *node, struct vg_vgpu_list **ret_list);
/* Returns a list with the vGPU of that name. NOT_FOUND, DENIED. */
VG_PUBLIC enum vg_status vg_vgpu_inspect(struct vg_node *node, const char *name, struct vg_vgpu_list **ret_list);
VG_PUBLIC void vg_vgpu_list_free(struct vg_vgpu_list *list);
VG_PUBLIC enum vg_status vg_device_list(struct vg_node *node, struct vg_device_list **ret_list);
VG_PUBLIC void vg_device_list_free(struct vg_device_list *list);
/* Drains a GPU (index or UUID). Until vg_device_undrain(), also after a restart of the daemon, no vGPU can be created
 * on it and no program can enter one: such requests fail with BUSY. Programs that run there continue, and may start
 * others. Only root and the daemon's own user may call these functions. Draining a drained GPU succeeds. DENIED,
 * NOT_FOUND, NO_DAEMON. */
VG_PUBLIC enum vg_status vg_device_drain(struct vg_node *node, const char *device);
VG_PUBLIC enum vg_status vg_device_undrain(struct vg_node *node, const char *device);
VG_PUBLIC enum vg_status vg_refusal_list(struct vg_node *node, const char *name, struct vg_refusal_list **ret_list);
VG_PUBLIC void vg_refusal_list_free(struct vg_refusal_list *list);

/* The environment variables that let programs which this process starts run inside a vGPU. */
struct vg_entrance;

/* Enters the vGPU `name`. If `name` is NULL, creates one with `options`, and a generated name if they have none. That
 * vGPU is removed when this process and every tenant have ended. If it does not fit now but would fit on an empty GPU,
 * the request waits up to `wait` seconds for room in the daemon's queue; earlier requests come first. The call blocks
 * meanwhile; a signal handler does not end it. CUDA_VISIBLE_DEVICES applies as for vg_vgpu_create(): a vGPU on a GPU
 * that is not visible is refused. */
VG_PUBLIC enum vg_status vg_vgpu_enter(struct vg_node *node, const char *name, const struct vg_vgpu_options *options,
				       struct vg_entrance **ret_entrance);
VG_PUBLIC void vg_entrance_free(struct vg_entrance *entrance);
VG_PUBLIC const char *vg_entrance_name(const struct vg_entrance *entrance);
VG_PUBLIC const char *vg_entrance_ledger(const struct vg_entrance *entrance);
VG_PUBLIC uint64_t vg_entrance_memory(const struct vg_entrance *entrance);
/* Returns `base`, an environment as for execve(2), with the variables of a tenant; valid until the entrance is freed or
 * the next call. NULL after a failure. */
VG_PUBLIC char **vg_entrance_environment(struct vg_entrance *entrance, char *const *base);

#ifdef __cplusplus
}
#endif
#endif

/* Checkpoint and restore of CUDA processes. The driver moves their device memory to the host, and CRIU writes the
 * processes to an image on disk; a restore does the reverse.
 *
 * A dump can be rolled back until the image is complete and on the disk: after a failure or a stop the processes run on
 * unchanged. CRIU is not included: `criu` in PATH is used, or the file that VIRGATE_CRIU names. */
#ifndef VIRGATE_CHECKPOINT_H
#define VIRGATE_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <virgate/process.h>
#include <virgate/status.h>
#include <virgate/vgpu.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The phases: first those of a dump in order, then those of a restore and of a migration. A restore of programs in
 * evictable vGPUs has VG_CHECKPOINT_DEVICE_IN twice. First the driver restores the processes. After
 * VG_CHECKPOINT_UNLOCK, the device memory in packs is copied to the GPU, while the processes run. */
enum vg_checkpoint_phase {
	VG_CHECKPOINT_FIND,	  /* finds the processes, and checks that they can be dumped */
	VG_CHECKPOINT_EVICT,	  /* moves device memory of evictable vGPUs to the host; omitted without such vGPUs */
	VG_CHECKPOINT_LOCK,	  /* blocks the CUDA calls of the processes */
	VG_CHECKPOINT_DEVICE_OUT, /* copies device memory to host memory */
	VG_CHECKPOINT_HOST_OUT,	  /* CRIU writes the processes */
	VG_CHECKPOINT_COMMIT,	  /* computes checksums, and syncs the image to the disk */
	VG_CHECKPOINT_END,	  /* ends the processes, or continues them */
	VG_CHECKPOINT_VERIFY,	  /* a restore: verifies the image, and checks its requirements */
	VG_CHECKPOINT_HOST_IN,	  /* CRIU restores the processes */
	VG_CHECKPOINT_DEVICE_IN,  /* copies host memory to device memory */
	VG_CHECKPOINT_UNLOCK,	  /* unblocks the CUDA calls of the processes */
	VG_CHECKPOINT_SEND,	  /* a migration: sends the image; the receiver verifies it */
	VG_CHECKPOINT_RECEIVE,	  /* the receiver of a migration: receives the image */
	VG_CHECKPOINT_HANDOVER,	  /* ends the processes here, and starts them at the receiver */
	VG_CHECKPOINT_PRECOPY,	  /* a migration: sends device memory while the processes run */
	VG_CHECKPOINT_PHASES
};
/* Returns the name of a phase: "find", "evict", "lock", "device-out", ... */
VG_PUBLIC const char *vg_checkpoint_phase_name(enum vg_checkpoint_phase phase);

struct vg_checkpoint_progress {
	enum vg_checkpoint_phase phase;
	double seconds; /* time since the phase began */
	/* Done, and in all. Total 0: unknown. While CRIU writes: the most that it may write, because pages of zeros are
	 * not known before. */
	uint64_t bytes, total;
};
/* Called on the caller's thread when a phase begins, and about ten times a second during a long one. A nonzero result
 * stops the operation as soon as that is safe: a dump is rolled back, and a restore ends the processes that CRIU has
 * made so far. The result is ignored when the image of a dump is complete, and from the first VG_CHECKPOINT_DEVICE_IN
 * of a restore on. */
typedef int vg_checkpoint_progress_fn(void *user, const struct vg_checkpoint_progress *progress);

/* How the pages of the processes are stored. Zero pages are never stored. */
enum vg_compression {
	VG_COMPRESSION_NONE, /* uncompressed: the fastest if the disk is fast */
	VG_COMPRESSION_LZ4,
	VG_COMPRESSION_ZSTD,
};

struct vg_checkpoint_result {
	size_t processes, cuda_processes;
	/* Root of the process tree; of several trees, the root of the first one. */
	pid_t pid;
	size_t roots;			      /* number of process trees */
	uint64_t bytes;			      /* size of the image on the disk */
	uint64_t raw_bytes;		      /* size before zero pages were omitted and the rest was compressed */
	double seconds[VG_CHECKPOINT_PHASES]; /* duration of each phase, or the sum of both; 0: it was not reached */
	/* A warning: the operation was allowed, but something may fail later. For a migration also: why `precopy` did
	 * not help. "": no warning. */
	char warning[240];
	uint64_t device_bytes; /* bytes of device memory of evictable vGPUs, which are in packs */
	uint64_t linked_bytes; /* for a dump: size of the packs that the image has in common with its bases */
	/* For a dump: size of the packs that were copied, because their base is on another file system. */
	uint64_t copied_bytes;
	unsigned rounds;	  /* for a migration: number of precopy rounds */
	uint64_t precopied_bytes; /* for a migration: bytes that were transferred in precopy rounds */
};

struct vg_dump_options {
	size_t size;		  /* sizeof(struct vg_dump_options) */
	pid_t pid;		  /* this process and its descendants; must be 0 with `vgpu` */
	const char *dir;	  /* the image's directory, which must not exist */
	int leave_running;	  /* nonzero: the processes run on afterwards; 0: they end */
	int cpu_only;		  /* nonzero: allow a tree in which no process uses CUDA */
	unsigned lock_timeout_ms; /* how long to wait for work on the GPU to end; 0: 10,000 */
	/* Nonzero: the process uses a terminal, and a restore attaches it to the terminal of the restorer. */
	int shell_job;
	int tcp_established; /* nonzero: dump open TCP connections */
	int file_locks;	     /* nonzero: dump file locks */
	vg_checkpoint_progress_fn *progress;
	void *user;
	enum vg_compression compression;
	int compression_level; /* level of zstd, 1 to 22; 0: the default */
	/* Number of threads that receive CRIU's output, at most 256; 0: one for each processor, at most 16. */
	unsigned threads;
	const char *vgpu;     /* instead of `pid`: all processes inside this vGPU, and their descendants */
	struct vg_node *node; /* the node of the vGPUs; NULL: the node that vg_node_open(NULL) finds */
	/* Images whose blocks of device memory are not written again, for programs in evictable vGPUs. The new image
	 * links their packs, and is complete without them. NULL: none. A base that is damaged or belongs to another
	 * user is refused; its packs are not read. */
	const char *const *bases;
	size_t base_count; /* at most 64 */
};
/* Writes processes to an image. `ret_result` may be NULL. INVALID (a thread's id), NOT_FOUND (no such process; it
 * does not use CUDA; no CRIU), EXISTS, DENIED, UNSUPPORTED, NOT_READY (not locked in time), POLICY (a process has a
 * resource that images cannot have: the text names both), STATE (stopped by `progress`; or the roll-back failed: the
 * text has the states of the processes), SYSTEM (CRIU's reason; the disk), DRIVER. One dump or restore at a time in
 * a process. */
VG_PUBLIC enum vg_status vg_checkpoint_dump(const struct vg_dump_options *options,
					    struct vg_checkpoint_result *ret_result);

/* Restores programs of one vGPU into another. */
struct vg_restore_vgpu {
	const char *old_name; /* name of the vGPU in the image; NULL: the only vGPU of the image */
	const char *new_name; /* an existing vGPU of this node */
};

struct vg_restore_options {
	size_t size;	 /* sizeof(struct vg_restore_options) */
	const char *dir; /* the image */
	/* Pairs of an old GPU, which is in the image, and a new GPU of this machine, by UUID or index. All GPUs of the
	 * image must be listed. If empty, each process stays on its old GPU. */
	const struct vg_process_gpu_pair *gpus;
	size_t gpu_count;
	vg_checkpoint_progress_fn *progress;
	void *user;
	/* Node for processes that ran inside vGPUs; NULL: the node that vg_node_open(NULL) finds. */
	struct vg_node *node;
	pid_t *roots; /* set to the roots of the trees, in the image's order, as many as fit. NULL: not wanted */
	size_t root_capacity;
	const struct vg_restore_vgpu *vgpus; /* if empty, each process is restored into the vGPU with its old name */
	size_t vgpu_count;
};
/* Restores the processes, with their old pids, as children of init. Checks the requirements before it makes a process:
 * NOT_FOUND (no image, no CRIU), INTEGRITY (damaged: the text names the file), EXISTS (a pid is in use: the text names
 * the process), INSUFFICIENT (device memory or a vGPU's quota, with `need` and `have`), UNSUPPORTED (another machine,
 * kernel or driver), SYSTEM, DRIVER. After a later failure it ends the processes that it has made.
 *
 * Device memory of evictable vGPUs is read from the image after the processes have begun to run; they wait at their
 * next use of the GPU. The function returns when this memory is on the GPU, or in files in /dev/shm if it must wait in
 * the host. Errors after the processes have begun to run: INTEGRITY (a pack is damaged), INSUFFICIENT (the GPU has no
 * room for the memory, and /dev/shm has none either), STATE (a process takes no memory for a minute), SYSTEM, DRIVER,
 * NO_MEMORY. If this process is killed meanwhile, processes whose memory is not on the GPU end with exit status 125.
 *
 * A process that ran inside a vGPU is charged there again before it runs. The vGPU must exist under its name, on the
 * requested GPU; NOT_FOUND says how to create it. An ephemeral vGPU that was removed is created again, with its name,
 * limit and share: then also LIMIT, and EXISTS if another vGPU has its name. It is removed if the restore fails,
 * otherwise when this process and all that run in it have ended. One restore at a time in a process. */
VG_PUBLIC enum vg_status vg_checkpoint_restore(const struct vg_restore_options *options,
					       struct vg_checkpoint_result *ret_result);

/* An image as a stream of bytes, for a file, a pipe or a socket: its files without holes, in pieces with checksums.
 * The caller keeps the descriptors. */

/* Writes the image at `dir` to `fd`. NOT_FOUND, INTEGRITY (no image), SYSTEM (ECONNRESET: the connection was
 * closed). */
VG_PUBLIC enum vg_status vg_checkpoint_send(const char *dir, int fd);
/* Reads an image from `fd`, up to the end, and makes a verified image at `dir`, synced to the disk; after a failure
 * no image exists. The stream need not be trusted. PROTOCOL (not the stream of an image), INTEGRITY (damaged,
 * truncated, or data after its end), UNSUPPORTED (of a later version), EXISTS, INSUFFICIENT (the disk, with `need`
 * and `have`), SYSTEM. */
VG_PUBLIC enum vg_status vg_checkpoint_receive(int fd, const char *dir);

struct vg_migrate_options {
	size_t size; /* sizeof(struct vg_migrate_options) */
	/* The processes, and options of their dump; `dir`: a directory for the image during the migration;
	 * `leave_running` must be 0. */
	const struct vg_dump_options *dump;
	const char *
		to; /* "unix:PATH": a receiver that listens there; "ssh:[USER@]HOST": runs `virgate restore --from -` */
	const struct vg_process_gpu_pair
		*gpus; /* see vg_restore_options; only for ssh: a listening receiver sets its own */
	size_t gpu_count;
	/* Nonzero: device memory of programs in evictable vGPUs is transferred in precopy rounds, while they run. The
	 * first round transfers all of it, each later one what has changed since, until little changes or the rounds
	 * do not become smaller. For each round the memory moves to the host and back. The rest is transferred while
	 * the processes are stopped. UNSUPPORTED: the receiver is too old, or no process is in an evictable vGPU. */
	int precopy;
};
/* Migrates processes to another machine or pid namespace. The processes are stopped while their image is transferred
 * and verified. When the receiver has accepted the image, the processes end here, and only then start there. Until
 * then, errors are as of vg_checkpoint_dump(): after a failure of either side or of the connection, the processes run
 * on here, and the receiver keeps nothing. If the receiver then fails to restore them, they are restored here, and the
 * call fails with the receiver's reason. Processes of evictable vGPUs may have run at the receiver for a moment then.
 * STATE: it is unknown where the processes run, since the connection was closed after the handover, or they do not run
 * at all; the text says which, and where the image is kept. result->pid: pid at the receiver. */
VG_PUBLIC enum vg_status vg_checkpoint_migrate(const struct vg_migrate_options *options,
					       struct vg_checkpoint_result *ret_result);
/* Receives the processes of a migration and restores them. `in` may also be the stream of a vg_checkpoint_send().
 * `out`: for answers to the sender; may be equal to `in`; -1: no answers. options->dir: the directory of the image;
 * `keep`: nonzero keeps it. Errors: see vg_checkpoint_receive() and vg_checkpoint_restore(); they are sent to the other
 * side, too. */
VG_PUBLIC enum vg_status vg_checkpoint_restore_from(int in, int out, const struct vg_restore_options *options, int keep,
						    struct vg_checkpoint_result *ret_result);

/* The result of suspending or resuming one process. */
enum vg_suspend_outcome {
	VG_SUSPEND_DONE,
	VG_SUSPEND_ENDED,    /* the process has ended */
	VG_SUSPEND_REVERSED, /* the opposite request came from another process meanwhile */
	VG_SUSPEND_GAVE_UP,  /* the process gave up, for the reason in `eviction` */
	VG_SUSPEND_SILENT,   /* the process did not answer in time; the request takes effect when it does */
	VG_SUSPEND_LATE,     /* the process's memory is still moving */
};

struct vg_suspended_process {
	int64_t pid;
	const char *command;
	enum vg_suspend_outcome outcome;
	uint64_t charged;     /* bytes charged against the vGPU's limit before the request; 0: unknown */
	uint64_t host_before; /* memory in the host, before */
	/* State after the request; all 0: the process has ended, or its vGPU is not evictable. */
	struct vg_eviction_info eviction;
	int deep; /* nonzero: the driver took the process off the GPU, or restored it there */
};

struct vg_suspend_options {
	size_t size;	      /* sizeof(struct vg_suspend_options) */
	struct vg_node *node; /* the node; NULL: the node that vg_node_open(NULL) finds */
	const char *vgpu;     /* name of a vGPU, to suspend or resume all its processes; or NULL */
	int64_t pid;	      /* pid of one process, as the node sees it; 0 with `vgpu` */
	/* Nonzero: the driver then takes the processes off the GPU, with contexts, modules and memory that cannot move.
	 * In a vGPU that is not evictable the driver moves all memory, and processes that start later run.
	 * vg_checkpoint_resume() ignores this field, and detects which processes were taken off the GPU. */
	int deep;
	unsigned drain_ms; /* how long to wait for threads in the driver and for work on the GPU; 0: 10,000 */
	vg_checkpoint_progress_fn *progress;
	void *user;
};

struct vg_suspend_result {
	const char *vgpu;
	size_t count;
	const struct vg_suspended_process *processes;
	size_t failed; /* number of these processes that did not carry out the request */
	int by_driver; /* nonzero: the vGPU is not evictable, and the driver moved all memory */
	double seconds[VG_CHECKPOINT_PHASES];
	char warning[400]; /* a warning: an operation that may fail later although it is allowed; "": none */
};

/* Suspends: moves the device memory of an evictable vGPU's processes to the host, and with `deep` takes the
 * processes off the GPU. They wait at their next use of the GPU until vg_checkpoint_resume(). The memory stays
 * charged to the vGPU. Returns when all have answered. *ret_result is set also after a failure if requests were sent
 * to processes, otherwise to NULL; the caller frees it with vg_suspend_result_free(). NOT_READY: some processes
 * failed, see `failed`; the others stay suspended. NOT_FOUND, BUSY (it is suspended already; a process is being
 * dumped), UNSUPPORTED (not evictable, and not `deep`; `deep` under MPS), DENIED (`deep`: another user's process),
 * INSUFFICIENT (host memory, with `need` and `have`), STATE (stopped by `progress`: without `deep` the request stays
 * in effect; or a step failed and could not be rolled back), DRIVER, NO_DAEMON, INVALID, NO_MEMORY. If taking
 * processes off the GPU fails, that is rolled back, and their memory stays in the host. One such call at a time in a
 * process. */
VG_PUBLIC enum vg_status vg_checkpoint_suspend(const struct vg_suspend_options *options,
					       struct vg_suspend_result **ret_result);
/* Resumes suspended processes on the GPU, however they were suspended, even if the program that suspended them was
 * killed. Errors: see vg_checkpoint_suspend(). INSUFFICIENT, with `need` and `have`: the GPU has too little memory
 * for the processes that the driver must restore, and nothing was changed. NOT_READY also: a process waits for room
 * on the GPU, and returns later. */
VG_PUBLIC enum vg_status vg_checkpoint_resume(const struct vg_suspend_options *options,
					      struct vg_suspend_result **ret_result);
/* Frees the result. Accepts NULL. */
VG_PUBLIC void vg_suspend_result_free(struct vg_suspend_result *result);

struct vg_recovery {
	size_t processes; /* number of processes of the tree */
	size_t stopped;	  /* number of these processes that got SIGCONT */
	/* Number of processes that the driver had locked or checkpointed, or whose device memory was in the host. */
	size_t held_back;
};
/* Lets a process and its descendants run again, after their dump or restore was killed, from any state. Waits for a
 * CRIU that still works on them. `ret_recovery` may be NULL; zeros in it mean that nothing was needed. INVALID,
 * NOT_FOUND, DENIED, BUSY (another process dumps or restores them), STATE (the text names processes that do not run,
 * and their states; or a process ends, because its restore was killed before its device memory was on the GPU, and the
 * image must be restored again), DRIVER. INSUFFICIENT, with `need` and `have`: a GPU has too little memory for the
 * processes of vGPUs that the driver must restore, and all processes are as before. */
VG_PUBLIC enum vg_status vg_checkpoint_recover(pid_t pid, struct vg_recovery *ret_recovery);

#ifdef __cplusplus
}
#endif
#endif

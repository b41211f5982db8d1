/* Checkpoints of whole CUDA processes on disk: the driver takes them off the GPU, CRIU writes them down; and back
 * again.
 *
 * A dump is safe: until the image is whole and lies on the disk, any failure, and any wish to stop, leaves the
 * processes running as they were. CRIU is the user's own: `criu` in PATH, or the file that VIRGATE_CRIU names. */
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

/* The steps, in order; those of a dump first. */
enum vg_checkpoint_phase {
	VG_CHECKPOINT_FIND,	  /* the processes, and whether they can be dumped */
	VG_CHECKPOINT_EVICT,	  /* in evictable vGPUs: device memory moves to the host; left out if there are none */
	VG_CHECKPOINT_LOCK,	  /* their CUDA calls wait */
	VG_CHECKPOINT_DEVICE_OUT, /* device memory goes to host memory */
	VG_CHECKPOINT_HOST_OUT,	  /* CRIU writes the processes */
	VG_CHECKPOINT_COMMIT,	  /* checksums; all of it lies on the disk */
	VG_CHECKPOINT_END,	  /* the processes end, or run on */
	VG_CHECKPOINT_VERIFY,	  /* a restore: the image is read, and what it needs is there */
	VG_CHECKPOINT_HOST_IN,	  /* CRIU makes the processes again */
	VG_CHECKPOINT_DEVICE_IN,  /* host memory goes to device memory */
	VG_CHECKPOINT_UNLOCK,	  /* their CUDA calls go on */
	VG_CHECKPOINT_SEND,	  /* a migration: the image goes to the other side, and is verified there */
	VG_CHECKPOINT_RECEIVE,	  /* the other side: it comes in */
	VG_CHECKPOINT_HANDOVER,	  /* the processes end here, and run there */
	VG_CHECKPOINT_PRECOPY,	  /* a migration: device memory goes to the other side while the processes run */
	VG_CHECKPOINT_PHASES
};
/* "find", "evict", "lock", "device-out", ... */
VG_PUBLIC const char *vg_checkpoint_phase_name(enum vg_checkpoint_phase phase);

struct vg_checkpoint_progress {
	enum vg_checkpoint_phase phase;
	double seconds;	       /* since it began */
	uint64_t bytes, total; /* done of it, and in all; total 0: not known */
};
/* Called on the caller's thread when a phase begins, and about ten times a second in one that takes long. Nonzero:
 * stop, as soon as that is safe; a dump rolls back, and a restore ends what CRIU has made of it so far; later it is
 * not heeded any more. */
typedef int vg_checkpoint_progress_fn(void *user, const struct vg_checkpoint_progress *progress);

/* How the pages of the processes are stored. Zero pages are not, whatever it is. */
enum vg_compression {
	VG_COMPRESSION_NONE, /* as they are: the fastest where the disk is */
	VG_COMPRESSION_LZ4,
	VG_COMPRESSION_ZSTD,
};

struct vg_checkpoint_result {
	size_t processes, cuda_processes;
	pid_t pid;				/* the root of the tree; of several, the first one's */
	size_t roots;				/* how many trees there are */
	uint64_t bytes;				/* that the image takes on the disk */
	uint64_t raw_bytes;			/* before zero pages were left out, and the rest compressed */
	double seconds[VG_CHECKPOINT_PHASES]; /* 0: not come to */
	/* A warning: what may fail although the operation is allowed. A migration: why `precopy` did not help. "":
	 * none. */
	char warning[240];
	uint64_t device_bytes;			/* device memory of evictable vGPUs, in packs */
	uint64_t linked_bytes;			/* a dump: of packs that the image has in common with its bases */
	uint64_t copied_bytes;			/* a dump: of packs copied from bases on another file system */
	unsigned rounds;	  /* a migration: number of precopy rounds */
	uint64_t precopied_bytes; /* transferred in precopy rounds */
};

struct vg_dump_options {
	size_t size;	 /* sizeof(struct vg_dump_options) */
	pid_t pid;	 /* this process and all that descend from it; 0 with `vgpu` */
	const char *dir; /* the image; there must be nothing yet */
	int leave_running; /* nonzero: they run on afterwards; 0: they end, and the image is what is left */
	int cpu_only;	   /* nonzero: also a tree in which nobody uses CUDA */
	unsigned lock_timeout_ms; /* 0: 10,000; how long work on the GPU may take to end */
	int shell_job;		  /* nonzero: it hangs on a terminal, which the one who restores gives */
	int tcp_established;	  /* nonzero: open TCP connections are written down */
	int file_locks;		  /* nonzero: locks of files are written down */
	vg_checkpoint_progress_fn *progress;
	void *user;
	enum vg_compression compression;
	int compression_level; /* of zstd: 1 to 22; 0: its own choice */
	unsigned threads; /* that take in what CRIU writes; 0: as many as there are processors, 16 at most; up to 256 */
	const char *vgpu;     /* all that run inside this vGPU, with all that descend from them, instead of `pid` */
	struct vg_node *node; /* whose vGPUs; NULL: as vg_node_open(NULL) finds it */
	/* Images whose blocks of device memory need not be written again, for programs in evictable vGPUs. Their packs
	 * become packs of the new image, too, which is complete without them. None: NULL. A base that is damaged or
	 * belongs to another user is refused; its packs are not read. */
	const char *const *bases;
	size_t base_count; /* 64 at most */
};
/* `ret_result` may be NULL. INVALID (a thread's id), NOT_FOUND (no such process; it does not use CUDA; no CRIU),
 * EXISTS, DENIED, UNSUPPORTED, NOT_READY (not locked in time), POLICY (something that no image can hold: whose, and
 * what), STATE (stopped by `progress`; or the roll-back failed: says what state who is in), SYSTEM (CRIU's reason; the
 * disk), DRIVER. One dump or restore at a time in a process. */
VG_PUBLIC enum vg_status vg_checkpoint_dump(const struct vg_dump_options *options,
					    struct vg_checkpoint_result *ret_result);

/* Programs that ran inside one vGPU go into another. */
struct vg_restore_vgpu {
	const char *old_name; /* in the image; NULL: the one vGPU that it has */
	const char *new_name; /* there must be such a vGPU here */
};

struct vg_restore_options {
	size_t size;	 /* sizeof(struct vg_restore_options) */
	const char *dir; /* the image */
	const struct vg_process_gpu_pair *gpus; /* UUIDs, or indices: of the old one in the image, of the new one here;
						 * all GPUs of the image. None: each on the GPU it had */
	size_t gpu_count;
	vg_checkpoint_progress_fn *progress;
	void *user;
	struct vg_node *node; /* for processes that ran inside vGPUs; NULL: as vg_node_open(NULL) finds it */
	pid_t *roots;	      /* set to the roots of its trees, in the image's order; as many as fit. NULL: none */
	size_t root_capacity;
	const struct vg_restore_vgpu *vgpus; /* none: each process goes into the vGPU of the name that its own had */
	size_t vgpu_count;
};
/* The processes run again, with the pids they had, as children of init. Whatever does not fit is refused before
 * anything is made: NOT_FOUND (no image, no CRIU), INTEGRITY (damaged: which file), EXISTS (a pid is taken: by whom),
 * INSUFFICIENT (device memory or a vGPU's quota, with need and have), UNSUPPORTED (another machine, kernel or driver),
 * SYSTEM, DRIVER; a failure after that ends what was made.
 *
 * A process that ran inside a vGPU has its charges there again before it runs. The vGPU must be there under its name
 * (else NOT_FOUND says how to make it), on the GPU that is meant. One that was made for a single run (ephemeral) is
 * made again if it is gone, with its name, limit and share: then also LIMIT, and EXISTS if another vGPU has its name
 * now. It goes again if the restore fails, and otherwise when this process and all that run in it have ended. One
 * restore at a time in a process. */
VG_PUBLIC enum vg_status vg_checkpoint_restore(const struct vg_restore_options *options,
					       struct vg_checkpoint_result *ret_result);

/* An image as a stream of bytes, for a file, a pipe or a socket: its files without their holes, each piece with a
 * checksum. The descriptors stay the caller's. */

/* Writes the image at `dir` to `fd`. NOT_FOUND, INTEGRITY (no image), SYSTEM (the connection has broken:
 * ECONNRESET). */
VG_PUBLIC enum vg_status vg_checkpoint_send(const char *dir, int fd);
/* Reads such a stream, up to the end of `fd`, and leaves an image at `dir`, verified and on the disk, or nothing. What
 * comes in may be anybody's. PROTOCOL (no such stream), INTEGRITY (damaged, cut, or continues after its end),
 * UNSUPPORTED (of a later version), EXISTS, INSUFFICIENT (the disk, with need and have), SYSTEM. */
VG_PUBLIC enum vg_status vg_checkpoint_receive(int fd, const char *dir);

struct vg_migrate_options {
	size_t size;			    /* sizeof(struct vg_migrate_options) */
	/* What, and how; `dir`: where the image lies meanwhile; none runs on here. */
	const struct vg_dump_options *dump;
	const char *to; /* "unix:PATH": who listens there; "ssh:[USER@]HOST": `virgate restore --from -` over there */
	const struct vg_process_gpu_pair *gpus; /* see vg_restore_options; for ssh alone: who listens has his own */
	size_t gpu_count;
	/* Nonzero: device memory of programs in evictable vGPUs is transferred in precopy rounds, while they run. The
	 * first round transfers all of it, each later one what has changed since, until little changes or the rounds
	 * do not become smaller. For each round the memory moves to the host and back. The rest is transferred while
	 * the processes are stopped. UNSUPPORTED: the receiver is too old, or no process is in an evictable vGPU. */
	int precopy;
};
/* Moves processes to another machine, or pid namespace. They are stopped while their image is transferred and verified;
 * when it fits there they end here, and only then begin there. As vg_checkpoint_dump() until then: whatever fails there
 * or here, also the connection, they run on here, and there is nothing of them there. If they cannot be made there
 * after all, they are made here again, and the call fails with the other side's reason. STATE: only a look tells where
 * they run (the connection broke after they had been handed over), or they run nowhere: the text says which, and where
 * the image is, which is kept then. result->pid: there. */
VG_PUBLIC enum vg_status vg_checkpoint_migrate(const struct vg_migrate_options *options,
					       struct vg_checkpoint_result *ret_result);
/* The other side of it: restores what comes in at `in`, which may be a vg_checkpoint_send(), too. `out`: for answers,
 * also `in` itself; -1: nobody waits for any. options->dir: where the image lies; `keep`: it stays there, on the disk.
 * As vg_checkpoint_receive() and vg_checkpoint_restore(); the other side is told. */
VG_PUBLIC enum vg_status vg_checkpoint_restore_from(int in, int out, const struct vg_restore_options *options, int keep,
						    struct vg_checkpoint_result *ret_result);

/* What became of one process that was asked to leave the GPU, or to return. */
enum vg_suspend_outcome {
	VG_SUSPEND_DONE,
	VG_SUSPEND_ENDED,    /* it has ended */
	VG_SUSPEND_REVERSED, /* somebody else asked for the opposite meanwhile */
	VG_SUSPEND_GAVE_UP,  /* for the reason in `eviction` */
	VG_SUSPEND_SILENT,   /* it did not answer in time; the request takes effect when it does */
	VG_SUSPEND_LATE,     /* its memory still moves */
};

struct vg_suspended_process {
	int64_t pid;
	const char *command;
	enum vg_suspend_outcome outcome;
	uint64_t charged;		  /* against the vGPU's limit, before; 0: it was not looked at */
	uint64_t host_before;		  /* memory in the host, before */
	struct vg_eviction_info eviction; /* afterwards; all 0: it has ended, or its vGPU is not evictable */
	int deep;			  /* nonzero: the driver has taken it off the GPU, or brought it back */
};

struct vg_suspend_options {
	size_t size;	      /* sizeof(struct vg_suspend_options) */
	struct vg_node *node; /* NULL: as vg_node_open(NULL) finds it */
	const char *vgpu;     /* the vGPU, with all its processes; or NULL */
	int64_t pid;	      /* one process, as the node sees it; 0 with `vgpu` */
	/* Nonzero: the driver then takes the processes off the GPU, with contexts, modules and memory that cannot move.
	 * In a vGPU that is not evictable the driver moves all memory, and processes that start later run.
	 * vg_checkpoint_resume() ignores it and detects deep suspensions. */
	int deep;
	unsigned drain_ms; /* how long threads may stay in the driver and work on the GPU may take; 0: 10,000 */
	vg_checkpoint_progress_fn *progress;
	void *user;
};

struct vg_suspend_result {
	const char *vgpu;
	size_t count;
	const struct vg_suspended_process *processes;
	size_t failed;	    /* of these, that did not do what they were asked */
	int by_driver;	    /* nonzero: the vGPU is not evictable, and the driver moved all memory */
	double seconds[VG_CHECKPOINT_PHASES];
	char warning[400]; /* a warning: what may fail although the operation is allowed; "": none */
};

/* Moves the device memory of an evictable vGPU's processes to the host, and with `deep` the processes off the GPU. They
 * wait at their next use of the GPU until vg_checkpoint_resume(). All of it stays charged to the vGPU. Returns when all
 * have answered. *ret_result is set also after a failure if processes were asked, otherwise to NULL; the caller frees
 * it with vg_suspend_result_free(). NOT_READY: some did not obey, see `failed`; the others stay suspended. NOT_FOUND,
 * BUSY (it is so already; somebody dumps a process), UNSUPPORTED (not evictable, and not `deep`; `deep` under MPS),
 * DENIED (`deep`: another user's process), INSUFFICIENT (host memory, with need and have), STATE (stopped by
 * `progress`: without `deep` the request stands; or a step failed and could not be taken back), DRIVER, NO_DAEMON,
 * INVALID, NO_MEMORY. If taking processes off the GPU fails, that is taken back, and their memory stays in the host.
 * One such call at a time in a process. */
VG_PUBLIC enum vg_status vg_checkpoint_suspend(const struct vg_suspend_options *options,
					       struct vg_suspend_result **ret_result);
/* Brings processes back to the GPU, whichever way they were suspended, and also if the program that did it was killed.
 * As above; INSUFFICIENT, with need and have: the GPU has too little memory for what the driver has to bring back, and
 * nothing was touched. NOT_READY also: a process waits for room on the GPU, and returns when there is room. */
VG_PUBLIC enum vg_status vg_checkpoint_resume(const struct vg_suspend_options *options,
					      struct vg_suspend_result **ret_result);
/* NULL is fine. */
VG_PUBLIC void vg_suspend_result_free(struct vg_suspend_result *result);

struct vg_recovery {
	size_t processes; /* of the tree */
	size_t stopped;	  /* of these, that were sent SIGCONT */
	size_t held_back; /* that the driver had locked, or checkpointed, or whose device memory was put away */
};
/* Brings a process and all that descend from it back to running, from whatever state each is in: for processes whose
 * dump or restore was killed. Waits for a CRIU that is still at work on them. `ret_recovery` may be NULL; zeros in it
 * mean that there was nothing to do. INVALID, NOT_FOUND, DENIED, BUSY (somebody dumps or restores them), STATE (who
 * does not run, and what state he is in), DRIVER. */
VG_PUBLIC enum vg_status vg_checkpoint_recover(pid_t pid, struct vg_recovery *ret_recovery);

#ifdef __cplusplus
}
#endif
#endif

/* What happened on a node, what its figures were in the last hour, and how its daemon is.
 *
 * The daemon keeps a journal of events: creations, entries, refusals, suspensions, dumps, ends, and its own starts and
 * ends. It has a bounded number of them, in memory and on disk, and a restarted daemon continues it. The figures of the
 * last hour are in the daemon's memory only. For other users' vGPUs, an event has no program, no actor and no text,
 * because `virgate ps` does not show them either. Every function may be called from any thread. Sizes are in bytes,
 * times in seconds since the epoch. */
#ifndef VIRGATE_JOURNAL_H
#define VIRGATE_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/status.h>
#include <virgate/vgpu.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_journal_event {
	uint64_t number; /* larger than that of every earlier event */
	double time;	 /* by the machine's clock, which may have been set in between */
	/* "started", "ended" (the daemon); "created", "removed", "changed" (a vGPU); "entered", "left", "died" (a
	 * program: it used the GPU for the first time; its process runs another program; its process ended);
	 * "refused" (an allocation); "denied" (a request to the daemon); "signalled", "suspended", "resumed" (by a
	 * user); "evicted", "returned" (by the daemon, to make room); "dumped" (an image of its programs is complete,
	 * on disk or for another machine, as the process that made it reports); "drained", "undrained" (a GPU);
	 * "queued", "dequeued" (a request that waits for room); "damaged", "renewed" (the ledger); "omitted" (events of
	 * a user that were too many). Later versions may have more. */
	const char *kind;
	const char *vgpu;    /* "": none */
	const char *owner;   /* of the vGPU; "": no vGPU */
	const char *user;    /* the user that caused it; "": not a user, or not shown */
	int64_t pid;	     /* the program, or the process of `user`; 0: none, or not shown */
	const char *command; /* "": none, or not shown */
	const char *text;    /* why, or what exactly; "": not shown */
	uint64_t bytes;	     /* requested, refunded, or the new limit; 0: none, or not shown */
	unsigned count;	     /* how many alike the event stands for */
};

struct vg_journal_options {
	size_t size;	  /* sizeof(struct vg_journal_options) */
	uint64_t after;	  /* only events with larger numbers; 0: all */
	double since;	  /* only events of this time or later; 0: all */
	const char *vgpu; /* only events of the vGPU with this name, also of a removed one; NULL: all */
	unsigned most;	  /* at most so many, up to 512; 0: 512 */
	int newest;	  /* nonzero: of too many events the newest, instead of the oldest */
	int only_public;  /* nonzero: only what every user may see, for programs that show it to others */
};

struct vg_journal_list {
	size_t count;
	const struct vg_journal_event *events; /* oldest first */
	uint64_t next;			       /* the value of `after` that continues this list */
	int more;			       /* nonzero: there are more events now */
	int lost;			       /* nonzero: the journal no longer has all events since `after` */
};

/* Lists events. `options` may be NULL. The list is one block, freed with vg_journal_list_free(), which accepts NULL.
 * INVALID, NO_DAEMON, PROTOCOL, NO_MEMORY. */
VG_PUBLIC enum vg_status vg_journal_list(struct vg_node *node, const struct vg_journal_options *options,
					 struct vg_journal_list **ret_list);
/* As vg_journal_list(), but if there is no event, waits until there is one, at most `seconds`. It asks the daemon twice
 * a second, also after the daemon has ended and started again. The list may be empty. */
VG_PUBLIC enum vg_status vg_journal_wait(struct vg_node *node, const struct vg_journal_options *options, double seconds,
					 struct vg_journal_list **ret_list);
VG_PUBLIC void vg_journal_list_free(struct vg_journal_list *list);

#define VG_HISTORY_UNKNOWN UINT64_MAX

/* The figures at one time. Each may be VG_HISTORY_UNKNOWN. */
struct vg_history_sample {
	double time;
	uint64_t charged;   /* of a GPU: by its vGPUs */
	uint64_t physical;  /* of a GPU: the memory in use, as the driver reports it */
	uint64_t in_host;   /* of an evictable vGPU; the following are unknown for a GPU */
	uint64_t gpu_ns;    /* GPU time used since the first of its programs started; known while programs take turns */
	uint64_t waited_ns; /* time for which it waited for a turn, likewise */
	uint64_t refusals;  /* since it was created */
};

/* The samples of a vGPU or a GPU. */
struct vg_history_series {
	const char *vgpu; /* "": the series is of a GPU */
	int device;
	uint64_t first; /* the number of the first sample */
	size_t count;
	const struct vg_history_sample *samples; /* oldest first */
};

struct vg_history_options {
	size_t size;	  /* sizeof(struct vg_history_options) */
	const char *vgpu; /* NULL: all vGPUs and GPUs, with at most 5760 samples in all */
	uint64_t after;	  /* only samples with larger numbers; 0: all. A restarted daemon begins again at 1. */
	unsigned most;	  /* only so many of the newest samples; 0: 720, an hour */
};

struct vg_history_list {
	size_t count;
	const struct vg_history_series *series;
	uint64_t last;	/* the number of the last sample; 0: no sample yet */
	unsigned every; /* seconds between two samples */
};

/* Lists samples. `options` may be NULL. The list is one block, freed with vg_history_list_free(), which accepts NULL.
 * NOT_FOUND, INVALID, NO_DAEMON, PROTOCOL, NO_MEMORY. */
VG_PUBLIC enum vg_status vg_history_list(struct vg_node *node, const struct vg_history_options *options,
					 struct vg_history_list **ret_list);
VG_PUBLIC void vg_history_list_free(struct vg_history_list *list);

/* What a vGPU did on its GPU for some time, or for a part of that time. A reader joins adjacent parts of the same phase
 * and turn. The vGPUs of a job have their turns at the same time, each on its own GPU. */
struct vg_phase {
	const char *vgpu;
	int device;
	/* "holds" (it had the turn), "ends" (its turn was over, and its work was ending), "paused" (it made way for a
	 * request in its turn), "alone" (it had the GPU alone, without turns), "beside" (it ran beside others),
	 * "request" (of the latency class), "lasts" (its work ran outside of its turns), "waits" (for a turn), "none".
	 * Later versions may have more. */
	const char *phase;
	uint64_t turn;		   /* the number of the vGPU's last turn */
	uint64_t begin_ns, end_ns; /* by CLOCK_MONOTONIC of the daemon's machine */
	uint64_t charged_ns;	   /* the GPU time that the vGPU, or its whole job, was charged */
	uint64_t launches;	   /* VG_HISTORY_UNKNOWN: not shown */
};

struct vg_phase_options {
	size_t size;	/* sizeof(struct vg_phase_options) */
	uint64_t after; /* only phases with larger numbers: `next` of the list before */
	int begins;	/* nonzero: begin a recording; `after` is ignored, and the list is empty */
};

struct vg_phase_list {
	size_t count;
	const struct vg_phase *phases; /* of each vGPU oldest first; at most 1024 */
	uint64_t next;		       /* the value of `after` that continues this list */
	int more;		       /* nonzero: there are more phases now */
	int lost;		       /* nonzero: some phases since `after` were not recorded, or are gone */
	uint64_t now_ns;	       /* the time of this list, by the clock of the phases */
	double started;		       /* when the daemon started: numbers of another daemon mean nothing */
};

/* Lists what vGPUs did on their GPUs. The daemon records it only while such requests arrive, and for 3 seconds
 * afterwards, once for all clients. The list is one block, freed with vg_phase_list_free(), which accepts NULL.
 * INVALID, NO_DAEMON, PROTOCOL, NO_MEMORY. */
VG_PUBLIC enum vg_status vg_phase_list(struct vg_node *node, const struct vg_phase_options *options,
				       struct vg_phase_list **ret_list);
VG_PUBLIC void vg_phase_list_free(struct vg_phase_list *list);

/* How the daemon is. Counters begin at its start. */
struct vg_daemon_info {
	size_t size; /* sizeof(struct vg_daemon_info) */
	int64_t pid;
	int system; /* nonzero: the system's daemon */
	double started;
	double cpu_seconds;
	uint64_t resident;	  /* bytes of memory; 0: unknown */
	uint64_t connections;	  /* now, with the one that asks */
	uint64_t requests;	  /* answered, registrations of programs not included */
	uint64_t events;	  /* added to the journal */
	uint64_t omitted;	  /* not added, since one user's were too many */
	uint64_t journal_lost;	  /* left the memory before they could be written to the disk */
	uint64_t journal_errors;  /* failed writes of the journal to the disk */
	uint64_t journal_damaged; /* lines of the journal that could not be read at the start */
	double delay;		  /* the longest time that the main loop was late by, in seconds */
};

/* Fills in *ret_info, whose `size` the caller has set. INVALID, NO_DAEMON, PROTOCOL. */
VG_PUBLIC enum vg_status vg_daemon_info(struct vg_node *node, struct vg_daemon_info *ret_info);

#ifdef __cplusplus
}
#endif
#endif

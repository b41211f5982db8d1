/* Device memory by name: a process publishes an offer (share.h) at the node's daemon, and other processes open it.
 *
 * * The daemon keeps only the descriptors: it copies nothing and allocates no device memory. A publication can be
 * opened only after the publisher's work on the memory is done. A publication, and each lease on it, ends when it is
 * closed or when its process ends for any reason. The memory is freed when no process has it any more, and is charged
 * to the publisher's vGPU until then.
 *
 * * If the daemon ends, mappings stay valid. vg_publication_look() publishes the same generation again at the next
 * daemon; then vg_share_lease_look() renews a lease on it. No call waits for a daemon longer than the node's timeout.
 *
 * * The daemon decides by user and group of a process whether it may open a publication. Read-only access binds only
 * programs that use these functions: a process with a descriptor of device memory can map it for writing.
 *
 * * Every function may be called from any thread. A forked child may only destroy inherited objects. */
#ifndef VIRGATE_BROKER_H
#define VIRGATE_BROKER_H

#include <virgate/share.h>
#include <virgate/stream.h>
#include <virgate/vgpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- publishing ----------------------------------------------------------------------------------- */

struct vg_publication;

struct vg_publish_options {
	size_t size;	   /* sizeof(struct vg_publish_options) */
	unsigned mode;	   /* permission to read (4) and write (2), as of chmod(1); 0: 0600, with a group 0640 */
	const char *group; /* the group of the mode's second digit; NULL: none. Needs the system's daemon */
	/* Publishing waits for the work queued on this stream; NULL: for all work on the offer's devices. */
	struct vg_stream *fence;
};
/* Publishes the offer's ranges, at most 1024, under a name of the same form as a vGPU's. Waits for the fence before
 * the publication becomes visible. If this user has published that name already, this is the next generation:
 * readers keep the old one, and get an event. `options` may be NULL. The offer stays the caller's, who may destroy
 * it afterwards. The caller owns *ret_publication. INVALID (the name, the mode, no ranges or too many), EXISTS
 * (another user's name), BUSY (being revoked), DENIED (not in the group), NOT_FOUND (no such group), LIMIT (of this
 * user's publications or descriptors), NO_DAEMON, PROTOCOL, NO_MEMORY, SYSTEM, DRIVER. Sources: cuStreamSynchronize,
 * cuCtxSynchronize. */
VG_PUBLIC enum vg_status vg_share_publish(struct vg_node *node, const char *name, const struct vg_share_offer *offer,
					  const struct vg_publish_options *options,
					  struct vg_publication **ret_publication);

/* The state of a generation, for its publisher and its readers. */
enum vg_publication_state {
	VG_PUBLICATION_CURRENT,	   /* a reader that opens the name gets this generation */
	VG_PUBLICATION_SUPERSEDED, /* a newer generation exists */
	VG_PUBLICATION_ASKED_BACK, /* being revoked: readers should free their imports and close their leases */
	VG_PUBLICATION_WITHDRAWN,  /* the publication cannot be opened any more, and no newer generation exists */
	/* The daemon has ended, or the next daemon does not have the publication yet: look again later. */
	VG_PUBLICATION_DETACHED,
	VG_PUBLICATION_LOST /* the daemon refuses to take the publication again: close it */
};

struct vg_publication_view {
	size_t size; /* sizeof(struct vg_publication_view) */
	enum vg_publication_state state;
	uint64_t generation; /* the generation that this publication or lease has, from 1 up */
	uint64_t current;    /* the generation that a new reader of the name would get now; 0: none */
	double seconds_left; /* ASKED_BACK: until the deadline; negative: since then */
};
/* Returns the state. If the daemon has ended, publishes the generation again at the next daemon, and starts one if the
 * node allows that. The caller sets `ret_view->size`. INVALID, STATE (a forked child). */
VG_PUBLIC enum vg_status vg_publication_look(struct vg_publication *publication, struct vg_publication_view *ret_view);
/* Returns the publication's generation; 0 for NULL. */
VG_PUBLIC uint64_t vg_publication_generation(const struct vg_publication *publication);
/* Returns a descriptor for poll(2); -1 for NULL. The descriptor is ready when the state has changed: then call
 * vg_publication_look(). Do not read or close the descriptor. Its number does not change. */
VG_PUBLIC int vg_publication_descriptor(const struct vg_publication *publication);
/* Withdraws the publication: it cannot be opened any more, but its readers keep it. *ret_readers: the number of
 * readers; `ret_readers` may be NULL. NO_DAEMON (it is withdrawn nevertheless), STATE. */
VG_PUBLIC enum vg_status vg_publication_withdraw(struct vg_publication *publication, unsigned *ret_readers);
/* Withdraws the publication, if it is not withdrawn yet, without waiting for readers. Frees the object. Accepts NULL.
 * No other thread may use the object any more. */
VG_PUBLIC void vg_publication_destroy(struct vg_publication *publication);

/* ---- opening -------------------------------------------------------------------------------------- */

struct vg_share_lease;

struct vg_share_open_options {
	size_t size;  /* sizeof(struct vg_share_open_options) */
	int writable; /* nonzero: open it for writing, too */
};
/* Gets a lease on the current generation of that name. `options` may be NULL: for reading. The caller owns *ret_lease.
 * NOT_FOUND, NOT_READY (its publisher still works on it, or has not published it again at a new daemon), BUSY (being
 * revoked), DENIED, INVALID (the name; it is not offered for writing), LIMIT (of this user's leases), NO_DAEMON,
 * PROTOCOL, NO_DRIVER, NO_MEMORY, SYSTEM. */
VG_PUBLIC enum vg_status vg_share_open(struct vg_node *node, const char *name,
				       const struct vg_share_open_options *options, struct vg_share_lease **ret_lease);
/* Returns the ranges, to import with vg_share_import(); valid until the lease is closed. NULL for NULL. */
VG_PUBLIC const struct vg_share_offer *vg_share_lease_offer(const struct vg_share_lease *lease);
/* Returns the generation of the lease; 0 for NULL. */
VG_PUBLIC uint64_t vg_share_lease_generation(const struct vg_share_lease *lease);
/* Returns 1 while the lease's generation is current and not being revoked; else 0. Sends no request: reads two words of
 * a page that the daemon writes. While no daemon runs nothing can be published, so the result does not change. */
VG_PUBLIC int vg_share_lease_is_current(const struct vg_share_lease *lease);
/* Updates the view of a lease, like vg_publication_look(), but does not start a daemon. */
VG_PUBLIC enum vg_status vg_share_lease_look(struct vg_share_lease *lease, struct vg_publication_view *ret_view);
/* Returns a descriptor for poll(2), like vg_publication_descriptor(). */
VG_PUBLIC int vg_share_lease_descriptor(const struct vg_share_lease *lease);
/* Ends the lease and closes the offer's descriptors. Free the imports first: they stay valid, but the daemon does
 * not know of them any more. Accepts NULL. No other thread may use the lease any more. */
VG_PUBLIC void vg_share_lease_close(struct vg_share_lease *lease);

/* ---- listing -------------------------------------------------------------------------------------- */

struct vg_reader_info {
	int64_t pid; /* pid of the reader; 0: the reader is in another pid namespace */
	const char *command;
	const char *user;
	int writable;
	double since;
};

struct vg_publication_info {
	const char *name;
	uint64_t generation;
	const char *
		state; /* "open", "superseded", "revoking", "withdrawn", "orphaned" (its publisher has ended), "lost" */
	uint64_t bytes; /* bytes of device memory */
	unsigned ranges;
	int device; /* index on the node; -1: not known */
	const char *owner;
	const char *group; /* "": none */
	unsigned mode;
	const char *vgpu;  /* the vGPU that is charged; "": none */
	int64_t publisher; /* pid of the publisher; 0: the publisher has ended */
	double published;
	unsigned leases;
	int readers_known; /* 0: this user may not see the readers */
	size_t reader_count;
	const struct vg_reader_info *readers;
};

struct vg_publication_list {
	size_t count;
	const struct vg_publication_info *publications; /* sorted by name, oldest generation first */
};

/* Lists each generation that its publisher or a reader has. The list is one block, freed with
 * vg_publication_list_free(), which accepts NULL. INVALID, NO_DAEMON, PROTOCOL, NO_MEMORY. */
VG_PUBLIC enum vg_status vg_publication_list(struct vg_node *node, struct vg_publication_list **ret_list);
VG_PUBLIC void vg_publication_list_free(struct vg_publication_list *list);

/* ---- revoking ------------------------------------------------------------------------------------- */

struct vg_revoke_options {
	size_t size;	 /* sizeof(struct vg_revoke_options) */
	double deadline; /* seconds until the publication is withdrawn, at most 86400 */
	int kill;	 /* nonzero: after the deadline, end those of the owner's processes that still have a lease */
};

enum vg_revoke_step {
	VG_REVOKE_ASKED,      /* the readers closed their leases before the deadline */
	VG_REVOKE_WITHDRAWN,  /* the deadline passed: the publication was withdrawn */
	VG_REVOKE_TERMINATED, /* SIGTERM was sent to the owner's readers */
	VG_REVOKE_KILLED      /* SIGKILL was sent, too */
};

struct vg_revoke_holder {
	int64_t pid;
	const char *user;
	int owner; /* nonzero: a process of the publication's owner, which `kill` applies to */
};

struct vg_revoke_report {
	enum vg_revoke_step step; /* the last step that was taken */
	unsigned holders;	  /* number of leases when the revocation began */
	size_t left;		  /* number of leases after the last step */
	const struct vg_revoke_holder *holders_left;
};

/* Revokes a publication, with all its generations. First it cannot be opened any more, and its readers get an event
 * with the deadline. After the deadline it is withdrawn. Then, with `kill`, the readers that are processes of the
 * publication's owner get SIGTERM, and two seconds later SIGKILL; processes of other users and the caller never do.
 * Returns when there is no lease, or after the last step. The publisher keeps its memory, and gets an event. If the
 * caller ends meanwhile, the publication is withdrawn. `options` may be NULL: deadline 0, no kill. *ret_report is
 * one block, freed with vg_revoke_report_free(), which accepts NULL. NOT_FOUND, DENIED (only the owner and root
 * may), BUSY (another process revokes it), INVALID, NO_DAEMON, PROTOCOL, NO_MEMORY. */
VG_PUBLIC enum vg_status vg_share_revoke(struct vg_node *node, const char *name,
					 const struct vg_revoke_options *options, struct vg_revoke_report **ret_report);
VG_PUBLIC void vg_revoke_report_free(struct vg_revoke_report *report);

#ifdef __cplusplus
}
#endif
#endif

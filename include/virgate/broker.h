/* Device memory by name: one process publishes an offer of share.h with the node's daemon, others open it there.
 *
 * The daemon keeps the descriptors and nothing else: nothing is copied, and no memory of its own is behind them. It
 * shows a publication to nobody before the publisher's work on the memory is done. A publication, and each lease on it,
 * ends when it is closed or when the process that has it ends, however that comes about; the memory goes with its last
 * holder, and is charged to the publisher's vGPU until then.
 *
 * Where the daemon ends, what is mapped stays mapped. A publication comes back under the next one, with the same
 * generation, when its process next calls vg_publication_look() or when that finds the descriptor ready; a lease
 * likewise with vg_share_lease_look(), once its publication is back. No call waits for a daemon longer than the node's
 * timeout.
 *
 * Who may open it is for the daemon to say, by user and group of the process that asks. What a lease is for binds
 * programs that keep to these functions: a descriptor of device memory lets whoever holds it write.
 *
 * Every function may be called from any thread. A forked child may destroy what it inherited, and no more. */
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
	unsigned mode;	   /* who may read (4) and write (2), as chmod(1) has it; 0: 0600, with a group 0640 */
	const char *group; /* whose members the mode's second digit is for; NULL: nobody's. Needs the system's daemon */
	struct vg_stream
		*fence; /* whose work so far is waited for; NULL: all work of this process on the offer's devices */
};
/* Publishes the offer's ranges, up to 1024, under a name as vGPUs have them. It becomes visible when the fence has been
 * waited for. Published under a name that this user has published already, it is the next generation: readers of
 * the one before keep that, and are told. `options` may be NULL. The offer stays the caller's and is not needed any
 * more. The caller owns *ret_publication. INVALID (the name, the mode, an offer of nothing or too much), EXISTS
 * (another user's), BUSY (being revoked), DENIED (not in the group), NOT_FOUND (no such group), LIMIT (of this user's
 * publications or descriptors), NO_DAEMON, PROTOCOL, NO_MEMORY, SYSTEM, DRIVER. Sources: cuStreamSynchronize,
 * cuCtxSynchronize. */
VG_PUBLIC enum vg_status vg_share_publish(struct vg_node *node, const char *name, const struct vg_share_offer *offer,
					  const struct vg_publish_options *options,
					  struct vg_publication **ret_publication);

/* What a generation is, for its publisher and for its readers. */
enum vg_publication_state {
	VG_PUBLICATION_CURRENT,	   /* the one that is opened by that name */
	VG_PUBLICATION_SUPERSEDED, /* there is a newer one */
	VG_PUBLICATION_ASKED_BACK, /* being revoked: readers are to let go */
	VG_PUBLICATION_WITHDRAWN,  /* nobody can open it any more, and there is no newer one */
	VG_PUBLICATION_DETACHED,   /* the daemon has ended, or a new one does not have it yet: look again later */
	VG_PUBLICATION_LOST	   /* the daemon does not take it back: close it */
};

struct vg_publication_view {
	size_t size; /* sizeof(struct vg_publication_view) */
	enum vg_publication_state state;
	uint64_t generation; /* this one, from 1 up */
	uint64_t current;    /* the one that is opened by that name now; 0: none */
	double seconds_left; /* ASKED_BACK: until the deadline; negative: since */
};
/* How it stands, taking the daemon's word and, where the daemon was replaced, publishing it again with the next one,
 * which is started where the node allows it. `ret_view->size` is set by the caller. INVALID, STATE (a forked child). */
VG_PUBLIC enum vg_status vg_publication_look(struct vg_publication *publication, struct vg_publication_view *ret_view);
/* Its generation; 0 for NULL. */
VG_PUBLIC uint64_t vg_publication_generation(const struct vg_publication *publication);
/* For poll(2): ready when vg_publication_look() would find something new. Not to be read or closed; the same number for
 * as long as it is published. -1 for NULL. */
VG_PUBLIC int vg_publication_descriptor(const struct vg_publication *publication);
/* Nobody can open it from here on; its readers keep it. *ret_readers, which may be NULL: how many that are. NO_DAEMON
 * (it is withdrawn all the same), STATE. */
VG_PUBLIC enum vg_status vg_publication_withdraw(struct vg_publication *publication, unsigned *ret_readers);
/* Withdraws it if that was not done, waiting for nobody. NULL is fine. No other thread may use it any more. */
VG_PUBLIC void vg_publication_destroy(struct vg_publication *publication);

/* ---- opening -------------------------------------------------------------------------------------- */

struct vg_share_lease;

struct vg_share_open_options {
	size_t size;  /* sizeof(struct vg_share_open_options) */
	int writable; /* nonzero: to write, too */
};
/* A lease on the current generation of that name. `options` may be NULL: for reading. The caller owns *ret_lease.
 * NOT_FOUND, NOT_READY (its publisher still works on it, or has not come back to a new daemon), BUSY (being revoked),
 * DENIED, INVALID (the name; writable is not offered), LIMIT (of this user's leases), NO_DAEMON, PROTOCOL, NO_DRIVER,
 * NO_MEMORY, SYSTEM. */
VG_PUBLIC enum vg_status vg_share_open(struct vg_node *node, const char *name,
				       const struct vg_share_open_options *options, struct vg_share_lease **ret_lease);
/* The ranges, to import with vg_share_import(); valid until the lease is closed. NULL for NULL. */
VG_PUBLIC const struct vg_share_offer *vg_share_lease_offer(const struct vg_share_lease *lease);
/* The generation that it is on; 0 for NULL. */
VG_PUBLIC uint64_t vg_share_lease_generation(const struct vg_share_lease *lease);
/* 1 while the lease is on the current generation and nobody has asked for it back; else 0. Asks nobody: two loads from
 * a page that the daemon writes. While no daemon runs nothing can be published, so it stays true. */
VG_PUBLIC int vg_share_lease_is_current(const struct vg_share_lease *lease);
/* As vg_publication_look(); starts no daemon. */
VG_PUBLIC enum vg_status vg_share_lease_look(struct vg_share_lease *lease, struct vg_publication_view *ret_view);
/* As vg_publication_descriptor(). */
VG_PUBLIC int vg_share_lease_descriptor(const struct vg_share_lease *lease);
/* Ends the lease and closes the offer's descriptors. Imports of it stay until they are freed, and are to be freed
 * first: from here on nobody knows of them. NULL is fine. No other thread may use it any more. */
VG_PUBLIC void vg_share_lease_close(struct vg_share_lease *lease);

/* ---- what there is -------------------------------------------------------------------------------- */

struct vg_reader_info {
	int64_t pid; /* 0: in another pid namespace */
	const char *command;
	const char *user;
	int writable;
	double since;
};

struct vg_publication_info {
	const char *name;
	uint64_t generation;
	const char
		*state; /* "open", "superseded", "revoking", "withdrawn", "orphaned" (its publisher has gone), "lost" */
	uint64_t bytes; /* of device memory */
	unsigned ranges;
	int device; /* index on the node; -1: not known */
	const char *owner;
	const char *group; /* "": none */
	unsigned mode;
	const char *vgpu;  /* that is charged; "": none */
	int64_t publisher; /* its pid; 0: gone */
	double published;
	unsigned leases;
	int readers_known; /* 0: not for this user to see */
	size_t reader_count;
	const struct vg_reader_info *readers;
};

struct vg_publication_list {
	size_t count;
	const struct vg_publication_info *publications; /* by name, oldest generation first */
};

/* A row for each generation that somebody has. One block, freed with vg_publication_list_free(), which takes NULL.
 * INVALID, NO_DAEMON, PROTOCOL, NO_MEMORY. */
VG_PUBLIC enum vg_status vg_publication_list(struct vg_node *node, struct vg_publication_list **ret_list);
VG_PUBLIC void vg_publication_list_free(struct vg_publication_list *list);

/* ---- asking it back ------------------------------------------------------------------------------- */

struct vg_revoke_options {
	size_t size;	 /* sizeof(struct vg_revoke_options) */
	double deadline; /* seconds that readers have, at most 86400 */
	int kill;	 /* nonzero: then end those of the owner's processes that still hold it */
};

enum vg_revoke_step {
	VG_REVOKE_ASKED,      /* readers were asked, and let go by themselves */
	VG_REVOKE_WITHDRAWN,  /* the deadline passed: nobody can open it any more */
	VG_REVOKE_TERMINATED, /* the owner's readers were sent SIGTERM */
	VG_REVOKE_KILLED      /* and SIGKILL */
};

struct vg_revoke_holder {
	int64_t pid;
	const char *user;
	int owner; /* nonzero: the publication's owner, whose processes kill is about */
};

struct vg_revoke_report {
	enum vg_revoke_step step; /* the last that was taken; nobody holds it after that if `left` is 0 */
	unsigned holders;	  /* leases when it began */
	size_t left;
	const struct vg_revoke_holder *holders_left;
};

/* Asks a publication back, all its generations: nobody new from here on, and readers are told of the deadline; then it
 * is withdrawn; then, with kill, SIGTERM and two seconds later SIGKILL for readers of the publication's owner, never
 * for anybody else's and never for the caller. Returns when nobody has a lease or nothing is left to do. The publisher
 * keeps its memory, and is told. A caller that ends meanwhile leaves it withdrawn. `options` may be NULL: no time, no
 * kill. *ret_report is one block, freed with vg_revoke_report_free(), which takes NULL. NOT_FOUND, DENIED (only the
 * owner and root), BUSY (somebody else is at it), INVALID, NO_DAEMON, PROTOCOL, NO_MEMORY. */
VG_PUBLIC enum vg_status vg_share_revoke(struct vg_node *node, const char *name,
					 const struct vg_revoke_options *options, struct vg_revoke_report **ret_report);
VG_PUBLIC void vg_revoke_report_free(struct vg_revoke_report *report);

#ifdef __cplusplus
}
#endif
#endif

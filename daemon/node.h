// The daemon's whole state. One thread.
#pragma once
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/authority.h"
#include "ledger/ledger.h"
#include "system/system.h"
#include "wire/wire.h"

struct node;

// Something the loop waits for. `ready` may free the struct that holds it.
struct source {
	int fd;
	void (*ready)(struct node *node, struct source *source, uint32_t events);
};

// A process that keeps a vGPU in use while it lives: `virgate run`, or an heir of it.
struct launcher {
	struct source source; // pidfd
	struct vgpu *vgpu;
	struct launcher *next;
	pid_t pid;
	uint64_t start_time;
};

struct tenant {
	struct source source; // pidfd, -1 where we cannot see the process
	struct vgpu *vgpu;
	struct tenant *next;
	struct vg_ledger_tenant seen;
	pid_t pid; // as we see it, 0: not known
	uint64_t start_time;
	int exports; // exports.c; -1: none that we know
	bool told_of_exports;
	bool dead, found; // `found`: by the scan in progress
	bool replaced;	  // it lives, and runs another program now (exec)
	bool warned, drift_told;
	uint64_t declared_before;   // measure.c: when the look in progress began
	uint64_t pristine_physical; // what its first context took at the last look; 0: not known
	uint64_t drift_since_ns; // more on the device than is charged; 0: not so
	uint64_t dead_since_ns;
};

struct vgpu {
	struct vgpu *next;
	char name[VG_LEDGER_NAME];
	char path[PATH_MAX]; // of the ledger
	size_t device;	     // index in the system's list
	uint64_t memory;
	unsigned int share; // percent, 0: none asked
	uid_t owner;
	gid_t group; // (gid_t)-1: none
	bool ephemeral;
	double created;
	struct vg_ledger *ledger;
	volatile bool damaged; // the ledger's file was truncated under us
	struct launcher *launchers;
	struct tenant *tenants;
};

// What a context takes, by GPU model and driver, as tenants measured it.
struct overhead {
	struct overhead *next;
	char gpu[96], driver[80];
	uint64_t bytes;
};

struct node {
	struct vg_system *system;
	bool system_wide, simulated;
	unsigned int idle_seconds; // 0: never leaves
	char runtime_dir[PATH_MAX - 128], state_path[PATH_MAX], claims_dir[PATH_MAX - 128];
	uint32_t pid_namespace;
	int epoll_fd, lock_fd;
	struct source listener, signals;
	struct vgpu *vgpus;
	struct overhead *overheads;
	struct connection *connections;
	struct session *sessions;	  // broker.h
	struct publication *publications;
	unsigned int connection_count;
	bool leaving;
	bool ending; // a signal said so: whoever still waits has lost
	bool told_to_end; // by a request: nobody new is let in
	uint64_t busy_until_ns;	 // last sign of use
	uint64_t next_scan_ns, next_reap_ns; // 0: not due
};

// loop.c
int node_watch(struct node *node, struct source *source, uint32_t events);
void node_unwatch(struct node *node, struct source *source); // closes too
void node_run(struct node *node);

// place.c: folder, lock, socket. 0, or -1 after words on stderr.
int place_prepare(struct node *node);
int place_listen(struct node *node);
void place_check(struct node *node); // is the socket's file there still?
void place_leave(struct node *node);
// Replaces a file whole, without a sync: what only a reboot would lose, and a tenant's start
// must not wait for a disk. 0 or -errno.
int place_write(const char *path, const char *text, mode_t mode);

// connection.c
void connection_accept(struct node *node);
void connection_expire(struct node *node, uint64_t now, uint64_t *deadline);

// request.c: an answer for one JSON request, never NULL.
json_t *request_answer(struct node *node, const struct authority_peer *peer, const char *text);

// registry.c
struct vgpu *registry_find(const struct node *node, const char *name);
bool registry_name_is_valid(const char *name);
// Makes the ledger and lists the vGPU. 0 or -errno.
int registry_add(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu);
// From the ledger that a daemon before us left; a missing or broken one is made anew (created
// vGPUs) or given up (ephemeral ones: 1).
int registry_adopt(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu);
// Ledgers that nobody remembers: kept while they have tenants.
void registry_adopt_strays(struct node *node);
void registry_drop(struct node *node, struct vgpu *vgpu); // removes the ledger's file too
void registry_guard(struct node *node); // installs the handler for truncated ledgers

// launcher.c
void launcher_add(struct node *node, struct vgpu *vgpu, pid_t pid);
void launcher_adopt(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time);
void launcher_drop_all(struct node *node, struct vgpu *vgpu);
// Ephemeral vGPUs that nobody uses any more go away.
void launcher_sweep(struct node *node);

// heir.c: whoever has the vGPU in its environment becomes a launcher of it.
void heir_adopt_all(struct node *node, struct vgpu *vgpu);

// tenant.c
void tenant_scan(struct node *node, struct vgpu *vgpu);
void tenant_scan_all(struct node *node);
void tenant_hello(struct node *node, struct vgpu *vgpu, const struct vg_ledger_owner *owner, pid_t pid, int exports_fd);
void tenant_reap(struct node *node);
void tenant_drop_all(struct node *node, struct vgpu *vgpu);

// signal.c: sends a signal to every process that runs in the vGPU, to no guest. 0, or -errno: the ledger is not mapped.
struct signalled {
	unsigned int count, failed;
	pid_t pid; // one of those that failed, and why
	int error;
};
int tenant_signal_all(struct node *node, struct vgpu *vgpu, int signal, struct signalled *ret_signalled);

// exports.c: takes `offered` into `own`, or closes it: -EPROTO, it is no epoll instance.
int exports_take(int *own, int offered);
// What of `most` bytes has descriptors that are still open somewhere; all, where that cannot be told. Stands until the
// next call.
void exports_open(int descriptor, uint64_t most, struct vg_ledger_keep *ret_keep);

// shares.c: what the device may show under a process though it is charged to shares, or to an owner that has gone.
uint64_t shares_shown_under(const struct node *node, const struct tenant *tenant);

// guests.c: a tenant that joins, or leaves, what another vGPU is charged for. True: `guest` is the answer.
bool guest_answer(struct node *node, const struct authority_peer *peer, struct vg_wire_guest *guest);
void guest_undo(struct node *node, const struct vg_wire_guest *guest); // the answer did not arrive

// discard.c: closes what a peer sent, and waits for nobody.
void discard(int descriptor);

// measure.c: leaves word for tenants of what they hold undeclared.
void measure_tenants(struct node *node);
void measure_device(struct node *node, size_t device);

// admission.c: may `bytes` of limits stand on the device, `instead_of` the present limit of one
// vGPU (NULL: a new one)? The claim for it is published. 0, or 1 and the figures, or -errno: the
// daemons of others cannot be told, and would promise the same.
struct admission {
	uint64_t total, own, others; // `own` without the limit in question
};
int admission_check(struct node *node, size_t device, uint64_t bytes, const struct vgpu *instead_of,
		    struct admission *ret_figures);
// The limits of all vGPUs on the device, of this daemon and of others; INT64_MAX at most.
uint64_t admission_promised(const struct node *node, size_t device);
// Publishes what stands in the registry, to other daemons and to the tenants.
void admission_publish(struct node *node);

// state.c
int state_load(struct node *node);
int state_save(struct node *node);	   // created vGPUs, overheads: synced to the disk
void state_save_runtime(struct node *node); // ephemeral vGPUs and launchers: survives us only

// overhead.c
uint64_t overhead_estimate(const struct node *node, size_t device, bool *ret_measured);
bool overhead_remember(struct node *node, const char *gpu, const char *driver, uint64_t bytes);

// listing.c
json_t *listing_vgpu(struct node *node, struct vgpu *vgpu, bool with_tenants);
json_t *listing_vgpus(struct node *node, const struct authority_peer *peer);
json_t *listing_devices(struct node *node);
json_t *listing_refusals(const struct vgpu *vgpu);
json_t *user_name(uid_t uid);
json_t *group_name(gid_t gid); // (gid_t)-1: null
json_t *command_text(const char *command); // as JSON takes it
json_t *command_of(pid_t pid); // what its process calls itself now; null: not known
// broker_list.c
json_t *listing_publications(struct node *node, const struct authority_peer *peer);

// say.c: one line on stderr, with time and level as syslog has them.
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

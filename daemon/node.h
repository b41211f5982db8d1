// The daemon's whole state. One thread.
#pragma once
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/authority.h"
#include "daemon/residence.h"
#include "ledger/ledger.h"
#include "system/system.h"
#include "turn/turn.h"
#include "wire/wire.h"

struct node;

// Something the loop waits for. `ready` may free the struct that holds it.
struct source {
	int fd;
	void (*ready)(struct node *node, struct source *source, uint32_t events);
	bool is_users; // it waits in line with others of its user (user_events()), so that many of them hold up nobody else
	uid_t user;
};

// A process that keeps a vGPU in use while it lives: `virgate run`, or an heir of it.
struct launcher {
	struct source source; // pidfd
	struct vgpu *vgpu;
	struct launcher *next;
	pid_t pid;
	uint64_t start_time;
	bool has_mapped;  // it has the vGPU's ledger mapped, as the kernel says
	bool told_to_end; // removal.c
};

// Is the process that a slot names one of the vGPU's? What a slot says is only its writer's word.
enum proof {
	PROOF_NONE,   // nobody asked; a process of the owner or the group is watched all the same
	PROOF_WANTED, // by the next search
	PROOF_GIVEN,  // it has the ledger mapped
	PROOF_DENIED, // it has not
};

struct tenant {
	struct source source; // pidfd, -1 where we cannot see the process
	struct vgpu *vgpu;
	struct tenant *next;
	struct vg_ledger_tenant seen;
	pid_t pid; // as we see it, 0: not known
	uint64_t start_time;
	int exports; // exports.c; -1: none that we know
	struct exports_look *look; // at them; NULL: none
	bool look_is_done;
	uint64_t next_look_ns;
	bool told_of_exports;
	enum proof proof;
	bool is_searched; // by the search in progress
	bool dead;
	bool is_stopped; // stops.c: at its last look
	uint64_t life;	 // changes while its process launches, or waits at its gate
	bool replaced;	  // it lives, and runs another program now (exec)
	bool warned, drift_told;
	bool told_to_end; // removal.c
	bool is_looked_at;	    // measure.c: by the look in progress
	uint64_t declared_before;   // when it began
	uint64_t host_before;	    // likewise: in the host
	uint64_t pristine_physical; // what its first context took at the last look; 0: not known
	uint64_t drift_since_ns; // more on the device than is charged; 0: not so
	uint64_t dead_since_ns;
};
struct search;
struct exports_look;

// What is wrong with a vGPU's ledger, which its tenants may write.
enum damage {
	DAMAGE_NONE,
	DAMAGE_REMOVED,	 // its tenants go on under it, but nobody new finds it
	DAMAGE_CONTENTS, // truncated or overwritten: nothing that stands in it is believed any more
};

struct vgpu {
	struct vgpu *next;
	char name[VG_LEDGER_NAME];
	char path[PATH_MAX]; // of the ledger, for its tenants; registry_path() is ours
	size_t device;	     // index in the system's list
	uint64_t memory; // its limit, which is reserved for it
	uint64_t limit;	 // as its ledger has it: `memory`, or less until a larger one is on disk
	const struct change *change; // save.c: that is being written to disk; who wants to use the vGPU waits. NULL: none
	struct turn_terms terms; // its compute share
	bool evictable;		 // memory of its programs can move to the host
	uint64_t swap;		 // evictable: how much host memory each process may use for that
	uint64_t fixed;		 // evictable: how much of its memory stays on the device
	unsigned int idle_suspend; // evictable: it leaves the device after so many seconds without use; 0: never
	struct residence residence;
	uint64_t exempt_until_ns; // a checkpoint is being taken: its gate is open until then
	struct arbiter *arbiter; // arbiter.c; NULL: it takes no part
	unsigned int seat;	 // its number there
	uid_t owner;
	gid_t group; // (gid_t)-1: none
	bool ephemeral;
	double created;
	struct vg_ledger *ledger;
	volatile enum damage damage; // damage.c, and the handler of registry_guard
	const char *damage_text;     // the end of a sentence; NULL: not said yet
	bool removing;		     // its programs were told to end, and it goes with the last of them
	bool restarts; // damaged when this daemon took it over: it is made anew, or goes, if nobody uses it
	struct launcher *launchers;
	uint64_t left_ns; // time at which its last launcher ended; 0: no launcher has ended
	struct tenant *tenants, *by_slot[VG_LEDGER_SLOTS];
	unsigned int next_slot; // where the scan goes on
	struct search *search;	// search.c; NULL: none in progress
	enum { HEIRS_UNKNOWN, HEIRS_SEARCHED, HEIRS_KNOWN } heirs;
};

// What a context takes, by GPU model and driver, as tenants of this owner showed it: it holds for the owner's vGPUs alone.
struct overhead {
	struct overhead *next;
	uid_t owner;
	char gpu[96], driver[80];
	uint64_t bytes;
};

struct node {
	struct vg_system *system;
	bool system_wide, simulated;
	unsigned int idle_seconds; // 0: never leaves
	char runtime_dir[PATH_MAX - 128], state_path[PATH_MAX], claims_dir[PATH_MAX - 128];
	uint32_t pid_namespace;
	int epoll_fd, lock_fd, directory; // `directory`: the runtime directory
	int spare; // a descriptor to give up where there is none to take a connection with
	struct source listener, signals, door;
	bool door_refused; // by whoever has its name
	struct vgpu *vgpus;
	struct overhead *overheads;
	struct connection *connections;
	struct session *sessions;	  // broker.h
	struct publication *publications;
	unsigned int connection_count;
	bool retry; // connection_retry() has more to do
	bool runtime_is_stale; // launchers have ended that state_save_runtime() has written
	bool later; // the request in hand waits for a search, a lookup or the disk, and is asked again
	struct change *change; // the request in hand is answered when this is on disk; NULL: none
	bool leaving;
	bool ending; // a signal said so: whoever still waits has lost
	bool told_to_end; // by a request: nobody new is let in
	uint64_t busy_until_ns;	 // last sign of use
	uint64_t next_scan_ns, next_reap_ns; // 0: not due
	bool is_scanning;	// loop.c: the ledgers, a few in each turn
	struct vgpu *scan_next; // the vGPU that is scanned next; NULL: all have been scanned
};

// loop.c
int node_watch(struct node *node, struct source *source, uint32_t events);
void node_leave(struct node *node, struct source *source);   // does not close
void node_unwatch(struct node *node, struct source *source); // closes too
void node_run(struct node *node);
// Does what is due, and waits for one event, `longest_ms` at most; -1: until something is due. Returns 1 if there was one,
// 0 if there was none, -1 if the daemon ends.
int node_step(struct node *node, int longest_ms);
// main.c: takes the directory, opens the GPUs, loads the state and listens. 0, or -1 after words on stderr.
int node_start(struct node *node);
// A descriptor that is kept for a process: a quarter of all stays free for whoever connects. `fd`, or -EMFILE after it
// was closed; a negative one is passed on.
int node_keep_descriptor(int fd);

// place.c: directory, lock, socket. 0, or -1 after words on stderr.
int place_prepare(struct node *node);
int place_listen(struct node *node);
void place_check(struct node *node); // makes again what somebody has removed
void place_leave(struct node *node);
// At the very end: a thread that hangs in a close() would keep socket and lock from the next daemon.
void place_give_up(struct node *node);
// The path of something in the runtime directory, for this process alone: it stands while the directory's descriptor
// does. What others are to open has node->runtime_dir in it.
__attribute__((format(printf, 3, 4))) void place_path(const struct node *node, char path[PATH_MAX], const char *format,
						      ...);
// Replaces a file whole, without a sync: what only a reboot would lose, and a tenant's start
// must not wait for a disk. 0 or -errno.
int place_write(const char *path, const char *text, mode_t mode);

// connection.c
void connection_accept(struct node *node);
// Answers those whose requests had to wait.
void connection_retry(struct node *node);
// Sends `answer` to the client that waits for the change, if it is still connected. Frees `answer`.
void connection_finish(struct node *node, const struct change *change, json_t *answer);
// Says why a connection is not served, and closes it.
void connection_refuse(int fd, const char *text);
void connection_expire(struct node *node, uint64_t now, uint64_t *deadline);

// request.c
// False: the request is to be asked again later, since a user or group that it names is being looked up.
bool request_is_ready(struct node *node, const struct authority_peer *peer, const char *text);
// An answer for one JSON request; NULL: it is to be asked again later, or the node's `change` answers it.
json_t *request_answer(struct node *node, const struct authority_peer *peer, const char *text);

// registry.c
struct vgpu *registry_find(const struct node *node, const char *name);
bool registry_name_is_valid(const char *name);
void registry_path(const struct node *node, const struct vgpu *vgpu, char path[PATH_MAX]); // of the ledger, for us
// Makes the ledger and lists the vGPU. 0 or -errno.
int registry_add(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu);
// From the ledger that a daemon before us left. One that is missing or broken is damaged while programs use it, and else
// made anew (created vGPUs) or given up (ephemeral ones: 1).
int registry_adopt(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu);
// Ledgers that nobody remembers: kept while they have tenants.
void registry_adopt_strays(struct node *node);
// Makes the ledger anew, in place of one that nobody uses. 0 or -errno.
int registry_renew(struct node *node, struct vgpu *vgpu);
void registry_drop(struct node *node, struct vgpu *vgpu); // removes the ledger's file too
void registry_guard(struct node *node); // installs the handler for truncated ledgers and pages

// damage.c: compares a ledger with what the daemon knows of it.
void damage_look(struct node *node, struct vgpu *vgpu);
json_t *damage_refuse(const struct vgpu *vgpu); // why nobody new can use it
// Ledgers that were removed, and that nobody uses any more, are made anew. True: somebody is being searched for.
bool damage_mend_all(struct node *node);
// True: whether the vGPU is made anew depends on a search.
bool damage_is_undecided(struct node *node, struct vgpu *vgpu);

// leftover.c
void leftover_cut(const struct node *node, const struct vgpu *vgpu); // a ledger that grew
int leftover_open(const struct node *node, const struct vgpu *vgpu); // before it is removed; -1: not needed
void leftover_keep(int fd, uid_t owner);			     // afterwards; takes `fd`
void leftover_look(void);
bool leftover_any(void);

// removal.c: vGPUs that are to go do so once their programs have ended.
void removal_sweep(struct node *node);

// launcher.c
// 0, or -errno: the process has ended, or cannot be watched.
int launcher_adopt(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time, bool has_mapped);
int launcher_add(struct node *node, struct vgpu *vgpu, const struct authority_peer *peer);
void launcher_drop_all(struct node *node, struct vgpu *vgpu);
// Ephemeral vGPUs that nobody uses any more go away.
void launcher_sweep(struct node *node);
// Whether the vGPU is about to go, because its programs ended a moment ago; whether one of this user's on the device is.
bool launcher_goes_soon(struct node *node, struct vgpu *vgpu);
bool launcher_frees_soon(struct node *node, size_t device, uid_t owner);

// search.c: processes that may use the vGPU, or are said to. The search goes on in another thread; what it finds becomes
// launchers, and proves tenants.
void search_begin(struct node *node, struct vgpu *vgpu);
// True: a search that began after the last launcher or tenant went has ended. Begins one otherwise.
bool search_knows_heirs(struct node *node, struct vgpu *vgpu);
void search_again(struct vgpu *vgpu); // what is known, or searched, is not enough any more
void search_forget(struct vgpu *vgpu);

// tenant.c: reads the slots; the tenants of a ledger whose contents are damaged stay those that were known.
void tenant_scan(struct node *node, struct vgpu *vgpu);
void tenant_scan_all(struct node *node);
// Goes on with the scan of all vGPUs for a moment, so that requests are answered in between. True: it has ended.
bool tenant_scan_some(struct node *node);
void tenant_hello(struct node *node, struct vgpu *vgpu, const struct vg_ledger_owner *owner,
		  const struct authority_peer *peer, int exports_fd);
void tenant_reap(struct node *node);
// A search has looked for the tenant's process; pid 0: there is none.
void tenant_found(struct node *node, struct tenant *tenant, pid_t pid, uint64_t start_time, bool has_mapped);
// True: a search has said of each tenant whether it is one. Begins one otherwise.
bool tenant_are_proven(struct node *node, struct vgpu *vgpu);
void tenant_drop_all(struct node *node, struct vgpu *vgpu);

// signal.c: sends a signal to every process that runs in the vGPU, to no guest.
struct signalled {
	unsigned int count, failed;
	pid_t pid; // one of those that failed, and why
	int error;
};
struct signalled tenant_signal_all(struct node *node, struct vgpu *vgpu, int signal);

// exports.c: makes `offered` the tenant's, or closes it: -EPROTO, it is no epoll instance.
int exports_take(const struct node *node, struct tenant *tenant, int offered);
void exports_drop(struct tenant *tenant);
// What of `most` bytes has descriptors that are still open somewhere; all, where that cannot be told. Stands until the
// next call. False: another thread looks; there will be another turn of tenant_reap().
bool exports_open(struct tenant *tenant, uint64_t most, struct vg_ledger_keep *ret_keep);

// stops.c: tells the arbiters which tenants are stopped (SIGSTOP, a debugger). After a scan.
void stops_look(struct node *node);

// shares.c: what the device may show under a process though it is charged to shares, or to an owner that has gone.
uint64_t shares_shown_under(const struct node *node, const struct tenant *tenant);

// guests.c: a tenant that joins, or leaves, what another vGPU is charged for. True: `guest` is the answer.
bool guest_answer(struct node *node, const struct authority_peer *peer, struct vg_wire_guest *guest);
void guest_undo(struct node *node, const struct vg_wire_guest *guest); // the answer did not arrive

// discard.c: closes what a user made, and waits for nobody: a descriptor of the user that was named last, or a connection.
void discard_from(uid_t uid);
void discard(int descriptor);
// True: so much of the user's does not close that nothing more may be received from it.
bool discard_is_full(const struct node *node, uid_t uid);
void discard_unread(int socket); // what is in its queue was not received
void discard_socket(struct node *node, struct source *source, uid_t uid);

// measure.c: leaves word for tenants of what they hold undeclared.
void measure_tenants(struct node *node);
void measure_device(struct node *node, size_t device);

// admission.c: may such a vGPU be on the device? The claim for it is published. 0, or 1 and the figures, or -errno: the
// daemons of others cannot be told, and would promise the same.
struct admission_wish {
	uint64_t memory, fixed; // its limit, and what of that stays on the device; the same if it is not evictable
	const struct turn_terms *terms;
	const struct vgpu *instead_of; // it is this vGPU, with other figures; NULL: a new one
};
struct admission {
	uint64_t total, own, others; // `own` without the vGPU in question
	uint64_t needed;	     // by that
	bool others_have_turns;	     // another daemon holds compute shares there, and `terms` ask for some
	uid_t user;		     // of that daemon
};
int admission_check(struct node *node, size_t device, const struct admission_wish *wish, struct admission *ret_figures);
// The bytes that are left on the device for a new vGPU of these terms, without a claim for it. 0 also if the terms need
// compute shares and another daemon holds them there.
uint64_t admission_room(const struct node *node, size_t device, const struct turn_terms *terms, bool evictable);
// What the evictable vGPUs of the device share: without what others have.
uint64_t admission_for_evictable(const struct node *node, size_t device);
// What all vGPUs on the device reserve, of this daemon and of others; INT64_MAX at most.
uint64_t admission_promised(const struct node *node, size_t device);
// Publishes what stands in the registry, to other daemons and to the tenants.
void admission_publish(struct node *node);

// state.c
int state_load(struct node *node);
char *state_text(const struct node *node); // created vGPUs, a user's own overheads; NULL: no memory
void state_save_runtime(struct node *node); // ephemeral vGPUs and launchers: survives us only

// save.c: writes the state to the disk, in a thread. 0, or -errno: it cannot begin.
int state_save(struct node *node);

// overhead.c
uint64_t overhead_estimate(const struct node *node, size_t device, uid_t owner, bool *ret_measured);
bool overhead_remember(struct node *node, uid_t owner, const char *gpu, const char *driver, uint64_t bytes);

// listing.c
json_t *listing_vgpu(struct node *node, struct vgpu *vgpu, bool with_tenants);
json_t *listing_vgpus(struct node *node, const struct authority_peer *peer);
json_t *listing_devices(struct node *node);
json_t *listing_refusals(const struct vgpu *vgpu);
void listing_begin(void); // of each answer: only so many processes are asked for their names
json_t *user_name(uid_t uid);
json_t *group_name(gid_t gid); // (gid_t)-1: null
json_t *command_text(const char *command); // as JSON takes it
json_t *command_of(pid_t pid); // what its process calls itself now; null: not known, or it is asked for too many
// broker_list.c
json_t *listing_publications(struct node *node, const struct authority_peer *peer);

// say.c: one line on standard error, with time and process. Of each kind of line, which is a place in the source, only so
// many a minute, since peers and ledgers may cause them at will: how many were left out is said afterwards.
struct say_kind {
	struct say_kind *next;
	uint64_t since_ns; // the minute began; 0: nothing was said yet
	unsigned int said, left_out;
	char last[120]; // of those left out
};
#define say(...)                                                                                   \
	do {                                                                                       \
		static struct say_kind say_kind_;                                                  \
		say_line(&say_kind_, __VA_ARGS__);                                                 \
	} while (0)
__attribute__((format(printf, 2, 3))) void say_line(struct say_kind *kind, const char *format, ...);
// Says what was left out in minutes that are over; UINT64_MAX: in all.
void say_left_out(uint64_t now, uint64_t *deadline);

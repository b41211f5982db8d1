// Says in a table which users may use which verbs. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// X(VERB, "verb", owner, group, other, root): the last four say which classes of users may use the verb.
#define AUTHORITY_TABLE(X)                                      \
	X(CREATE, "create", true, true, true, true)             \
	X(ENTER, "enter", true, true, false, true)              \
	X(SET, "set", true, false, false, true)                 \
	X(RM, "rm", true, false, false, true)                   \
	X(KILL, "kill", true, false, false, true)               \
	X(SUSPEND, "suspend", true, false, false, true)         \
	X(RESUME, "resume", true, false, false, true)           \
	X(EXEMPT, "exempt", true, true, false, true)            \
	X(DUMPED, "dumped", true, true, false, true)            \
	X(LIST, "list", true, true, true, true)                 \
	X(TENANTS, "tenants", true, true, false, true)          \
	X(INSPECT, "inspect", true, true, false, true)          \
	X(LOGS, "logs", true, true, false, true)                \
	X(DEVICES, "devices", true, true, true, true)           \
	X(DRAIN, "drain", true, false, false, true)             \
	X(EVENTS, "events", true, true, true, true)             \
	X(HISTORY, "history", true, true, true, true)           \
	X(STATUS, "status", true, true, true, true)             \
	X(TRACE, "trace", true, true, true, true)               \
	X(PING, "ping", true, true, true, true)                 \
	X(PUBLICATIONS, "publications", true, true, true, true) \
	X(READERS, "readers", true, false, false, true)         \
	X(REVOKE, "revoke", true, false, false, true)           \
	X(SHUTDOWN, "shutdown", true, false, false, true)

enum authority_verb {
#define X(verb, text, owner, group, other, root) AUTHORITY_##verb,
	AUTHORITY_TABLE(X)
#undef X
		AUTHORITY_VERBS
};

enum authority_class { AUTHORITY_OWNER, AUTHORITY_GROUP, AUTHORITY_OTHER, AUTHORITY_ROOT };

enum { AUTHORITY_GROUPS = 128 };

struct authority_peer {
	pid_t pid; // the peer's pid in the daemon's pid namespace; 0: the peer is in another namespace
	// start time of the process; 0: unknown, or the process had ended when the daemon accepted the connection
	uint64_t start_time;
	int socket; // the peer's connection
	uid_t uid;
	gid_t groups[AUTHORITY_GROUPS]; // the peer's groups; the primary group is the first
	size_t group_count;
};

// Returns the class of the peer for an object that belongs to `owner` and `group` ((gid_t)-1: no group).
enum authority_class authority_classify(const struct authority_peer *peer, uid_t owner, gid_t group);
bool authority_allows(enum authority_verb verb, enum authority_class class);
const char *authority_verb_text(enum authority_verb verb);
// Reads SO_PEERCRED and SO_PEERGROUPS into *ret_peer, and sets the start time to 0. Returns 0 or -errno.
int authority_read_peer(int fd, struct authority_peer *ret_peer);

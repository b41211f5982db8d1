// Keeps the journal: the events of this node, with their causes. The last JOURNAL_EVENTS events are in memory. The
// events are also on the disk (journal_file.h), from which the next daemon reads them. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

enum { JOURNAL_EVENTS = 4096, JOURNAL_TEXT = 224, JOURNAL_ANSWER = 512 };

// PUBLIC: every user sees the whole event. The owner and the group of a vGPU see all events of the vGPU. Of an OUTLINE
// event, other users see only the kind, the time and the vGPU. They do not see PRIVATE events.
enum journal_visibility { JOURNAL_PUBLIC, JOURNAL_OUTLINE, JOURNAL_PRIVATE };

// X(KIND, "text", visibility)
#define JOURNAL_KINDS(X)                   \
	X(STARTED, "started", PUBLIC)      \
	X(ENDED, "ended", PUBLIC)          \
	X(CREATED, "created", OUTLINE)     \
	X(REMOVED, "removed", OUTLINE)     \
	X(CHANGED, "changed", OUTLINE)     \
	X(ENTERED, "entered", PRIVATE)     \
	X(LEFT, "left", PRIVATE)           \
	X(DIED, "died", PRIVATE)           \
	X(REFUSED, "refused", OUTLINE)     \
	X(DENIED, "denied", PRIVATE)       \
	X(SIGNALLED, "signalled", PRIVATE) \
	X(SUSPENDED, "suspended", OUTLINE) \
	X(RESUMED, "resumed", OUTLINE)     \
	X(EVICTED, "evicted", OUTLINE)     \
	X(RETURNED, "returned", OUTLINE)   \
	X(DUMPED, "dumped", OUTLINE)       \
	X(DRAINED, "drained", PUBLIC)      \
	X(UNDRAINED, "undrained", PUBLIC)  \
	X(QUEUED, "queued", PRIVATE)       \
	X(DEQUEUED, "dequeued", PRIVATE)   \
	X(DAMAGED, "damaged", OUTLINE)     \
	X(RENEWED, "renewed", OUTLINE)     \
	X(OMITTED, "omitted", PRIVATE)

enum journal_kind {
#define X(kind, text, visibility) JOURNAL_##kind,
	JOURNAL_KINDS(X)
#undef X
		JOURNAL_KINDS_COUNT
};

struct journal_event {
	uint64_t number;  // larger than the numbers of all earlier events, also those of earlier daemons
	uint64_t time_ns; // time since the epoch, by a clock that may jump
	enum journal_kind kind;
	uid_t owner; // this user and the members of `group` may see the whole event
	gid_t group;
	uid_t actor;	    // the user who caused the event; (uid_t)-1: none
	pid_t pid;	    // the program that the event is about, or the actor's process; 0: none
	unsigned int count; // how many equal events this one stands for
	uint64_t bytes;	    // bytes that were requested or refunded, or the new limit; 0: none
	char vgpu[VG_LEDGER_NAME], command[VG_LEDGER_COMMAND];
	char text[JOURNAL_TEXT]; // the cause or the details, as the end of a sentence
};

// The members of an event that the caller of journal_add() sets.
struct journal_note {
	const struct vgpu *vgpu;	    // NULL: the event is about the daemon, or about `actor` alone
	const char *name;		    // if `vgpu` is NULL: the name of a vGPU that does not exist yet; NULL: none
	const struct authority_peer *actor; // NULL: none
	pid_t pid;
	const char *command; // NULL: none
	uint64_t bytes;
	unsigned int count; // 0: 1
};

// Adds an event for the refusals that programs have written into the ledgers since the last call.
void journal_add_refusals(struct node *node);
// Adds an event for the refusals of one vGPU that have no event yet, without the pause that otherwise lies between two
// such events. Call it when one of the vGPU's programs ends, or before the vGPU is removed.
void journal_add_last_refusals(struct node *node, struct vgpu *vgpu);
// Reads the journal of earlier daemons.
void journal_load(struct node *node);
// Adds an event. `format` may not end with a full stop.
__attribute__((format(printf, 4, 5))) void journal_add(struct node *node, enum journal_kind kind,
						       const struct journal_note *note, const char *format, ...);
const char *journal_kind_text(enum journal_kind kind);
// Returns the kind with this text; JOURNAL_KINDS_COUNT: there is no such kind.
enum journal_kind journal_find_kind(const char *text);
// Adds an event of an earlier daemon, for journal_file.c. Returns false if it is not newer than the last one.
bool journal_restore(const struct journal_event *event);
// Returns the event with this number, or the next one after it; NULL: no such event.
const struct journal_event *journal_next(uint64_t number);

struct journal_query {
	uint64_t after;	   // list only events with larger numbers
	double since;	   // list only events from this time on
	const char *vgpu;  // NULL: all
	unsigned int most; // at most JOURNAL_ANSWER
	bool newest;	   // if there are more than `most` events, list the newest ones instead of the oldest
};
// Lists the events that the peer may see. If `peer` is NULL, lists the events that every user may see. For events of
// other users' vGPUs, leaves out the program, the actor, and the bytes.
json_t *journal_list(const struct authority_peer *peer, const struct journal_query *query);

// Counters since the daemon started. An event is lost if it is overwritten in memory before it was written to the disk.
struct journal_counts {
	uint64_t events, omitted, lost, write_errors, damaged_lines;
};
struct journal_counts journal_counts(void);

// The broker: who has published device memory under which name, who holds it, and how it is asked back. It keeps the
// descriptors and looks at none of the memory. One thread.
//
// A publication is a name; each time it is published anew it has another edition, with the next generation. An edition
// stays while its publisher is connected or a reader has a lease on it. A session is one connection: a publisher's, a
// reader's, or that of somebody who revokes. It ends with the connection or with the process, whichever is first.
#pragma once
#include "daemon/node.h"
#include "daemon/request.h"
#include "share/message.h"
#include "wire/page.h"

enum {
	BROKER_RANGES_MAX = 1024,	// of one edition
	BROKER_EDITIONS_MAX = 1024,	// of one user
	BROKER_LEASES_MAX = 4096,	// of one user
	BROKER_METADATA_MAX = 16 << 20, // bytes of one user's editions
	BROKER_PATIENCE_S = 10,		// for a peer that should be sending or taking something
	BROKER_DIGEST = 32,
};

// Ranges of an edition as their publisher sent them, and as readers get them.
struct packet {
	struct packet *next;
	struct share_header header;
	int descriptors[SHARE_PACKET_RANGES];
	char body[];
};

struct edition {
	struct edition *next; // older
	struct publication *publication;
	struct session *publisher; // NULL: gone
	uint64_t generation;	   // 0: not complete, nobody sees it
	struct packet *packets, **end;
	uint32_t ranges, received;
	uint64_t bytes;		       // of memory
	size_t metadata;	       // bytes of the packets
	bool writable;		       // all of its ranges are offered so
	uint8_t uuid[16];	       // of the first range's device
	uint8_t digest[BROKER_DIGEST]; // of the packets
	mode_t mode;
	gid_t group;		   // (gid_t)-1: none
	pid_t pid;		   // of the publisher
	char vgpu[VG_LEDGER_NAME]; // "": in none
	double created;
	unsigned int leases;
};

struct publication {
	struct publication *next;
	char name[VG_WIRE_NAME];
	uid_t owner;
	uint8_t id[VG_PAGE_ID];
	struct vg_wire_page *page; // NULL: nothing was published yet. Written, and read once, by page_load_all()
	uint64_t newest, current;  // as the page has them
	pid_t lost_pid;		   // whom `lost` is
	int page_fd;		   // read-only, for readers; -1: no page
	struct edition *editions;  // newest first
	struct source
		lost; // pidfd of a publisher that a daemon before us knew and that has not come again; fd -1: none
	struct session *revoker; // broker_revoke.c
	bool refuses;		 // asked back: nobody new
};

enum session_state {
	SESSION_RECEIVING,  // publisher: packets are on their way to us
	SESSION_REGISTERED, // publisher: all are here, nobody sees them yet
	SESSION_PUBLISHED,
	SESSION_SENDING, // reader: packets are on their way to it
	SESSION_READING,
	SESSION_REVOKING,
	SESSION_ENDED, // told so; it is the peer's to close
};

struct session {
	struct source socket;
	struct source process; // pidfd; -1: we cannot see it
	struct session *next;
	struct authority_peer peer;
	enum session_state state;
	bool rests; // its user has had the loop's time for now
	uint64_t deadline_ns;	 // 0: none
	struct edition *edition; // published, or read; NULL: neither
	const struct packet *to_send;
	uint64_t renews; // publisher: the generation that it had under a daemon before us; 0: none
	uint32_t access; // reader: as an entry of an offer has it
	double since;
	// broker_revoke.c
	bool may_kill;
	unsigned int holders; // at the beginning
	int step;
};

// broker_session.c: a connection that speaks to the broker; takes `fd`, and ends by itself.
void session_begin(struct node *node, int fd, const struct authority_peer *peer, const char *text);
void session_end(struct node *node, struct session *session);
// Answers, with a descriptor unless negative, and frees the answer. A refusal is the last word of a session.
void session_answer(struct node *node, struct session *session, json_t *answer, int descriptor);
void session_tell(struct session *session, enum vg_wire_event_kind kind, uint64_t generation, uint64_t deadline_ns);
void session_send_packets(struct node *node, struct session *session);
void session_expire_all(struct node *node, uint64_t now, uint64_t *deadline);

// broker.c
struct publication *publication_find(struct node *node, const char *name);
// NULL: no memory.
struct publication *publication_add(struct node *node, const char *name, uid_t owner, const uint8_t id[VG_PAGE_ID]);
// Goes when it has no editions and nobody is expected back.
void publication_release(struct node *node, struct publication *publication);
struct edition *publication_current(const struct publication *publication); // NULL: none that may be opened
struct edition *edition_add(struct publication *publication, struct session *publisher, uint32_t ranges);
// Goes, its descriptors with it, when neither publisher nor readers are left.
void edition_release(struct node *node, struct edition *edition);
// Nobody new can open it; its readers are told.
void edition_withdraw(struct node *node, struct edition *edition);
void edition_tell_readers(struct node *node, const struct edition *edition, enum vg_wire_event_kind kind,
			  uint64_t deadline_ns);
// What the user would have with so much more: NULL, or why not.
struct usage {
	size_t editions, leases, descriptors, metadata;
};
json_t *broker_room(const struct node *node, uid_t user, const struct usage *more);
// May the peer open it so? `access` as an entry of an offer has it.
bool edition_allows(const struct edition *edition, const struct authority_peer *peer, uint32_t access);

// broker_publish.c, broker_open.c, broker_revoke.c: requests of a session.
void publish_begin(struct session *session, const struct request *request);
void publish_take_packet(struct node *node, struct session *session);
void publish_commit(struct session *session, const struct request *request);
void publish_withdraw(struct session *session, const struct request *request);
void open_begin(struct session *session, const struct request *request);
void revoke_begin(struct session *session, const struct request *request);
void revoke_step(struct node *node, struct session *revoker);	      // its time is up
void revoke_look(struct node *node, struct publication *publication); // somebody let go
void revoke_stop(struct node *node, struct session *revoker);	      // nobody waits for it any more, if it was one

// broker_page.c. 0 or -errno.
int page_make(struct node *node, struct publication *publication);
void page_drop(struct node *node, struct publication *publication); // removes the file
bool page_empty(const struct node *node, const void *at); // after a truncation: is the address in a page?
void page_set_current(struct publication *publication, uint64_t generation); // 0: none
void page_expect_nobody(struct node *node, struct publication *publication); // whom a daemon before us knew
void page_load_all(struct node *node);

// broker_ticket.c: proves to a later daemon what this one had published.
enum { TICKET_TEXT = 64 };
void ticket_digest(struct edition *edition);
int ticket_make(struct node *node, const struct edition *edition, char ret_text[TICKET_TEXT + 1]);
bool ticket_is_good(struct node *node, const struct edition *edition, const char *text);

// Where a test kills the daemon: built in with -DBROKER_STEPS (broker_step.c).
#ifdef BROKER_STEPS
void broker_step(const char *where);
#define BROKER_STEP(where) broker_step(where)
#else
#define BROKER_STEP(where) ((void)0)
#endif

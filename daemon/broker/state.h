// The state of the broker. Main thread only.
//
// A publication is a name. Each time it is published it gets another edition, with the next generation. An edition
// exists while its publisher is connected or a reader has a lease on it. A session is the connection of a publisher,
// of a reader, or of a client that revokes. It ends with the connection or with the process, whichever is first.
#pragma once
#include "daemon/authority.h"
#include "daemon/node.h"
#include "share/message.h"
#include "wire/page.h"
#include "wire/wire.h"

enum {
	BROKER_RANGES_MAX = 1024,	// the most ranges of device memory in one edition
	BROKER_EDITIONS_MAX = 1024,	// the most editions of one user
	BROKER_LEASES_MAX = 4096,	// the most leases of one user
	BROKER_METADATA_MAX = 16 << 20, // the most bytes of packets in all editions of one user
	BROKER_PATIENCE_S = 10,		// how many seconds a peer has to send or receive a message
	BROKER_DIGEST = 32,
};

// One message that describes ranges of an edition's device memory, and has their descriptors. The publisher sent it in
// this form, and readers get it unchanged.
struct packet {
	struct packet *next;
	struct share_header header;
	int descriptors[SHARE_PACKET_RANGES];
	char body[];
};

struct edition {
	struct edition *next; // the edition that was begun before this one
	struct publication *publication;
	struct session *publisher; // the session that publishes the edition; NULL: that session has ended
	uint64_t generation;	   // 0: the edition is not committed, so no reader sees it
	struct packet *packets, **end;
	uint32_t ranges, received;
	uint64_t bytes;		       // bytes of the edition's device memory
	size_t metadata;	       // bytes of the edition's packets
	bool writable;		       // readers may open all ranges of the edition for writing
	uint8_t uuid[16];	       // UUID of the first range's device
	uint8_t digest[BROKER_DIGEST]; // digest of the packets
	mode_t mode;
	gid_t group;		   // the group that may open the edition; (gid_t)-1: none
	pid_t pid;		   // pid of the publisher
	char vgpu[VG_LEDGER_NAME]; // the vGPU to which the memory is charged; "": none
	double created;
	unsigned int leases;
};

struct publication {
	struct publication *next;
	char name[VG_WIRE_NAME];
	uid_t owner;
	uint8_t id[VG_PAGE_ID];
	struct vg_wire_page *page; // the mapped page (wire/page.h); only load.c reads it; NULL: nothing published yet
	uint64_t newest, current;  // the newest generation, and the one that readers can open, as in the page
	int page_fd;		   // read-only descriptor of the page, for readers; -1: no page
	struct edition *editions;  // the newest edition first
	// pidfd of the publisher that an earlier daemon served, until that process connects again; fd -1: none
	struct source lost;
	pid_t lost_pid;
	struct session *revoker; // the session that revokes the publication; NULL: none
	bool refuses;		 // the publication is being revoked, so readers cannot open it
};

enum session_state {
	SESSION_RECEIVING,  // publisher: its packets are arriving
	SESSION_REGISTERED, // publisher: all packets have arrived, but are not committed and not visible yet
	SESSION_PUBLISHED,
	SESSION_SENDING, // reader: the edition's packets are being sent to it
	SESSION_READING,
	SESSION_REVOKING,
	SESSION_ENDED, // the peer was notified that the session has ended, and must close the connection
};

struct session {
	struct source socket;
	struct source process; // pidfd; -1: the daemon cannot see the process
	struct session *next;
	struct authority_peer peer;
	enum session_state state;
	// the session is not served now, because its user has used up the user's part of the loop's time
	bool rests;
	uint64_t deadline_ns;	 // time at which the daemon stops waiting for the peer; 0: never
	struct edition *edition; // the edition that is published or read; NULL: none
	const struct packet *to_send;
	// of a publisher that connects again: the generation that it published under an earlier daemon; 0: none
	uint64_t renews;
	uint32_t access; // of a reader: the access that its lease allows, as in an entry of an offer
	double since;
	// Only a client that revokes uses these members:
	bool may_kill;
	unsigned int holders; // number of readers when the revocation began
	int step;
};

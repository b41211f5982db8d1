// Checks the table in the manual page that says which user may do what.
#include "daemon/authority.h"
#include "test.h"

#include <sys/socket.h>

static const struct {
	enum authority_verb verb;
	bool owner, group, other, root;
} expected[] = {
	{AUTHORITY_CREATE, 1, 1, 1, 1},	 {AUTHORITY_ENTER, 1, 1, 0, 1},	  {AUTHORITY_SET, 1, 0, 0, 1},
	{AUTHORITY_RM, 1, 0, 0, 1},	 {AUTHORITY_KILL, 1, 0, 0, 1},	  {AUTHORITY_SUSPEND, 1, 0, 0, 1},
	{AUTHORITY_RESUME, 1, 0, 0, 1},	 {AUTHORITY_EXEMPT, 1, 1, 0, 1},  {AUTHORITY_LIST, 1, 1, 1, 1},
	{AUTHORITY_TENANTS, 1, 1, 0, 1}, {AUTHORITY_INSPECT, 1, 1, 0, 1}, {AUTHORITY_LOGS, 1, 1, 0, 1},
	{AUTHORITY_DEVICES, 1, 1, 1, 1}, {AUTHORITY_PING, 1, 1, 1, 1},	  {AUTHORITY_PUBLICATIONS, 1, 1, 1, 1},
	{AUTHORITY_READERS, 1, 0, 0, 1}, {AUTHORITY_REVOKE, 1, 0, 0, 1},  {AUTHORITY_SHUTDOWN, 1, 0, 0, 1},
	{AUTHORITY_DRAIN, 1, 0, 0, 1},	 {AUTHORITY_DUMPED, 1, 1, 0, 1},  {AUTHORITY_EVENTS, 1, 1, 1, 1},
	{AUTHORITY_HISTORY, 1, 1, 1, 1}, {AUTHORITY_STATUS, 1, 1, 1, 1},  {AUTHORITY_TRACE, 1, 1, 1, 1},
};

TEST(each_class_may_use_the_verbs_of_the_table)
{
	CHECK_INT(sizeof expected / sizeof *expected, AUTHORITY_VERBS);
	for (size_t i = 0; i < AUTHORITY_VERBS; i++) {
		CHECK_INT(authority_allows(expected[i].verb, AUTHORITY_OWNER), expected[i].owner);
		CHECK_INT(authority_allows(expected[i].verb, AUTHORITY_GROUP), expected[i].group);
		CHECK_INT(authority_allows(expected[i].verb, AUTHORITY_OTHER), expected[i].other);
		CHECK_INT(authority_allows(expected[i].verb, AUTHORITY_ROOT), expected[i].root);
	}
}

TEST(a_peer_is_classified_by_owner_and_group)
{
	struct authority_peer peer = {.uid = 1000, .groups = {1000, 20, 30}, .group_count = 3};

	CHECK_INT(authority_classify(&peer, 1000, (gid_t)-1), AUTHORITY_OWNER);
	CHECK_INT(authority_classify(&peer, 1001, 30), AUTHORITY_GROUP);
	CHECK_INT(authority_classify(&peer, 1001, 40), AUTHORITY_OTHER);
	CHECK_INT(authority_classify(&peer, 1001, (gid_t)-1), AUTHORITY_OTHER);
	peer.groups[0] = (gid_t)-1; // -1 stands for "no group", so a peer with this gid must not count as a member
	CHECK_INT(authority_classify(&peer, 1001, (gid_t)-1), AUTHORITY_OTHER);
	peer.uid = 0;
	CHECK_INT(authority_classify(&peer, 1001, 40), AUTHORITY_ROOT);
	CHECK_INT(authority_classify(&peer, 0, 40), AUTHORITY_ROOT);
}

TEST(a_peer_is_read_from_its_socket)
{
	struct authority_peer peer;
	int ends[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	CHECK_INT(authority_read_peer(ends[0], &peer), 0);
	CHECK_INT(peer.pid, getpid());
	CHECK_INT(peer.uid, geteuid());
	CHECK_INT(peer.groups[0], getegid());
	CHECK_INT(peer.group_count, 1 + getgroups(0, NULL));
	CHECK(authority_read_peer(-1, &peer) < 0);
	close(ends[0]);
	close(ends[1]);
}

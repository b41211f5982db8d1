#include "daemon/authority.h"

#include <errno.h>
#include <sys/socket.h>

static const struct {
	const char *text;
	bool allowed[4];
} table[] = {
#define X(verb, text, owner, group, other, root) {text, {owner, group, other, root}},
	AUTHORITY_TABLE(X)
#undef X
};

enum authority_class authority_classify(const struct authority_peer *peer, uid_t owner, gid_t group)
{
	if (peer->uid == 0)
		return AUTHORITY_ROOT;
	if (peer->uid == owner)
		return AUTHORITY_OWNER;
	for (size_t i = 0; group != (gid_t)-1 && i < peer->group_count; i++)
		if (peer->groups[i] == group)
			return AUTHORITY_GROUP;
	return AUTHORITY_OTHER;
}

bool authority_allows(enum authority_verb verb, enum authority_class class)
{
	return table[verb].allowed[class];
}

const char *authority_verb_text(enum authority_verb verb)
{
	return table[verb].text;
}

int authority_read_peer(int fd, struct authority_peer *ret_peer)
{
	struct ucred credentials;
	socklen_t length = sizeof credentials;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) < 0)
		return -errno;
	ret_peer->pid = credentials.pid;
	ret_peer->start_time = 0;
	ret_peer->socket = fd;
	ret_peer->uid = credentials.uid;
	ret_peer->groups[0] = credentials.gid;
	ret_peer->group_count = 1;
	length = sizeof ret_peer->groups - sizeof ret_peer->groups[0];
	// If the groups do not fit, only the primary one counts: the peer gets fewer rights, never more.
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, ret_peer->groups + 1, &length) == 0)
		ret_peer->group_count += length / sizeof(gid_t);
	return 0;
}

#include "daemon/names.h"

#include "base/clock.h"
#include "daemon/deadline.h"
#include "daemon/work.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	// the most names of ids that are cached for answers; when the cache is full, a new name replaces the one that
	// was not used for longest
	MOST_SHOWN = 1024,
	MOST_ASKED = 2 * USER_SERVED, // how many names that requests of one user contain are cached
	// a cached name that is older than this is looked up again when an answer shows it
	FRESH_S = 10,
	ASKED_S = 2,	    // how long the result of a lookup for a request is kept
	PATIENCE_MS = 1000, // how long a request waits for the name of its user
	ENTRY_SPACE = 4096,
	// the most bytes for one entry of the system's directory; a group's entry lists all members
	MOST_SPACE = 16 << 20,
};

enum kind { NAME_OF_USER, NAME_OF_GROUP, USER_OF_NAME, GROUP_OF_NAME };

// The input of a lookup: an id whose name is to be found, or a name whose id is to be found.
struct key {
	enum kind kind;
	uid_t asker; // the user whose thread looks the name up; for names in requests, the asker is part of the key
	uint32_t number;
	char text[NAME_TEXT];
};

// The groups of a user whom a request names.
struct groups {
	gid_t gids[VGPU_GROUPS];
	unsigned int count;
};

struct name {
	struct name *next; // the next name in the order of last use, the latest first
	struct key key;
	bool is_pending, is_known;
	int error; // result of the last lookup that ended: 0 or -errno
	uint64_t asked_ns, known_ns;
	struct groups *groups; // the groups of a user whom a request names; NULL: not looked up
};

struct lookup {
	struct work work;
	struct key key;
	int error;
	struct groups *groups;
};

static struct name *names;
static uint64_t waits_until_ns; // when the first request stops waiting for its user's name; 0: no request waits

// ---- in the thread --------------------------------------------------------------------------------------------

// Returns -ENOENT if the error means that the entry does not exist: POSIX allows several error numbers for that. Other
// errors are returned negated.
static int convert_lookup_error(int error)
{
	return error == 0 || error == ENOENT || error == ESRCH || error == EBADF || error == EPERM ? -ENOENT : -error;
}

// Returns whether the text is a number that can be an id.
static bool is_number(const char *text, uint32_t *ret_number)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	*ret_number = (uint32_t)number;
	return *text >= '0' && *text <= '9' && !*end && number < UINT32_MAX;
}

// Reads the groups of the user. Returns NULL if there is no memory: the user then counts as one without groups.
static struct groups *look_up_groups(const struct passwd *entry)
{
	struct groups *groups = malloc(sizeof *groups);
	int count = VGPU_GROUPS;

	if (!groups)
		return NULL;
	getgrouplist(entry->pw_name, entry->pw_gid, groups->gids, &count); // stores at most VGPU_GROUPS groups
	groups->count = count < VGPU_GROUPS ? (unsigned int)count : VGPU_GROUPS;
	return groups;
}

// Finds the user's entry in the system's directory, by the id, or by the name in a request. A request may also have the
// id as a text instead of the name.
static int find_entry(const struct key *key, struct passwd *entry, char *space, size_t size, struct passwd **ret_found)
{
	uint32_t number = key->number;

	int error = key->kind == USER_OF_NAME ? getpwnam_r(key->text, entry, space, size, ret_found) : 0;
	if (*ret_found || (key->kind == USER_OF_NAME && (error == ERANGE || !is_number(key->text, &number))))
		return error;
	return getpwuid_r(number, entry, space, size, ret_found);
}

// Looks up a user's name or id. *ret_groups has the user's groups if a request names the user; else it is unchanged.
static int look_up_user(struct key *key, char *space, size_t size, struct groups **ret_groups)
{
	struct passwd entry, *found = NULL;
	int error = find_entry(key, &entry, space, size, &found);

	if (!found)
		return convert_lookup_error(error);
	key->number = entry.pw_uid;
	if (key->kind == USER_OF_NAME)
		*ret_groups = look_up_groups(&entry);
	else
		snprintf(key->text, sizeof key->text, "%s", entry.pw_name);
	return 0;
}

static int look_up_group(struct key *key, char *space, size_t size)
{
	struct group entry, *found = NULL;
	bool by_name = key->kind == GROUP_OF_NAME;
	int error = by_name ? getgrnam_r(key->text, &entry, space, size, &found)
			    : getgrgid_r(key->number, &entry, space, size, &found);

	if (!found)
		return convert_lookup_error(error);
	key->number = entry.gr_gid;
	if (!by_name)
		snprintf(key->text, sizeof key->text, "%s", entry.gr_name);
	return 0;
}

// Looks up the name or id of a user or group, with more memory if the entry needs it. The caller frees *ret_groups.
static int look_up_name(struct key *key, struct groups **ret_groups)
{
	bool of_user = key->kind == NAME_OF_USER || key->kind == USER_OF_NAME;
	int r = -ERANGE;

	*ret_groups = NULL;
	for (size_t size = ENTRY_SPACE; r == -ERANGE && size <= MOST_SPACE; size *= 4) {
		char *space = malloc(size);
		if (!space)
			r = -ENOMEM;
		else
			r = of_user ? look_up_user(key, space, size, ret_groups) : look_up_group(key, space, size);
		free(space);
	}
	return r;
}

static void run_lookup(struct work *work)
{
	struct lookup *lookup = (struct lookup *)work;

	lookup->error = look_up_name(&lookup->key, &lookup->groups);
}

int names_look_up_user(const char *text, uid_t *ret_uid)
{
	struct key key = {.kind = USER_OF_NAME};
	struct groups *groups;

	if ((size_t)snprintf(key.text, sizeof key.text, "%s", text) >= sizeof key.text)
		return -ENAMETOOLONG;
	int r = look_up_name(&key, &groups);
	free(groups);
	if (r < 0 && is_number(text, &key.number))
		r = 0;
	if (r == 0)
		*ret_uid = key.number;
	return r;
}

// ---- in the loop ----------------------------------------------------------------------------------------------

static bool is_shown(const struct key *key)
{
	return key->kind == NAME_OF_USER || key->kind == NAME_OF_GROUP;
}

static bool is_same_key(const struct key *left, const struct key *right)
{
	if (left->kind != right->kind)
		return false;
	return is_shown(left) ? left->number == right->number
			      : left->asker == right->asker && strcmp(left->text, right->text) == 0;
}

static void drop_name(struct name **link)
{
	struct name *name = *link;

	*link = name->next;
	free(name->groups);
	free(name);
}

// Makes room for one more name of the same kind: names of ids, or names in requests of the same user. Returns false if
// all of these are being looked up.
static bool make_room(const struct key *key)
{
	struct name **oldest = NULL;
	unsigned int count = 0;

	for (struct name **link = &names; *link; link = &(*link)->next) {
		const struct name *name = *link;
		if (is_shown(&name->key) != is_shown(key) || (!is_shown(key) && name->key.asker != key->asker))
			continue;
		count++;
		if (!name->is_pending)
			oldest = link;
	}
	if (count < (is_shown(key) ? MOST_SHOWN : MOST_ASKED))
		return true;
	if (oldest)
		drop_name(oldest);
	return oldest;
}

static void put_first(struct name *name)
{
	name->next = names;
	names = name;
}

// Finds the name in the cache and moves it to the front. Returns NULL if it is not cached.
static struct name *find_name(const struct key *key)
{
	for (struct name **link = &names; *link; link = &(*link)->next) {
		struct name *name = *link;
		if (!is_same_key(&name->key, key))
			continue;
		*link = name->next;
		put_first(name);
		return name;
	}
	return NULL;
}

static bool is_older(const struct name *name, unsigned int seconds)
{
	return vg_clock_monotonic_ns() - name->known_ns > seconds * 1000000000ull;
}

// Removes the results of lookups whose requests have been answered.
static void drop_old_results(void)
{
	for (struct name **link = &names; *link;) {
		const struct name *name = *link;
		if (!is_shown(&name->key) && !name->is_pending && is_older(name, ASKED_S))
			drop_name(link);
		else
			link = &(*link)->next;
	}
}

static struct name *find_or_add_name(const struct key *key)
{
	struct name *name = find_name(key);

	if (name)
		return name;
	drop_old_results();
	name = make_room(key) ? calloc(1, sizeof *name) : NULL;
	if (!name)
		return NULL;
	name->key = *key;
	put_first(name);
	return name;
}

// Caches a name that a request contained, so that the answer can show it.
static void remember_name(enum kind kind, uint32_t number, const char *text)
{
	struct key key = {.kind = kind, .number = number};
	struct name *name = find_or_add_name(&key);

	if (!name)
		return;
	snprintf(name->key.text, sizeof name->key.text, "%s", text);
	name->is_known = true;
	name->error = 0;
	name->known_ns = vg_clock_monotonic_ns();
}

static void end_lookup(struct node *node, struct work *work)
{
	struct lookup *lookup = (struct lookup *)work;
	struct name *name = find_name(&lookup->key);

	if (name) {
		bool has_failed = lookup->error && lookup->error != -ENOENT;
		name->is_pending = false;
		name->known_ns = vg_clock_monotonic_ns();
		// If the lookup failed, keep an older name that is known, so that answers continue to show it.
		if (!has_failed || !name->is_known || name->error) {
			name->key = lookup->key;
			name->is_known = true;
			name->error = lookup->error;
			free(name->groups);
			name->groups = lookup->groups;
			lookup->groups = NULL;
		}
	}
	free(lookup->groups);
	free(lookup);
	node->must_retry = true;
}

static void begin_lookup(struct name *name)
{
	struct lookup *lookup = name->is_pending ? NULL : malloc(sizeof *lookup);

	if (!lookup)
		return;
	*lookup =
		(struct lookup){.work = {.lane = WORK_NAMES, .run = run_lookup, .done = end_lookup}, .key = name->key};
	name->asked_ns = vg_clock_monotonic_ns();
	name->is_pending = work_post(name->key.asker, &lookup->work);
	if (!name->is_pending)
		free(lookup);
}

// Begins a lookup if the name is unknown or older than `fresh_s`. Returns NULL if there is no room in the cache.
static struct name *expect_name(const struct key *key, unsigned int fresh_s)
{
	struct name *name = find_or_add_name(key);

	if (name && (!name->is_known || is_older(name, fresh_s)))
		begin_lookup(name);
	return name;
}

// Returns whether the user can have a name: subordinate ids have none.
static bool has_name(uid_t uid)
{
	return user_owner(uid) == uid;
}

static const char *show_name(const struct key *key)
{
	static char text[2][NAME_TEXT]; // two buffers, used in turn, since a message can contain a user and a group
	static unsigned int turn;
	char *shown = text[turn++ % 2];
	const struct name *name =
		key->kind == NAME_OF_GROUP || has_name(key->number) ? expect_name(key, FRESH_S) : NULL;

	if (name && name->is_known && !name->error)
		snprintf(shown, NAME_TEXT, "%s", name->key.text);
	else
		snprintf(shown, NAME_TEXT, "%u", (unsigned int)key->number);
	return shown;
}

const char *names_user(uid_t uid)
{
	return show_name(&(struct key){.kind = NAME_OF_USER, .asker = uid, .number = uid});
}

const char *names_group(gid_t gid)
{
	return show_name(&(struct key){.kind = NAME_OF_GROUP, .number = gid});
}

void names_expect_user(uid_t uid)
{
	if (has_name(uid))
		expect_name(&(struct key){.kind = NAME_OF_USER, .asker = uid, .number = uid}, FRESH_S);
}

void names_expect_group(gid_t gid, uid_t asker)
{
	expect_name(&(struct key){.kind = NAME_OF_GROUP, .asker = asker, .number = gid}, FRESH_S);
}

bool names_are_pending(void)
{
	for (const struct name *name = names; name; name = name->next)
		if (name->is_pending && !name->is_known && is_shown(&name->key))
			return true;
	return false;
}

// Makes the key for the lookup of `text`. Returns false if the text cannot be a name.
static bool make_key(uid_t asker, enum kind kind, const char *text, struct key *ret_key)
{
	if (!text || !*text || strlen(text) >= NAME_TEXT)
		return false;
	*ret_key = (struct key){.kind = kind, .asker = user_owner(asker)};
	snprintf(ret_key->text, sizeof ret_key->text, "%s", text);
	return true;
}

static bool is_ready(uid_t asker, enum kind kind, const char *text)
{
	struct key key;

	if (!make_key(asker, kind, text, &key))
		return true;
	const struct name *name = expect_name(&key, ASKED_S);
	return !name || !name->is_pending;
}

bool names_are_ready(uid_t asker, const char *owner, const char *group)
{
	const struct key own = {.kind = NAME_OF_USER, .asker = asker, .number = asker};
	const struct name *name = has_name(asker) ? expect_name(&own, FRESH_S) : NULL;
	bool are_ready = is_ready(asker, USER_OF_NAME, owner);

	are_ready &= is_ready(asker, GROUP_OF_NAME, group); // do not return early: both lookups must begin
	if (!are_ready || !name || name->is_known || !name->is_pending)
		return are_ready;
	uint64_t until = name->asked_ns + PATIENCE_MS * 1000000ull;
	if (vg_clock_monotonic_ns() >= until)
		return true; // the answer shows the number instead of a name
	if (!waits_until_ns || until < waits_until_ns)
		waits_until_ns = until;
	return false;
}

void names_expire(struct node *node, uint64_t now, uint64_t *deadline)
{
	if (waits_until_ns && now >= waits_until_ns) {
		waits_until_ns = 0;
		node->must_retry = true;
	}
	deadline_lower(deadline, waits_until_ns);
}

static int find_number(uid_t asker, enum kind kind, const char *text, uint32_t *ret_number)
{
	struct key key;

	if (!make_key(asker, kind, text, &key))
		return -ENOENT;
	const struct name *name = find_name(&key);
	uint32_t number;
	if (!name || !name->is_known || name->is_pending)
		return -EAGAIN;
	if (name->error)
		return name->error == -ENOENT ? -ENOENT : -EAGAIN;
	*ret_number = name->key.number;
	if (!is_number(text, &number))
		remember_name(kind == USER_OF_NAME ? NAME_OF_USER : NAME_OF_GROUP, name->key.number, text);
	return 0;
}

int names_find_user(uid_t asker, const char *text, uid_t *ret_uid)
{
	return find_number(asker, USER_OF_NAME, text, ret_uid);
}

int names_find_group(uid_t asker, const char *text, gid_t *ret_gid)
{
	return find_number(asker, GROUP_OF_NAME, text, ret_gid);
}

unsigned int names_find_groups(uid_t asker, const char *name, gid_t ret_groups[VGPU_GROUPS])
{
	struct key key;
	const struct name *found = make_key(asker, USER_OF_NAME, name, &key) ? find_name(&key) : NULL;
	const struct groups *groups = found && found->is_known && !found->error ? found->groups : NULL;

	if (!groups)
		return 0;
	memcpy(ret_groups, groups->gids, groups->count * sizeof *ret_groups);
	return groups->count;
}

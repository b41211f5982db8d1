// Fields of a request that say which GPU, how much memory, and for whom.
#include "daemon/names.h"
#include "daemon/request_parts.h"
#include "daemon/terms.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_t *take_memory(const struct request *request, uint64_t *ret_memory)
{
	const json_t *value = json_object_get(request->object, "memory");

	if (!json_is_integer(value) || json_integer_value(value) <= 0)
		return refuse("invalid", "\"memory\" must be a number of bytes above 0");
	*ret_memory = (uint64_t)json_integer_value(value);
	return NULL;
}

// Without a size, a share of the GPU's time brings the same part of its memory, in whole blocks of the device.
json_t *take_memory_or_part(const struct request *request, struct vgpu *wanted)
{
	uint64_t memory = vg_system_device(request->node->system, wanted->device)->memory;

	if (json_object_get(request->object, "memory") || !wanted->terms.share)
		return take_memory(request, &wanted->memory);
	wanted->memory = memory / 100 * wanted->terms.share >> 21 << 21;
	return NULL;
}

// Returns the device with the most memory left among those where the share fits; if it fits nowhere, among all.
static size_t roomiest_device(const struct node *node, unsigned int share)
{
	size_t best = 0;
	uint64_t most = 0;
	bool fits = false;

	for (size_t i = 0; i < vg_system_device_count(node->system); i++) {
		uint64_t reserved = admission_promised(node, i), memory = vg_system_device(node->system, i)->memory;
		uint64_t room = memory > reserved ? memory - reserved : 0;
		bool fits_here = terms_fit(node, i, share);
		if (fits_here != fits ? fits_here : room > most) {
			most = room;
			best = i;
			fits = fits_here;
		}
	}
	return best;
}

json_t *take_device(const struct request *request, unsigned int share, size_t *ret_device)
{
	const json_t *value = json_object_get(request->object, "device");
	const char *text = json_string_value(value);
	const struct node *node = request->node;
	size_t count = vg_system_device_count(node->system);
	uint8_t uuid[16];
	char number[24];

	if (!value || json_is_null(value)) {
		*ret_device = roomiest_device(node, share);
		return NULL;
	}
	if (json_is_integer(value)) {
		snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
		text = number;
	}
	if (!text || !*text)
		return refuse("invalid", "\"device\" must be a GPU's index or UUID");
	char *end;
	errno = 0;
	unsigned long index = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && errno == 0 && index < count) {
		*ret_device = index;
		return NULL;
	}
	for (size_t i = 0; vg_system_uuid_parse(text, uuid) && i < count; i++) {
		if (memcmp(vg_system_device(node->system, i)->uuid, uuid, sizeof uuid) == 0) {
			*ret_device = i;
			return NULL;
		}
	}
	return refuse("not_found", "there is no GPU %.60s: this node has %zu, see `virgate devices%s`", text, count,
		      sim_flag());
}

static json_t *refuse_lookup(const char *what, const char *name)
{
	return refuse("busy", "the system cannot be asked for the %s %.60s now: try again", what, name);
}

// Root makes vGPUs for other users, as a restore of their programs does.
json_t *take_owner(const struct request *request, uid_t *ret_owner)
{
	const json_t *value = json_object_get(request->object, "owner");
	const char *name = json_string_value(value);
	char *end;

	if (!value || json_is_null(value))
		return NULL;
	if (!name || !*name)
		return refuse("invalid", "\"owner\" must be a user's name or number");
	uid_t owner;
	int r = names_find_user(request, name, &owner);
	unsigned long number = strtoul(name, &end, 10);
	if (r == -EAGAIN)
		return refuse_lookup("user", name);
	if (r < 0 && (*name < '0' || *name > '9' || *end || number >= (uid_t)-1))
		return refuse("not_found", "there is no user %.60s", name);
	owner = r < 0 ? (uid_t)number : owner;
	if (request->peer->uid != 0 && request->peer->uid != owner)
		return refuse("denied", "a vGPU for user %.60s is for that user and root to make", name);
	if (!request->node->system_wide && owner != request->peer->uid && owner != geteuid())
		return refuse("invalid",
			      "a vGPU for user %.60s needs the system's daemon: this one serves user %u only", name,
			      (unsigned int)geteuid());
	*ret_owner = owner;
	return NULL;
}

json_t *take_group(const struct request *request, gid_t *ret_group)
{
	const json_t *value = json_object_get(request->object, "group");
	const char *name = json_string_value(value);
	bool member = request->peer->uid == 0;

	if (!value || json_is_null(value))
		return NULL;
	if (!name)
		return refuse("invalid", "\"group\" must be a group's name");
	if (!request->node->system_wide)
		return refuse("invalid", "a group needs the system's daemon: this one serves its own user only");
	gid_t group;
	int r = names_find_group(request, name, &group);
	if (r == -EAGAIN)
		return refuse_lookup("group", name);
	if (r < 0)
		return refuse("not_found", "there is no group %.60s", name);
	for (size_t i = 0; i < request->peer->group_count; i++)
		member |= request->peer->groups[i] == group;
	if (!member)
		return refuse("denied", "you are not in the group %.60s", name);
	*ret_group = group;
	return NULL;
}

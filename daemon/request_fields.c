// Reads the fields "memory" and "owner".
#include "daemon/names.h"
#include "daemon/request_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

json_t *read_memory(const struct request *request, uint64_t *ret_memory)
{
	const json_t *value = json_object_get(request->object, "memory");

	if (!json_is_integer(value) || json_integer_value(value) <= 0)
		return refuse("invalid", "\"memory\" must be a number of bytes above 0");
	*ret_memory = (uint64_t)json_integer_value(value);
	return NULL;
}

json_t *read_memory_or_part(const struct request *request, struct vgpu *wanted)
{
	uint64_t memory = vg_system_device(request->node->system, wanted->device)->memory;

	if (json_object_get(request->object, "memory") || !wanted->terms.share)
		return read_memory(request, &wanted->memory);
	wanted->memory = memory / 100 * wanted->terms.share >> 21 << 21; // rounded down to blocks of 2 MiB
	return NULL;
}

// Reads "owner". Only root creates vGPUs for other users, for example to restore their programs.
json_t *read_owner(const struct request *request, uid_t *ret_owner)
{
	const json_t *value = json_object_get(request->object, "owner");
	const char *name = json_string_value(value);
	char *end;

	if (!value || json_is_null(value))
		return NULL;
	if (!name || !*name)
		return refuse("invalid", "\"owner\" must be a user's name or number");
	uid_t owner;
	int r = names_find_user(request->peer->uid, name, &owner);
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

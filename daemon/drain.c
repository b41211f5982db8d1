#include "daemon/drain.h"

#include "daemon/registry.h"

#include <string.h>

static json_t *kept_drains; // entries for drained GPUs that this machine does not have now

json_t *drain_write(const struct node *node)
{
	json_t *array = kept_drains ? json_copy(kept_drains) : json_array();

	for (size_t i = 0; i < vg_system_device_count(node->system); i++) {
		const struct drain *drain = &node->drains[i];
		if (drain->is_set)
			json_array_append_new(array, json_pack("{s:s, s:I, s:f}", "uuid",
							       vg_system_device(node->system, i)->uuid_text, "user",
							       (json_int_t)drain->user, "since", drain->since));
	}
	return array;
}

void drain_read(struct node *node, const json_t *array)
{
	size_t i, device;
	json_t *one;

	json_array_foreach(array, i, one) {
		const char *text = json_string_value(json_object_get(one, "uuid"));
		uint8_t uuid[16];
		if (!text || !vg_system_uuid_parse(text, uuid))
			continue;
		if (registry_find_device(node, uuid, &device)) {
			node->drains[device] =
				(struct drain){true, (uid_t)json_integer_value(json_object_get(one, "user")),
					       json_number_value(json_object_get(one, "since"))};
			continue;
		}
		if (!kept_drains)
			kept_drains = json_array();
		json_array_append(kept_drains, one);
	}
}

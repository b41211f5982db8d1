#include "node/fields.h"

#include "base/status.h"

const char *vg_field_text(struct vg_fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	if (!json_is_string(value)) {
		fields->wrong = key;
		return "";
	}
	return json_string_value(value);
}

const char *vg_field_optional_text(struct vg_fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	return !value || json_is_null(value) ? "" : vg_field_text(fields, key);
}

uint64_t vg_field_size(struct vg_fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0) {
		fields->wrong = key;
		return 0;
	}
	return (uint64_t)json_integer_value(value);
}

uint64_t vg_field_known_size(struct vg_fields *fields, const char *key, int *ret_known)
{
	const json_t *value = json_object_get(fields->object, key);

	*ret_known = value && !json_is_null(value);
	return *ret_known ? vg_field_size(fields, key) : 0;
}

int vg_field_truth(struct vg_fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	if (!json_is_boolean(value))
		fields->wrong = key;
	return json_is_true(value);
}

double vg_field_seconds(struct vg_fields *fields, const char *key)
{
	const json_t *value = json_object_get(fields->object, key);

	if (!json_is_number(value))
		fields->wrong = key;
	return json_number_value(value);
}

enum vg_status vg_fields_refuse(const char *wrong)
{
	return vg_fail(VG_PROTOCOL, 0,
		       "the daemon's reply has no proper \"%s\": is it of another version? end it, and the next call "
		       "starts one of this version",
		       wrong);
}

// Fields of the daemon's replies. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/status.h"

// Reads fields and remembers whether any was missing or of a wrong kind.
struct vg_fields {
	const json_t *object;
	const char *wrong; // NULL: none
};

const char *vg_field_text(struct vg_fields *fields, const char *key);
const char *vg_field_optional_text(struct vg_fields *fields, const char *key); // null and missing are ""
uint64_t vg_field_size(struct vg_fields *fields, const char *key);
uint64_t vg_field_known_size(struct vg_fields *fields, const char *key,
			     int *ret_known); // null and missing are not known
int vg_field_truth(struct vg_fields *fields, const char *key);
double vg_field_seconds(struct vg_fields *fields, const char *key);
// PROTOCOL: the reply has no proper `wrong`.
enum vg_status vg_fields_refuse(const char *wrong);

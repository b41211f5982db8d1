// Reads fields of the daemon's replies. Any thread.
#pragma once
#include <jansson.h>

#include "virgate/status.h"

// An object whose fields are read. Records the first field that was missing or of a wrong type.
struct vg_fields {
	const json_t *object;
	const char *wrong; // key of the first invalid field; NULL: none
};

const char *vg_field_text(struct vg_fields *fields, const char *key);
const char *vg_field_optional_text(struct vg_fields *fields, const char *key); // "": the field is null or missing
uint64_t vg_field_size(struct vg_fields *fields, const char *key);
uint64_t vg_field_known_size(struct vg_fields *fields, const char *key,
			     int *ret_known); // *ret_known: false if the field is null or missing
int vg_field_truth(struct vg_fields *fields, const char *key);
double vg_field_seconds(struct vg_fields *fields, const char *key);
// Sets and returns PROTOCOL: the field `wrong` of the reply is missing or invalid.
enum vg_status vg_fields_refuse(const char *wrong);

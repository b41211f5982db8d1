#include "operation/plan.h"

#include <string.h>

static const struct operation_type types[] = {
	[VG_F32] = {"f32", 4, 0, false, false}, [VG_TF32] = {"tf32", 4, 0, true, true},
	[VG_F16] = {"f16", 2, 1, false, true},	[VG_BF16] = {"bf16", 2, 2, false, true},
	[VG_F64] = {"f64", 8, 3, false, false},
};

const struct operation_type *operation_type_of(enum vg_element_type type)
{
	return (unsigned)type < sizeof types / sizeof *types ? &types[type] : NULL;
}

static const char *const activations[] = {
#define X(name, text, formula) text,
	VG_ACTIVATION_LIST(X)
#undef X
};

const char *vg_activation_name(enum vg_activation_kind kind)
{
	return (unsigned)kind < sizeof activations / sizeof *activations ? activations[kind] : NULL;
}

static bool is_same_name(const char *asked, const char *name)
{
	for (; *asked && *name; asked++, name++) {
		char c = *asked >= 'A' && *asked <= 'Z' ? (char)(*asked - 'A' + 'a') : *asked;
		if ((c == '-' ? '_' : c) != *name)
			return false;
	}
	return *asked == *name;
}

enum vg_status vg_activation_by_name(const char *name, enum vg_activation_kind *ret_kind)
{
	VG_ENTRY();
	CORE_NEEDED(name);
	CORE_NEEDED(ret_kind);
	for (unsigned i = 0; i < sizeof activations / sizeof *activations; i++)
		if (is_same_name(name, activations[i])) {
			*ret_kind = (enum vg_activation_kind)i;
			return VG_OK;
		}
#define X(name, text, formula) " " text
	return vg_fail(VG_NOT_FOUND, 0, "there is no activation \"%s\"; there are:" VG_ACTIVATION_LIST(X), name);
#undef X
}

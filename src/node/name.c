// Checks the names of vGPUs and of publications.
#include <ctype.h>
#include <string.h>

#include "base/status.h"
#include "node/node.h"

enum vg_status vg_check_name(const char *name)
{
	size_t length = name ? strlen(name) : 0;

	if (length == 0)
		return vg_fail(VG_INVALID, 0, "the name is empty: use letters, digits, '.', '_' and '-'");
	if (length > 63)
		return vg_fail(VG_INVALID, 0, "the name \"%.20s…\" has %zu characters: 63 is the most", name, length);
	if (!isalnum((unsigned char)name[0]) || !isascii((unsigned char)name[0]))
		return vg_fail(VG_INVALID, 0, "the name \"%s\" must begin with a letter or a digit", name);
	for (const char *at = name; *at; at++)
		if (!isascii((unsigned char)*at) || (!isalnum((unsigned char)*at) && !strchr("._-", *at)))
			return vg_fail(
				VG_INVALID, 0,
				"the name \"%s\" has a character that names cannot have: use letters, digits, '.', "
				"'_' and '-'",
				name);
	return VG_OK;
}

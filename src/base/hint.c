#include "base/hint.h"

#include "base/parts.h"

#include <stdio.h>
#include <string.h>

static const char unquoted[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789=,._/:+-";

const char *vg_hint_sim(const char *specification, char buffer[VG_HINT_SIM])
{
	if (!specification || !*specification || strcmp(specification, "0") == 0)
		return strcpy(buffer, "");
	const char *quote = strspn(specification, unquoted) == strlen(specification) ? "" : "'";
	int length = snprintf(buffer, VG_HINT_SIM, " --sim=%s%s%s", quote, specification, quote);
	if (strcmp(specification, "1") == 0 || length >= VG_HINT_SIM || strchr(specification, '\''))
		strcpy(buffer, " --sim");
	return buffer;
}

const char *vg_hint_own_sim(void)
{
	static _Thread_local char text[VG_HINT_SIM];

	return vg_hint_sim(vg_simulation_wanted(), text);
}

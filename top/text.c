#include "top/text.h"

#include <stdio.h>
#include <string.h>

const char *short_size(uint64_t bytes, char buffer[SHORT_TEXT])
{
	static const char units[] = "BKMGTPE";
	double value = (double)bytes;
	int unit = 0;

	for (; value >= 1023.5 && unit < 6; unit++)
		value /= 1024;
	if (bytes == 0)
		strcpy(buffer, "0");
	else if (unit < 3 || value >= 99.95)
		snprintf(buffer, SHORT_TEXT, "%.0f%c", value, units[unit]);
	else
		snprintf(buffer, SHORT_TEXT, "%.1f%c", value, units[unit]);
	return buffer;
}

const char *short_duration(uint64_t nanoseconds, char buffer[SHORT_TEXT])
{
	double seconds = (double)nanoseconds / 1e9;

	if (seconds < 9.95)
		snprintf(buffer, SHORT_TEXT, "%.1f s", seconds);
	else if (seconds < 99.5)
		snprintf(buffer, SHORT_TEXT, "%.0f s", seconds);
	else if (seconds < 5970)
		snprintf(buffer, SHORT_TEXT, "%.0f min", seconds / 60);
	else if (seconds < 48 * 3600)
		snprintf(buffer, SHORT_TEXT, "%.0f h", seconds / 3600);
	else
		snprintf(buffer, SHORT_TEXT, "%.0f d", seconds / 86400);
	return buffer;
}

double part(uint64_t value, uint64_t whole)
{
	return whole ? (double)value / (double)whole : 0;
}

const char *tenant_state(const struct vg_tenant_info *tenant, char buffer[STATE_TEXT])
{
	const char *state = tenant->ended		   ? "ended"
			    : tenant->guest		   ? "guest"
			    : tenant->outside		   ? "outside, no quota"
			    : tenant->deep != VG_DEEP_NONE ? "suspended, deep"
			    : !tenant->eviction.known	   ? ""
							   : tenant->eviction.state;
	char host[SHORT_TEXT];

	if (strcmp(state, "running") == 0 || strcmp(state, "none") == 0)
		state = "";
	if (*tenant->container)
		snprintf(buffer, STATE_TEXT, "%s%sin %.12s", state, *state ? ", " : "", tenant->container);
	else if (*state && tenant->eviction.host)
		snprintf(buffer, STATE_TEXT, "%s, %s in host", state, short_size(tenant->eviction.host, host));
	else
		snprintf(buffer, STATE_TEXT, "%s", state);
	return buffer;
}

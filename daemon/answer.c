#include "daemon/answer.h"

#include "base/hint.h"
#include "base/parts.h"

#include <stdarg.h>
#include <stdio.h>

json_t *refuse(const char *code, const char *format, ...)
{
	char text[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return json_pack("{s:b, s:s, s:s}", "ok", 0, "code", code, "message", text);
}

json_t *agree(void)
{
	return json_pack("{s:b}", "ok", 1);
}

json_t *agree_with(const char *key, json_t *value)
{
	return json_pack("{s:b, s:o}", "ok", 1, key, value);
}

const char *sim_flag(void)
{
	static char text[VG_HINT_SIM];

	return vg_hint_sim(vg_simulation_wanted(), text);
}

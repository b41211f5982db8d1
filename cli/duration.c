#include "duration.h"

#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "say.h"

int read_since(const struct arguments *arguments, double *ret_seconds)
{
	static const char units[] = "smhd";
	static const double seconds[] = {1, 60, 3600, 86400};
	const char *text = option_value(arguments, "since");

	if (!text)
		return 0;
	size_t digits = strspn(text, "0123456789");
	const char *unit = digits && digits < 10 && text[digits] ? strchr(units, text[digits]) : NULL;
	if (!unit || text[digits + 1])
		return say_usage(arguments->verb,
				 "--since: \"%s\" is not a duration: a number and s, m, h or d, such as 90s or 1h",
				 text);
	*ret_seconds = (double)atol(text) * seconds[unit - units];
	return 0;
}

#include "gpus.h"

#include <stdlib.h>
#include <string.h>

#include "say.h"

void gpus_free(struct gpus *gpus)
{
	for (size_t i = 0; i < gpus->text_count; i++)
		free(gpus->texts[i]);
}

static int refuse_pair(const struct arguments *arguments, const char *pair)
{
	return say_usage(arguments->verb, "--gpu-map: \"%s\" is not OLD=NEW, each a UUID or an index", pair);
}

// Parses "OLD=NEW", or several such pairs separated by commas.
static int read_pairs(const struct arguments *arguments, char *text, struct gpus *gpus)
{
	for (char *rest = text, *pair; (pair = strsep(&rest, ","));) {
		char *new = strchr(pair, '=');
		if (!new || new == pair || !new[1] || strchr(new + 1, '='))
			return refuse_pair(arguments, pair);
		*new ++ = '\0';
		if (gpus->count == MOST_GPUS)
			return say_usage(arguments->verb, "--gpu-map: more than %d GPUs", MOST_GPUS);
		gpus->pairs[gpus->count++] = (struct vg_process_gpu_pair){.old_uuid = pair, .new_uuid = new};
	}
	return 0;
}

int gpus_read(const struct arguments *arguments, struct gpus *gpus)
{
	const char *value;
	int r = 0;

	for (int at = 0; r == 0 && at < MOST_GPUS && (value = option_value_again(arguments, "gpu-map", at)); at++) {
		char *text = strdup(value);
		if (!text) {
			say_error("out of memory");
			return verb_failure_code(arguments->verb);
		}
		gpus->texts[gpus->text_count++] = text;
		r = read_pairs(arguments, text, gpus);
	}
	return r;
}

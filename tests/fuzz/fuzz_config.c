// Fuzzes the parser of settings files with arbitrary bytes. It must read the file, or refuse it with a message that
// names the file and the line.
#include <stdlib.h>
#include <string.h>

#include "settings/config.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length)
{
	struct config config = {0};
	struct config_error error = {""};

	int r = config_read(&config, "f", (const char *)data, length, &error);
	if (r != (*error.text != '\0'))
		abort();
	if (r && strncmp(error.text, "f:", 2) != 0)
		abort();
	for (int i = 0; i < CONFIG_COUNT; i++) {
		if (config.values[i] && (!*config.values[i] || config_check(config_rows[i].kind, config.values[i])))
			abort(); // an invalid value was accepted
		if (!config.values[i] != !config.origins[i])
			abort();
	}
	for (size_t i = 0; i < config.device_count; i++)
		if (!*config.devices[i].gpu || config_check(KIND_MODE, config.devices[i].sharing))
			abort();
	for (size_t i = 0; i < config.profile_count; i++) {
		const struct vg_profile *profile = &config.profiles[i];
		if (!*profile->name || strlen(profile->name) > 63 || (!profile->memory && !profile->share))
			abort();
		if (profile->share > 100 || (profile->share_limit && !profile->share) ||
		    (profile->swap && !profile->evictable))
			abort();
	}
	config_finish(&config);
	return 0;
}

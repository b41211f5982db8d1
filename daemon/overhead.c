#include "daemon/overhead.h"

#include "base/parts.h"
#include "base/size.h"
#include "daemon/user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Bytes that a context is assumed to take until one was measured. On an H200 a context takes 518 MiB.
static const uint64_t DECLARED = 544ull << 20, DECLARED_SIMULATED = 16ull << 20;

// Returns how many bytes a context takes according to the specification of the simulated device.
static uint64_t read_specification(void)
{
	const char *text = vg_simulation_wanted();
	char size[32];
	uint64_t bytes;

	for (; *text; text += strcspn(text, ",") + (text[strcspn(text, ",")] != '\0'))
		if (strncmp(text, "ctx=", 4) == 0) {
			snprintf(size, sizeof size, "%.*s", (int)strcspn(text + 4, ","), text + 4);
			return vg_size_parse(size, &bytes) == 0 ? bytes : DECLARED_SIMULATED;
		}
	return DECLARED_SIMULATED;
}

static uint64_t default_bytes(const struct node *node)
{
	return node->simulated ? read_specification() : DECLARED;
}

uint64_t overhead_estimate(const struct node *node, size_t device, uid_t owner, bool *ret_measured)
{
	const char *gpu = vg_system_device(node->system, device)->name;
	const char *driver = vg_system_driver_version(node->system);

	for (const struct overhead *one = node->overheads; one; one = one->next) {
		if (one->owner == user_owner(owner) && strcmp(one->gpu, gpu) == 0 && strcmp(one->driver, driver) == 0) {
			*ret_measured = true;
			return one->bytes;
		}
	}
	*ret_measured = false;
	return default_bytes(node);
}

bool overhead_remember(struct node *node, uid_t owner, const char *gpu, const char *driver, uint64_t bytes)
{
	struct overhead *one = node->overheads;

	// Tenants can influence the measurement, so an implausible figure is ignored.
	if (bytes == 0 || bytes > 2 * default_bytes(node) || bytes < default_bytes(node) / 8)
		return false;
	owner = user_owner(owner);
	while (one && (one->owner != owner || strcmp(one->gpu, gpu) != 0 || strcmp(one->driver, driver) != 0))
		one = one->next;
	if (one && one->bytes == bytes)
		return false;
	if (!one) {
		one = calloc(1, sizeof *one);
		if (!one)
			return false;
		one->owner = owner;
		snprintf(one->gpu, sizeof one->gpu, "%s", gpu);
		snprintf(one->driver, sizeof one->driver, "%s", driver);
		one->next = node->overheads;
		node->overheads = one;
	}
	one->bytes = bytes;
	return true;
}

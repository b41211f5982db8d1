#include "checkpoint/machine/fit.h"

#include "base/size.h"
#include "base/status.h"
#include "checkpoint/machine/describe.h"
#include "checkpoint/process/host_memory.h"
#include "checkpoint/process/refusal.h"
#include "checkpoint/process/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *text_of(const json_t *group, const char *key)
{
	return json_string_value(json_object_get(group, key));
}

static enum vg_status fit_driver(const json_t *description)
{
	const char *was = text_of(json_object_get(description, "driver"), "version");
	json_t *driver = describe_driver();
	const char *is = text_of(driver, "version");
	enum vg_status status = VG_OK;

	if (was && (!is || strcmp(was, is) != 0))
		status = refuse(
			REFUSE_DRIVER, 0,
			"the image is of driver %.40s, and here is %s: a driver restores only what it wrote itself; "
			"restore on a machine with that driver",
			was, is ? is : "none");
	json_decref(driver);
	return status;
}

static bool has_word(const char *text, const char *word, size_t length)
{
	for (; *text; text += strcspn(text, " "), text += *text == ' ')
		if (strncmp(text, word, length) == 0 && (text[length] == ' ' || !text[length]))
			return true;
	return false;
}

// Checks that this processor has all features of the processor in the image. A program may have chosen its instructions
// for the old processor. An instruction that this processor lacks would kill the program.
static enum vg_status fit_cpu(const json_t *description)
{
	const json_t *cpu = json_object_get(description, "cpu");
	json_t *here = describe_cpu();
	const char *was = text_of(cpu, "features"), *is = text_of(here, "features"), *model = text_of(cpu, "model");
	enum vg_status status = VG_OK;
	char missing[200] = "";
	size_t length = 0;

	for (const char *word = was; is && word && *word && length < 80;) {
		size_t size = strcspn(word, " ");
		if (size < 64 && !has_word(is, word, size))
			length += (size_t)snprintf(missing + length, sizeof missing - length, "%s%.*s",
						   length ? ", " : "", (int)size, word);
		word += size;
		word += *word == ' ';
	}
	if (length)
		status = refuse(
			REFUSE_PROCESSOR, 0,
			"the processor here lacks %s, which the image's has (%.80s), and its programs may use: restore "
			"on such a processor",
			missing, model ? model : "of unknown model");
	json_decref(here);
	return status;
}

static enum vg_status fit_machine(const json_t *description, const struct criu *criu)
{
	const char *machine = text_of(json_object_get(description, "kernel"), "machine");
	const char *wrote = text_of(description, "criu");
	struct utsname here;

	if (uname(&here) == 0 && strcmp(machine, here.machine) != 0)
		return refuse(REFUSE_MACHINE, 0,
			      "the image is of a machine %.40s, and this is %s: restore on such a machine", machine,
			      here.machine);
	if (version_number(criu->version) < version_number(wrote))
		return refuse(
			REFUSE_CRIU, 0,
			"the image is of CRIU %.20s, and %s is %s: an older CRIU does not read it; name a newer one in "
			"VIRGATE_CRIU",
			wrote, criu->path, criu->version);
	enum vg_status status = fit_cpu(description);
	return status ? status : fit_driver(description);
}

bool fit_kernel_is_older(const json_t *description, char *ret_warning, size_t capacity)
{
	const char *was = text_of(json_object_get(description, "kernel"), "release");
	struct utsname here;

	// Compare the first two numbers of the versions only: updates within a version remove no features.
	if (!was || uname(&here) < 0 || version_number(here.release) / 100 >= version_number(was) / 100)
		return false;
	snprintf(ret_warning, capacity,
		 "the image is of Linux %.60s, and here is the older %.60s: if CRIU fails, or a program misses "
		 "something, "
		 "restore under a kernel as new as that",
		 was, here.release);
	return true;
}

static uint64_t sum_of(const json_t *list, const char *key, const char *otherwise)
{
	uint64_t sum = 0;
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)list, i, one) {
		json_t *bytes = json_object_get(one, key);
		sum += (uint64_t)json_integer_value(bytes ? bytes : json_object_get(one, otherwise));
	}
	return sum;
}

// Checks that the host has room for the memory of all processes, including their device memory. A restore first puts
// everything into host memory, and then moves device memory to a GPU. Computes two estimates and uses the smaller one,
// because both are too high. The sum over the processes counts shared memory several times, and CRIU's files contain
// more than memory.
static enum vg_status fit_host_memory(const json_t *description)
{
	uint64_t counted = sum_of(json_object_get(description, "processes"), "host_memory", "");
	uint64_t written = sum_of(json_object_get(description, "files"), "raw", "bytes");

	return host_memory_check(getpid(), counted && counted < written ? counted : written, "the processes take");
}

enum vg_status fit_restore(const json_t *description, const struct criu *criu, const struct vg_process_gpu_pair *gpus,
			   size_t gpu_count, const struct tenants *tenants)
{
	enum vg_status status = fit_machine(description, criu);

	if (status)
		return status;
	status = fit_processes(description);
	if (status)
		return status;
	status = fit_files(description, tenants);
	if (status)
		return status;
	status = fit_gpus(description, gpus, gpu_count);
	return status ? status : fit_host_memory(description);
}

// Helpers for programs in evictable vGPUs: they read what the daemon lists of a program, and count its files of host
// memory. Include in exactly one file per program. One thread.
#pragma once
#include <dirent.h>

#include "pager/host_file.h"
#include "tenants_test.h"

static inline void must(const char *command)
{
	if (run("%s", command))
		FAIL("%s: %s", command, said);
}

// Creates an evictable vGPU. `more`: more options of `virgate create`.
static inline struct program start_evictable(const char *vgpu, const char *more)
{
	if (run("create %s --memory 256M --evictable %s", vgpu, more))
		FAIL("create %s: %s", vgpu, said);
	return start(vgpu, vgpu, "64", "32", "512");
}

// Returns a field of the process in the output of `virgate inspect --json`. If the process lacks the field, searches
// its object "eviction". Returns "null" if the field is missing there, too.
static inline const char *field_of(const char *vgpu, pid_t pid, const char *field)
{
	static char text[64];
	json_t *all, *tenant;
	size_t i;

	CHECK_RUN("inspect %s --json", vgpu);
	all = json_loads(said, 0, NULL);
	CHECK(all != NULL);
	snprintf(text, sizeof text, "no process");
	json_array_foreach(json_object_get(json_object_get(all, "vgpu"), "tenants"), i, tenant) {
		if (json_integer_value(json_object_get(tenant, "pid")) != pid)
			continue;
		json_t *value = json_object_get(tenant, field);
		value = value ? value : json_object_get(json_object_get(tenant, "eviction"), field);
		if (json_is_integer(value))
			snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
		else
			snprintf(text, sizeof text, "%s", json_is_string(value) ? json_string_value(value) : "null");
	}
	json_decref(all);
	return text;
}

static inline void wait_for_field(const char *vgpu, pid_t pid, const char *field, const char *wanted)
{
	for (int i = 0; i < 1000 && strcmp(field_of(vgpu, pid, field), wanted) != 0; i++)
		usleep(10000);
	CHECK_STR(field_of(vgpu, pid, field), wanted);
}

// Counts the files of host memory that belong to this process, and returns the name of the last one. Other tests may
// run at the same time.
static inline unsigned find_file(pid_t pid, char ret_name[PAGER_FILE_NAME])
{
	DIR *directory = opendir(PAGER_FILE_DIRECTORY);
	struct pager_file file;
	unsigned count = 0;

	for (struct dirent *entry; (entry = readdir(directory));)
		if (pager_file_parse(entry->d_name, &file) && (uint32_t)file.process == (uint32_t)pid) {
			pager_file_format(&file, ret_name);
			count++;
		}
	closedir(directory);
	return count;
}

static inline unsigned count_files(pid_t pid)
{
	char name[PAGER_FILE_NAME];

	return find_file(pid, name);
}

static inline void await_stopped(pid_t pid)
{
	char path[64], text[4096];

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	for (int i = 0; i < 1000; i++) {
		CHECK(vg_file_read(path, text, sizeof text) > 0);
		if (strstr(text, "State:\tT"))
			return;
		usleep(10000);
	}
	FAIL("process %d is not stopped", (int)pid);
}

// Starts a program outside all vGPUs that allocates all free memory but 8 MiB.
static inline struct program fill_device(void)
{
	struct program other = {0};

	snprintf(other.file, sizeof other.file, "%s", path_of("room.other"));
	unlink(other.file);
	fflush(stdout);
	other.run = fork();
	if (other.run == 0) {
		execl(TENANT, TENANT, other.file, "0", "0", "0", (char *)NULL);
		_exit(127);
	}
	await_round(&other, 1);
	return other;
}

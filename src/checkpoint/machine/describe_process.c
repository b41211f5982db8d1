// Describes stopped processes: threads, and the files that a restore needs unchanged.
#include "base/descriptor.h"
#include "checkpoint/criu/remap.h"
#include "checkpoint/machine/build_id.h"
#include "checkpoint/machine/describe.h"
#include "checkpoint/process/proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Converts text from the kernel, which may be any bytes, to a JSON string. Returns "(not UTF-8)" if the bytes
// are not UTF-8.
static json_t *text_of(const char *text)
{
	json_t *string = json_string(text);

	return string ? string : json_string("(not UTF-8)");
}

static json_t *link_text(pid_t pid, const char *name)
{
	char link[64], target[PATH_MAX];

	snprintf(link, sizeof link, "/proc/%d/%s", (int)pid, name);
	ssize_t length = readlink(link, target, sizeof target - 1);
	if (length < 0)
		return json_null();
	target[length] = '\0';
	return text_of(target);
}

// Describes the working directory. Returns JSON null if the directory was removed, which CRIU handles, or if its name
// is not UTF-8.
static json_t *describe_working_directory(pid_t pid)
{
	char link[64], target[PATH_MAX];
	struct stat info, named;

	snprintf(link, sizeof link, "/proc/%d/cwd", (int)pid);
	ssize_t length = readlink(link, target, sizeof target - 1);
	if (length < 0 || stat(link, &info) < 0)
		return json_null();
	target[length] = '\0';
	json_t *text = stat(target, &named) == 0 && named.st_ino == info.st_ino && named.st_dev == info.st_dev
			       ? json_string(target)
			       : NULL;
	return text ? text : json_null();
}

static json_t *command_line(pid_t pid)
{
	char path[64], text[65536];
	json_t *words = json_array();

	snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	ssize_t length = vg_file_read(path, text, sizeof text);
	for (ssize_t at = 0; at < length; at += (ssize_t)strlen(text + at) + 1)
		json_array_append_new(words, text_of(text + at));
	return words;
}

json_t *describe_process(const struct tree_process *process)
{
	char link[64], build[BUILD_ID_TEXT];

	snprintf(link, sizeof link, "/proc/%d/exe", (int)process->pid);
	bool built = build_id_read(link, build) == 0 && *build;
	return json_pack("{s:i, s:i, s:o, s:o, s:o, s:o, s:b}", "pid", (int)process->pid, "parent",
			 (int)process->parent, "command", text_of(process->command), "command_line",
			 command_line(process->pid), "program", link_text(process->pid, "exe"), "build_id",
			 built ? json_string(build) : json_null(), "cuda", process->cuda != NULL);
}

// ---- stopped processes ---------------------------------------------------------------------------------

bool describe_host_memory(pid_t pid, uint64_t *ret_bytes)
{
	static const char *const keys[] = {"\nRssAnon:", "\nRssShmem:", "\nVmSwap:"};
	char path[64], status[8192];
	uint64_t sum = 0;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	if (vg_file_read(path, status, sizeof status) < 0)
		return false;
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *line = strstr(status, keys[i]);
		if (!line)
			return false;
		sum += strtoull(line + strlen(keys[i]), NULL, 10) * 1024;
	}
	*ret_bytes = sum;
	return true;
}

static json_t *describe_threads(pid_t pid)
{
	json_t *list = json_array();
	struct dirent *entry;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *directory = opendir(path);
	while (directory && (entry = readdir(directory)))
		if (atoi(entry->d_name) > 0)
			json_array_append_new(list, json_integer(atoi(entry->d_name)));
	if (directory)
		closedir(directory);
	return list;
}

static void describe_stopped_process(pid_t pid, json_t *process)
{
	pid_t group = getpgid(pid), session = getsid(pid);
	struct proc_status status;
	uint64_t bytes;

	bool known = proc_status_read(pid, &status) == 0;
	json_object_set_new(process, "user", known ? json_integer(status.user) : json_null());
	known = describe_host_memory(pid, &bytes);
	json_object_set_new(process, "host_memory", known ? json_integer((json_int_t)bytes) : json_null());
	json_object_set_new(process, "group", group < 0 ? json_null() : json_integer(group));
	json_object_set_new(process, "session", session < 0 ? json_null() : json_integer(session));
	json_object_set_new(process, "threads", describe_threads(pid));
	json_object_set_new(process, "folder", describe_working_directory(pid));
}

// Adds a file to the list. `path` is its name. `link`, in /proc/PID/fd or map_files, leads to the file even if it has
// another name now.
static void add_file(json_t *seen, const char *path, const char *link, bool mapped, bool written)
{
	char build[BUILD_ID_TEXT] = "", remapped[PATH_MAX];
	struct stat info, named;

	if (stat(link, &info) < 0 || !S_ISREG(info.st_mode))
		return;
	// If the file was removed under this name, use the name of the link that CRIU has made. Leave out a file
	// without any link, because CRIU stores it in the image.
	if (remap_find(path, &info, remapped))
		path = remapped;
	json_t *known = json_object_get(seen, path);
	if (known && written && !mapped)
		json_object_set_new(known, "written", json_true());
	if (known || stat(path, &named) < 0 || named.st_ino != info.st_ino || named.st_dev != info.st_dev)
		return;
	json_t *file = json_pack("{s:s, s:I}", "path", path, "bytes", (json_int_t)info.st_size);
	if (!file)
		return; // the name is not UTF-8: leave the file out
	if (mapped)
		json_object_set_new(file, "build_id",
				    build_id_read(link, build) == 0 && *build ? json_string(build) : json_null());
	else
		json_object_set_new(file, "written", json_boolean(written));
	json_object_set_new(seen, path, file);
}

static void add_mapped(pid_t pid, json_t *seen)
{
	char path[64], link[PATH_MAX], *line = NULL;
	size_t capacity = 0;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "re");
	while (file && getline(&line, &capacity, file) > 0) {
		char *name = strchr(line, '/');
		unsigned long long from, to;
		line[strcspn(line, "\n")] = '\0';
		if (!name || json_object_get(seen, name) || sscanf(line, "%llx-%llx", &from, &to) != 2)
			continue;
		snprintf(link, sizeof link, "/proc/%d/map_files/%llx-%llx", (int)pid, from, to);
		add_file(seen, name, link, true, false);
	}
	free(line);
	if (file)
		fclose(file);
}

static bool is_written(pid_t pid, const char *descriptor)
{
	char path[300], text[1024];

	snprintf(path, sizeof path, "/proc/%d/fdinfo/%s", (int)pid, descriptor);
	const char *line = vg_file_read(path, text, sizeof text) > 0 ? strstr(text, "flags:") : NULL;
	return line && (strtoul(line + 6, NULL, 8) & O_ACCMODE) != O_RDONLY;
}

static void add_open(pid_t pid, json_t *seen)
{
	char path[64], link[320], name[PATH_MAX];
	struct dirent *entry;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *directory = opendir(path);
	while (directory && (entry = readdir(directory))) {
		ssize_t length = readlinkat(dirfd(directory), entry->d_name, name, sizeof name - 1);
		if (length < 1 || name[0] != '/')
			continue;
		name[length] = '\0';
		snprintf(link, sizeof link, "%s/%s", path, entry->d_name);
		add_file(seen, name, link, false, is_written(pid, entry->d_name));
	}
	if (directory)
		closedir(directory);
}

// Returns a list of the members of an object, without their keys, and frees the object.
static json_t *list_of(json_t *group)
{
	json_t *list = json_array(), *file;
	const char *path;

	json_object_foreach(group, path, file)
		json_array_append(list, file);
	json_decref(group);
	return list;
}

void describe_stopped(const struct tree *tree, json_t *description)
{
	json_t *processes = json_object_get(description, "processes"), *mapped = json_object(), *opened = json_object();

	for (size_t i = 0; i < tree->count; i++) {
		describe_stopped_process(tree->processes[i].pid, json_array_get(processes, i));
		add_mapped(tree->processes[i].pid, mapped);
		add_open(tree->processes[i].pid, opened);
	}
	json_object_set_new(description, "mapped_files", list_of(mapped));
	json_object_set_new(description, "open_files", list_of(opened));
}

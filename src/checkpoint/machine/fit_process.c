// Checks that the pids of restored processes are free, and that the files which these processes need exist.
#include "checkpoint/machine/fit.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/machine/build_id.h"
#include "checkpoint/process/refusal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *text_of(const json_t *group, const char *key)
{
	const char *text = json_string_value(json_object_get(group, key));

	return text ? text : "";
}

// ---- pids ---------------------------------------------------------------------------------------------

// Finds the process or thread that has the id, and returns its name, or NULL. *ret_process: pid of the process.
static const char *find_holder(int id, char text[8192], int *ret_process)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/status", id);
	if (vg_file_read(path, text, 8192) < 0)
		return NULL;
	const char *group = strstr(text, "\nTgid:\t");
	*ret_process = group ? atoi(group + 7) : id;
	return text;
}

static enum vg_status refuse_taken(int id, const char *what, const char *command, const char *status_text, int process)
{
	const char *ended = strstr(status_text, "\nState:\tZ"), *parent = ended ? strstr(ended, "\nPPid:\t") : NULL;
	const char *name = status_text + strcspn(status_text, "\t") + 1; // "Name:\tNAME\n"
	int length = (int)strcspn(name, "\n");

	if (parent)
		return refuse(
			REFUSE_PID, 0,
			"pid %d (%s%.40s) is taken: %.*s has ended, but its parent, process %d, does not wait for it: "
			"end the parent, or run an init that waits (docker run --init)",
			id, what, command, length, name, atoi(parent + 7));
	if (process != id)
		return refuse(
			REFUSE_PID, 0,
			"pid %d (%s%.40s) is taken, by a thread of process %d, %.*s: end it, or restore in a new pid "
			"namespace",
			id, what, command, process, length, name);
	return refuse(REFUSE_PID, 0, "pid %d (%s%.40s) is taken, by %.*s: end it, or restore in a new pid namespace",
		      id, what, command, length, name);
}

static enum vg_status need_number(int id, const char *what, const char *command)
{
	char text[8192];
	int process;

	return find_holder(id, text, &process) ? refuse_taken(id, what, command, text, process) : VG_OK;
}

static enum vg_status fit_pids_of(const json_t *process)
{
	int pid = (int)json_integer_value(json_object_get(process, "pid"));
	const char *command = text_of(process, "command");
	enum vg_status status = need_number(pid, "", command);
	json_t *thread;
	size_t i;

	json_array_foreach(json_object_get(process, "threads"), i, thread)
		if (status == VG_OK && json_integer_value(thread) != pid)
			status = need_number((int)json_integer_value(thread), "a thread of ", command);
	return status;
}

enum vg_status fit_pids(const json_t *description)
{
	enum vg_status status = VG_OK;
	json_t *process;
	size_t i;

	json_array_foreach(json_object_get(description, "processes"), i, process)
		if (status == VG_OK)
			status = fit_pids_of(process);
	return status;
}

enum vg_status fit_processes(const json_t *description)
{
	struct stat info;
	json_t *process;
	size_t i;

	json_array_foreach(json_object_get(description, "processes"), i, process) {
		const char *directory = text_of(process, "folder");
		if (*directory && (stat(directory, &info) < 0 || !S_ISDIR(info.st_mode)))
			return refuse(REFUSE_FILE_MISSING, ENOTDIR,
				      "process %d (%.40s) has the working directory %.200s, which does not exist here: "
				      "create it",
				      (int)json_integer_value(json_object_get(process, "pid")),
				      text_of(process, "command"), directory);
	}
	return VG_OK;
}

// ---- files --------------------------------------------------------------------------------------------

// Checks the size of a file: CRIU opens files by name, and refuses a file of another size.
static enum vg_status fit_size(const char *path, json_int_t bytes, const char *what)
{
	struct stat info;

	if (stat(path, &info) < 0)
		return refuse(REFUSE_FILE_MISSING, errno,
			      "%s %.300s: %s; the image needs it as it was, %lld bytes: put it back", what, path,
			      strerror(errno), (long long)bytes);
	if (!S_ISREG(info.st_mode))
		return refuse(REFUSE_FILE_CHANGED, 0, "%s %.300s is no file any more: put it back", what, path);
	if ((json_int_t)info.st_size != bytes)
		return refuse(REFUSE_FILE_CHANGED, 0,
			      "%s %.300s has %lld bytes here, and had %lld: put it back as it was%s", what, path,
			      (long long)info.st_size, (long long)bytes,
			      (json_int_t)info.st_size > bytes ? ", or cut it (truncate -s)" : "");
	return VG_OK;
}

static enum vg_status fit_mapped(const json_t *file)
{
	const char *path = text_of(file, "path"), *was = text_of(file, "build_id");
	char is[BUILD_ID_TEXT];

	if (!*was)
		return fit_size(path, json_integer_value(json_object_get(file, "bytes")), "the mapped file");
	int r = build_id_read(path, is);
	if (r)
		return refuse(REFUSE_FILE_MISSING, -r, "the program or library %.300s: %s; put it back", path,
			      strerror(-r));
	if (strcmp(was, is) != 0)
		return refuse(REFUSE_BUILD, 0,
			      "the program or library %.300s is another build, %.16s, not %.16s: put the old one back",
			      path, *is ? is : "(none)", was);
	return fit_size(path, json_integer_value(json_object_get(file, "bytes")), "the program or library");
}

enum vg_status fit_files(const json_t *description, const struct tenants *tenants)
{
	json_t *file;
	size_t i;

	json_array_foreach(json_object_get(description, "mapped_files"), i, file) {
		if (tenants_have_page(tenants, text_of(file, "path")))
			continue;
		enum vg_status status = fit_mapped(file);
		if (status)
			return status;
	}
	json_array_foreach(json_object_get(description, "open_files"), i, file) {
		enum vg_status status = fit_size(text_of(file, "path"),
						 json_integer_value(json_object_get(file, "bytes")), "the open file");
		if (status)
			return status;
	}
	return VG_OK;
}

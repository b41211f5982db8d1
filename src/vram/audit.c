// Appends records to the audit log while the file is locked: writes the record, then the head, which counts the
// records. If a writer is killed between the two, the log has one record more than the head counts. The next writer
// then adds that record to the head. If a writer is killed while it writes a record, the line is unfinished. The next
// writer removes the line, and records the removal.
#include "vram/audit_file.h"

#include "base/descriptor.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct vram_audit {
	pthread_mutex_t lock; // needed because flock() does not exclude threads that use the same descriptor
	int log, head;
	pid_t owner; // process that opened the log; a forked child shares its files and its flock()
	const struct vram_keys *keys;
	uint64_t seen; // number of records at the last check; the log must never have fewer
	char vgpu[64];
	char path[PATH_MAX];
};

// ---- errors ----------------------------------------------------------------------------------------------

static enum vg_status fail_file(int error, const char *path, const char *what)
{
	enum vg_status status = error == EACCES || error == EPERM || error == ELOOP ? VG_DENIED
				: error == ENOENT || error == ENOTDIR		    ? VG_NOT_FOUND
										    : VG_SYSTEM;

	return vg_fail(status, error, "audit log %s: cannot %s: %s", path, what,
		       error == ELOOP ? "it is a symbolic link" : strerror(error));
}

static enum vg_status fail_damaged(const struct vram_audit *audit, const char *how)
{
	return vg_fail(VG_INTEGRITY, 0, "audit log %s %s: nothing is added to it; virgate audit verify says more",
		       audit->path, how);
}

// ---- the end of the chain --------------------------------------------------------------------------------

// Checks that `fd` is still the file at `path`, because records written to a removed file would be lost.
static enum vg_status check_file(const struct vram_audit *audit, int fd, const char *path, uint64_t *ret_bytes)
{
	struct stat here, there;

	if (fstat(fd, &here) < 0)
		return fail_file(errno, path, "look at it");
	if (stat(path, &there) < 0 || here.st_ino != there.st_ino || here.st_dev != there.st_dev)
		return vg_fail(VG_SYSTEM, 0,
			       "audit log %s: %s was removed or replaced while it was open: open the context again",
			       audit->path, path);
	*ret_bytes = (uint64_t)here.st_size;
	return VG_OK;
}

static enum vg_status write_head(const struct vram_audit *audit, const struct audit_head *head)
{
	char text[AUDIT_HEAD];

	audit_head_make(text, head, audit->keys);
	ssize_t put = pwrite(audit->head, text, sizeof text, 0);
	if (put == (ssize_t)sizeof text)
		return VG_OK;
	return fail_file(put < 0 ? errno : ENOSPC, audit->path, "write its head");
}

static enum vg_status append_record(const struct vram_audit *audit, const struct vram_event *event,
				    struct audit_head *head)
{
	char line[AUDIT_LINE];
	struct audit_head next = *head;

	size_t length = audit_line_make(line, event, audit->vgpu, audit->keys, &next.chain);
	next.bytes += length;
	ssize_t put = write(audit->log, line, length);
	int error = put < 0 ? errno : ENOSPC;
	enum vg_status status =
		put == (ssize_t)length ? write_head(audit, &next) : fail_file(error, audit->path, "append a record");
	if (status) {
		// Remove the record, because the caller gets an error. If that fails, too, the next writer completes
		// the log: it adds a complete record to the head, and removes an unfinished one.
		if (ftruncate(audit->log, (off_t)head->bytes) < 0)
			vg_log(VG_LOG_WARNING, "audit log %s: cannot take an unfinished record off: %s", audit->path,
			       strerror(errno));
		return status;
	}
	*head = next;
	return VG_OK;
}

// Handles lines after the end that the head states, which a killed writer left. Adds complete records to the head, and
// removes an unfinished one.
static enum vg_status read_past_head(struct vram_audit *audit, struct audit_head *head, uint64_t bytes)
{
	char line[AUDIT_LINE], time[AUDIT_TIME];
	uint64_t number;

	while (head->bytes < bytes) {
		ssize_t got = vg_read_all(audit->log, line, sizeof line, (off_t)head->bytes);
		if (got < 0)
			return fail_file((int)-got, audit->path, "read it");
		const char *end = memchr(line, '\n', (size_t)got);
		if (!end && (got == sizeof line || head->bytes + (uint64_t)got != bytes))
			return fail_damaged(audit, "has a line that is no record");
		if (!end)
			break;
		if (audit_line_check(line, (size_t)(end - line), audit->keys, &head->chain, &number, time))
			return fail_damaged(audit,
					    "has a line behind what its head counts that is not the next record");
		head->bytes += (uint64_t)(end - line) + 1;
	}
	if (head->bytes == bytes)
		return VG_OK;
	if (ftruncate(audit->log, (off_t)head->bytes) < 0)
		return fail_file(errno, audit->path, "take an unfinished record off");
	return append_record(audit,
			     &(struct vram_event){.kind = VRAM_EVENT_RECOVERED,
						  .bytes = bytes - head->bytes,
						  .text = "an unfinished record was taken off the end"},
			     head);
}

// Finds the end of the last record, and the number and MAC of that record, which the next record needs. Call with the
// log locked.
static enum vg_status find_end(struct vram_audit *audit, struct audit_head *ret_head)
{
	char text[AUDIT_HEAD + 1], path[PATH_MAX];
	struct audit_head head = {0};
	uint64_t bytes, head_bytes;

	audit_head_path(audit->path, path);
	enum vg_status status = check_file(audit, audit->log, audit->path, &bytes);
	if (status == VG_OK)
		status = check_file(audit, audit->head, path, &head_bytes);
	if (status)
		return status;
	ssize_t got = vg_read_all(audit->head, text, sizeof text, 0);
	if (got < 0)
		return fail_file((int)-got, path, "read it");
	// It is not an error if both files are empty: this process has just created them.
	if ((got || bytes || audit->seen) && !audit_head_read(text, (size_t)got, audit->keys, &head))
		return fail_damaged(audit, got ? "has a head that was changed, or is of another key" : "has no head");
	if (head.bytes > bytes || head.chain.count < audit->seen)
		return fail_damaged(audit, "is shorter than it was");
	status = read_past_head(audit, &head, bytes);
	if (status == VG_OK)
		*ret_head = head;
	return status;
}

static enum vg_status check_owner(const struct vram_audit *audit)
{
	if (getpid() == audit->owner)
		return VG_OK;
	return vg_fail(VG_STATE, 0, "audit log %s: it was opened by the parent of this process: open one here",
		       audit->path);
}

static enum vg_status lock_log(struct vram_audit *audit)
{
	int r = audit_lock(audit->log, true);
	if (r == -ETIMEDOUT)
		return vg_fail(VG_BUSY, ETIMEDOUT,
			       "audit log %s: another process has held its lock for %d seconds: fuser %s names it",
			       audit->path, AUDIT_LOCK_MS / 1000, audit->path);
	return r ? fail_file(-r, audit->path, "lock it") : VG_OK;
}

// ---- appending -------------------------------------------------------------------------------------------

static bool is_synced(enum vram_event_kind kind)
{
	static const bool synced[] = {
#define X(name, text, sync) sync,
		VRAM_EVENT_LIST(X)
#undef X
	};

	return synced[kind];
}

static enum vg_status sync_files(const struct vram_audit *audit)
{
	if (fdatasync(audit->log) == 0 && fdatasync(audit->head) == 0)
		return VG_OK;
	return fail_file(errno, audit->path, "bring it to the disk");
}

enum vg_status vram_audit_sync(struct vram_audit *audit)
{
	return audit ? sync_files(audit) : VG_OK;
}

// Appends one record. Call with the log locked.
static enum vg_status append_locked(struct vram_audit *audit, const struct vram_event *event)
{
	struct audit_head head;

	enum vg_status status = find_end(audit, &head);
	if (status)
		return status;
	status = append_record(audit, event, &head);
	if (status)
		return status;
	audit->seen = head.chain.count;
	return is_synced(event->kind) ? sync_files(audit) : VG_OK;
}

enum vg_status vram_audit_append(struct vram_audit *audit, const struct vram_event *event)
{
	if (!audit)
		return VG_OK;
	// Check the owner before locking: in a forked child, the lock may stay locked for ever.
	enum vg_status status = check_owner(audit);
	if (status)
		return status;
	pthread_mutex_lock(&audit->lock);
	status = lock_log(audit);
	if (status == VG_OK) {
		status = append_locked(audit, event);
		flock(audit->log, LOCK_UN);
	}
	pthread_mutex_unlock(&audit->lock);
	return status;
}

void vram_audit_append_failure(struct vram_audit *audit, const struct vram_event *event)
{
	struct vg_kept_error kept;
	struct vram_event with_text = *event;

	if (!audit)
		return;
	vg_error_keep(&kept);
	if (!with_text.text)
		with_text.text = kept.text;
	if (vram_audit_append(audit, &with_text))
		vg_log(VG_LOG_ERROR, "a failed operation could not be recorded: %s", vg_last_error()->text);
	vg_error_restore(&kept);
}

// ---- open and close --------------------------------------------------------------------------------------

static enum vg_status open_file(const char *path, int flags, int *ret_fd)
{
	struct stat stat;

	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags, 0600);
	if (fd < 0)
		return fail_file(errno, path, "open it");
	if (fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode)) {
		close(fd);
		return vg_fail(VG_INVALID, 0, "audit log %s: not a regular file", path);
	}
	fd = vg_fd_raise_consume(fd);
	if (fd < 0)
		return fail_file(-fd, path, "open it");
	*ret_fd = fd;
	return VG_OK;
}

// Makes an absolute path, because the program may change its working directory.
static enum vg_status make_absolute(const char *path, char ret_path[PATH_MAX])
{
	char directory[PATH_MAX] = "";

	if (*path != '/' && !getcwd(directory, sizeof directory))
		return fail_file(errno, path, "find the working directory, to which it is relative");
	if (snprintf(ret_path, PATH_MAX, "%s%s%s", directory, *directory ? "/" : "", path) >= PATH_MAX)
		return vg_fail(VG_INVALID, 0, "audit_file is too long a path");
	return VG_OK;
}

static void destroy_audit(struct vram_audit *audit)
{
	vg_close_p(&audit->log);
	vg_close_p(&audit->head);
	pthread_mutex_destroy(&audit->lock);
	free(audit);
}

static enum vg_status open_files(struct vram_audit *audit, const char *path)
{
	char head_path[PATH_MAX];
	struct audit_head head;

	enum vg_status status = make_absolute(path, audit->path);
	if (status)
		return status;
	if (!audit_head_path(audit->path, head_path))
		return vg_fail(VG_INVALID, 0, "audit_file is too long a path");
	status = open_file(audit->path, O_APPEND, &audit->log);
	if (status)
		return status;
	status = lock_log(audit); // on failure, closing the file also unlocks it
	if (status)
		return status;
	status = open_file(head_path, 0, &audit->head);
	if (status)
		return status;
	status = find_end(audit, &head);
	if (status)
		return status;
	status = write_head(audit, &head);
	if (status)
		return status;
	status = sync_files(audit);
	if (status)
		return status;
	flock(audit->log, LOCK_UN);
	audit->seen = head.chain.count;
	return VG_OK;
}

enum vg_status vram_audit_open(const char *path, const struct vram_keys *keys, const char *vgpu,
			       struct vram_audit **ret_audit)
{
	if (!*path)
		return vg_fail(VG_INVALID, 0, "audit_file is empty");
	struct vram_audit *audit = calloc(1, sizeof *audit);
	if (!audit)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an audit log");
	*audit = (struct vram_audit){.log = -1, .head = -1, .owner = getpid(), .keys = keys};
	pthread_mutex_init(&audit->lock, NULL);
	strncpy(audit->vgpu, vgpu, sizeof audit->vgpu - 1);
	enum vg_status status = open_files(audit, path);
	if (status)
		destroy_audit(audit);
	else
		*ret_audit = audit;
	return status;
}

void vram_audit_close(struct vram_audit *audit)
{
	struct vg_kept_error kept;

	if (!audit)
		return;
	vg_error_keep(&kept);
	if (sync_files(audit))
		vg_log(VG_LOG_ERROR, "%s", vg_last_error()->text);
	vg_error_restore(&kept);
	destroy_audit(audit);
}

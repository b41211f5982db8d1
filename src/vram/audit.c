// Appending to the audit log: under a lock of the file, the record first, then the head. A writer that is killed
// between the two leaves one record more than the head counts, and the next writer takes it in; one that is killed in
// the middle of a record leaves an unfinished line, which the next writer takes off and says so in a record.
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
	pthread_mutex_t lock; // flock() does not keep threads apart
	int log, head;
	pid_t owner; // a child shares the descriptors, and with them the lock
	const struct vram_keys *keys;
	uint64_t seen; // records: the log never has fewer
	char vgpu[64];
	char path[PATH_MAX];
};

// ---- errors ----------------------------------------------------------------------------------------------

static enum vg_status file_failed(int error, const char *path, const char *what)
{
	enum vg_status status = error == EACCES || error == EPERM || error == ELOOP ? VG_DENIED
				: error == ENOENT || error == ENOTDIR		    ? VG_NOT_FOUND
										    : VG_SYSTEM;

	return vg_fail(status, error, "audit log %s: cannot %s: %s", path, what,
		       error == ELOOP ? "it is a symbolic link" : strerror(error));
}

static enum vg_status damaged(const struct vram_audit *audit, const char *how)
{
	return vg_fail(VG_INTEGRITY, 0, "audit log %s %s: nothing is added to it; virgate audit verify says more",
		       audit->path, how);
}

// ---- where the chain stands ------------------------------------------------------------------------------

// Still the file of that name: what is written to a file that was removed is lost.
static enum vg_status check_place(const struct vram_audit *audit, int fd, const char *path, uint64_t *ret_bytes)
{
	struct stat here, there;

	if (fstat(fd, &here) < 0)
		return file_failed(errno, path, "look at it");
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
	return file_failed(put < 0 ? errno : ENOSPC, audit->path, "write its head");
}

static enum vg_status append(const struct vram_audit *audit, const struct vram_event *event, struct audit_head *head)
{
	char line[AUDIT_LINE];
	struct audit_head next = *head;

	size_t length = audit_line_make(line, event, audit->vgpu, audit->keys, &next.chain);
	next.bytes += length;
	ssize_t put = write(audit->log, line, length);
	int error = put < 0 ? errno : ENOSPC;
	enum vg_status status =
		put == (ssize_t)length ? write_head(audit, &next) : file_failed(error, audit->path, "append a record");
	if (status) {
		// A record that is not told of is none. Should that fail too, the next writer finds what is there.
		if (ftruncate(audit->log, (off_t)head->bytes) < 0)
			vg_log(VG_LOG_WARNING, "audit log %s: cannot take an unfinished record off: %s", audit->path,
			       strerror(errno));
		return status;
	}
	*head = next;
	return VG_OK;
}

// Takes in what a killed writer left behind the head: whole records are the log's; an unfinished one is taken off.
static enum vg_status catch_up(struct vram_audit *audit, struct audit_head *head, uint64_t bytes)
{
	char line[AUDIT_LINE], time[AUDIT_TIME];
	uint64_t number;

	while (head->bytes < bytes) {
		ssize_t got = vg_read_all(audit->log, line, sizeof line, (off_t)head->bytes);
		if (got < 0)
			return file_failed((int)-got, audit->path, "read it");
		const char *end = memchr(line, '\n', (size_t)got);
		if (!end && (got == sizeof line || head->bytes + (uint64_t)got != bytes))
			return damaged(audit, "has a line that is no record");
		if (!end)
			break;
		if (audit_line_check(line, (size_t)(end - line), audit->keys, &head->chain, &number, time))
			return damaged(audit, "has a line behind what its head counts that is not the next record");
		head->bytes += (uint64_t)(end - line) + 1;
	}
	if (head->bytes == bytes)
		return VG_OK;
	if (ftruncate(audit->log, (off_t)head->bytes) < 0)
		return file_failed(errno, audit->path, "take an unfinished record off");
	return append(audit,
		      &(struct vram_event){.kind = VRAM_EVENT_RECOVERED,
					   .bytes = bytes - head->bytes,
					   .text = "an unfinished record was taken off the end"},
		      head);
}

// With the lock held.
static enum vg_status find_end(struct vram_audit *audit, struct audit_head *ret_head)
{
	char text[AUDIT_HEAD + 1], path[PATH_MAX];
	struct audit_head head = {0};
	uint64_t bytes, head_bytes;

	audit_head_path(audit->path, path);
	enum vg_status status = check_place(audit, audit->log, audit->path, &bytes);
	if (status == VG_OK)
		status = check_place(audit, audit->head, path, &head_bytes);
	if (status)
		return status;
	ssize_t got = vg_read_all(audit->head, text, sizeof text, 0);
	if (got < 0)
		return file_failed((int)-got, path, "read it");
	// Both files may just have been made.
	if ((got || bytes || audit->seen) && !audit_head_read(text, (size_t)got, audit->keys, &head))
		return damaged(audit, got ? "has a head that was changed, or is of another key" : "has no head");
	if (head.bytes > bytes || head.chain.count < audit->seen)
		return damaged(audit, "is shorter than it was");
	status = catch_up(audit, &head, bytes);
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

static enum vg_status lock(struct vram_audit *audit)
{
	int r = audit_lock(audit->log, true);
	if (r == -ETIMEDOUT)
		return vg_fail(VG_BUSY, ETIMEDOUT,
			       "audit log %s: another process has held its lock for %d seconds: fuser %s names it",
			       audit->path, AUDIT_LOCK_MS / 1000, audit->path);
	return r ? file_failed(-r, audit->path, "lock it") : VG_OK;
}

// ---- what others call ------------------------------------------------------------------------------------

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
	return file_failed(errno, audit->path, "bring it to the disk");
}

enum vg_status vram_audit_sync(struct vram_audit *audit)
{
	return audit ? sync_files(audit) : VG_OK;
}

enum vg_status vram_audit(struct vram_audit *audit, const struct vram_event *event)
{
	struct audit_head head;

	if (!audit)
		return VG_OK;
	enum vg_status status = check_owner(audit); // before its lock, which may never be given here
	if (status)
		return status;
	pthread_mutex_lock(&audit->lock);
	status = lock(audit);
	if (status == VG_OK) {
		status = find_end(audit, &head);
		if (status == VG_OK)
			status = append(audit, event, &head);
		if (status == VG_OK)
			audit->seen = head.chain.count;
		if (status == VG_OK && is_synced(event->kind))
			status = sync_files(audit);
		flock(audit->log, LOCK_UN);
	}
	pthread_mutex_unlock(&audit->lock);
	return status;
}

void vram_audit_failure(struct vram_audit *audit, const struct vram_event *event)
{
	struct vg_kept_error kept;
	struct vram_event with_text = *event;

	if (!audit)
		return;
	vg_error_keep(&kept);
	if (!with_text.text)
		with_text.text = kept.text;
	if (vram_audit(audit, &with_text))
		vg_log(VG_LOG_ERROR, "what failed could not be recorded: %s", vg_last_error()->text);
	vg_error_restore(&kept);
}

// ---- open and close --------------------------------------------------------------------------------------

static enum vg_status open_file(const char *path, int flags, int *ret_fd)
{
	struct stat stat;

	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags, 0600);
	if (fd < 0)
		return file_failed(errno, path, "open it");
	if (fstat(fd, &stat) < 0 || !S_ISREG(stat.st_mode)) {
		close(fd);
		return vg_fail(VG_INVALID, 0, "audit log %s: not a regular file", path);
	}
	fd = vg_fd_raise_consume(fd);
	if (fd < 0)
		return file_failed(-fd, path, "open it");
	*ret_fd = fd;
	return VG_OK;
}

// The program may change its folder while the log is open.
static enum vg_status make_absolute(const char *path, char ret_path[PATH_MAX])
{
	char folder[PATH_MAX] = "";

	if (*path != '/' && !getcwd(folder, sizeof folder))
		return file_failed(errno, path, "find the working directory, to which it is relative");
	if (snprintf(ret_path, PATH_MAX, "%s%s%s", folder, *folder ? "/" : "", path) >= PATH_MAX)
		return vg_fail(VG_INVALID, 0, "audit_file is too long a path");
	return VG_OK;
}

static void destroy(struct vram_audit *audit)
{
	vg_close_p(&audit->log);
	vg_close_p(&audit->head);
	pthread_mutex_destroy(&audit->lock);
	free(audit);
}

enum vg_status vram_audit_open(const char *path, const struct vram_keys *keys, const char *vgpu,
			       struct vram_audit **ret_audit)
{
	char head_path[PATH_MAX];
	struct audit_head head;

	if (!*path)
		return vg_fail(VG_INVALID, 0, "audit_file is empty");
	struct vram_audit *audit = calloc(1, sizeof *audit);
	if (!audit)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for an audit log");
	*audit = (struct vram_audit){.log = -1, .head = -1, .owner = getpid(), .keys = keys};
	pthread_mutex_init(&audit->lock, NULL);
	strncpy(audit->vgpu, vgpu, sizeof audit->vgpu - 1);
	enum vg_status status = make_absolute(path, audit->path);
	if (status == VG_OK && !audit_head_path(audit->path, head_path))
		status = vg_fail(VG_INVALID, 0, "audit_file is too long a path");
	if (status == VG_OK)
		status = open_file(audit->path, O_APPEND, &audit->log);
	if (status == VG_OK)
		status = lock(audit);
	if (status == VG_OK)
		status = open_file(head_path, 0, &audit->head);
	if (status == VG_OK)
		status = find_end(audit, &head);
	if (status == VG_OK)
		status = write_head(audit, &head);
	if (status == VG_OK)
		status = sync_files(audit);
	if (status) {
		destroy(audit);
		return status;
	}
	flock(audit->log, LOCK_UN);
	audit->seen = head.chain.count;
	*ret_audit = audit;
	return VG_OK;
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
	destroy(audit);
}

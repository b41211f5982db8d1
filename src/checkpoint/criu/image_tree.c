#include "checkpoint/criu/image_tree.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/criu/capture.h"
#include "checkpoint/criu/serve.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/files.h"
#include "checkpoint/image/locked_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// A short path for CRIU's socket: the path of the image may be too long for a socket's address.
#define MEETING "/tmp/virgate-stream.XXXXXX"

static enum vg_status fail_system(int error, const char *path)
{
	return vg_fail(VG_SYSTEM, error, "%s: %s", path, strerror(error));
}

// Adds a file to the draft. CRIU has written this file into the directory, and has not sent it through its stream.
static int take_in(int directory, const char *name, void *user)
{
	struct stat info;
	int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ENXIO ? 0 : -errno; // ENXIO: the entry is CRIU's socket
	if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode))
		capture_file(user, name, fd);
	else
		close(fd);
	return 0;
}

static bool is_of_meeting(const char *name)
{
	size_t length = strlen(name);

	return strncmp(name, "streamer-", 9) == 0 || (length > 4 && strcmp(name + length - 4, ".img") == 0);
}

static int make_meeting(char *ret_path, int *ret_lock)
{
	locked_directory_sweep(ret_path, is_of_meeting, 1);
	return locked_directory_make(ret_path, ret_lock);
}

// Chooses between two failures. An error of the stream is the reason why CRIU failed, so it takes precedence over
// CRIU's error.
static enum vg_status choose_error(enum vg_status criu, enum vg_status stream, const struct vg_kept_error *kept)
{
	if (stream == VG_OK && criu)
		vg_error_restore(kept);
	return stream ? stream : criu;
}

static enum vg_status capture_dump(struct image_draft *draft, unsigned tree, const struct criu *criu,
				   const struct criu_work *work, int meeting, pid_t root)
{
	struct vg_kept_error kept;
	struct capture *capture;
	char name[IMAGE_NAME];

	enum vg_status status = capture_begin(draft, tree, work->directory, &capture);
	if (status)
		return status;
	status = criu_dump(criu, work, root);
	int r = status ? 0 : image_for_directory(meeting, "", take_in, capture, name);
	if (r)
		status = fail_system(-r, work->directory);
	vg_error_keep(&kept);
	return choose_error(status, capture_end(capture), &kept);
}

enum vg_status image_dump_tree(struct image_draft *draft, unsigned tree, const struct criu *criu,
			       const struct criu_work *work, pid_t root)
{
	char name[32], meeting[] = MEETING;
	struct criu_work here = *work;
	_cleanup_close_ int lock = -1;

	snprintf(name, sizeof name, "tree-%u", tree);
	if (mkdirat(draft->lock, name, 0700) < 0)
		return vg_fail(VG_SYSTEM, errno, "%s/%s: %s", draft->directory, name, strerror(errno));
	draft->trees = tree + 1 > draft->trees ? tree + 1 : draft->trees;
	int r = make_meeting(meeting, &lock);
	if (r)
		return fail_system(-r, meeting);
	here.directory = meeting;
	here.stream = true;
	enum vg_status status = capture_dump(draft, tree, criu, &here, lock, root);
	locked_directory_remove(meeting, is_of_meeting);
	return status;
}

static enum vg_status serve_restore(const struct image_files *files, const struct image_dir *dir, unsigned tree,
				    const struct criu *criu, const struct criu_work *work, _Atomic uint64_t *progress,
				    bool *ret_made)
{
	struct vg_kept_error kept;
	struct serve *server;

	enum vg_status status = serve_begin(files, dir, tree, work, progress, &server);
	if (status)
		return status;
	status = criu_restore(criu, work);
	*ret_made = status == VG_OK;
	vg_error_keep(&kept);
	return choose_error(status, serve_end(server), &kept);
}

enum vg_status image_restore_tree(const struct image_dir *dir, const json_t *description, unsigned tree,
				  const struct criu *criu, const struct criu_work *work, _Atomic uint64_t *progress,
				  bool *ret_made)
{
	struct criu_work here = *work;
	char meeting[] = MEETING;
	_cleanup_close_ int lock = -1;
	struct image_files files;

	*ret_made = false;
	enum vg_status status = image_files_read(description, dir->path, &files);
	if (status)
		return status;
	int r = make_meeting(meeting, &lock);
	here.directory = meeting;
	here.stream = true;
	status = r ? fail_system(-r, meeting) : serve_restore(&files, dir, tree, criu, &here, progress, ret_made);
	if (r == 0)
		locked_directory_remove(meeting, is_of_meeting);
	image_files_free(&files);
	return status;
}

// Tests images as streams. Whatever the stream contains, the image on the receiver must be complete or absent.
#include <glob.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "checkpoint/image/text.h"
#include "checkpoint/move/frame.h"
#include "checkpoint/move/stream.h"
#include "checkpoint/move/writer.h"
#include "checkpoint_test.h"
#include "virgate/checkpoint.h"
#include "virgate/image.h"

static void check_status(enum vg_status status, enum vg_status wanted, const char *what)
{
	if (status != wanted)
		FAIL("%s: \"%s\", not \"%s\": %s", what, vg_status_text(status), vg_status_text(wanted),
		     status ? vg_last_error()->text : "");
}
#define CHECK_STATUS(call, wanted) check_status(call, wanted, #call)

// Returns an image of an idle process.
static const char *image(void)
{
	static char path[PATH_MAX];

	if (*path)
		return path;
	setenv("VIRGATE_CRIU", STANDIN_PROGRAM, 1);
	snprintf(path, sizeof path, "%s", path_of("image"));
	fflush(stdout);
	pid_t idle = fork();
	if (idle == 0) {
		pause();
		_exit(0);
	}
	CHECK_RUN("dump --pid %d --dir %s --cpu-only", (int)idle, path);
	waitpid(idle, NULL, 0);
	return path;
}

// Returns the whole stream of the image, in memory.
static const char *stream(size_t *ret_length)
{
	static char *bytes;
	static size_t length;

	if (!bytes) {
		int fd = memfd_create("stream", MFD_CLOEXEC);
		CHECK(fd >= 0);
		CHECK_STATUS(vg_checkpoint_send(image(), fd), VG_OK);
		length = (size_t)lseek(fd, 0, SEEK_CUR);
		bytes = malloc(length);
		CHECK_INT(pread(fd, bytes, length, 0), (ssize_t)length);
		close(fd);
	}
	*ret_length = length;
	return bytes;
}

static int file_of(const void *bytes, size_t length)
{
	int fd = memfd_create("stream", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_INT(write(fd, bytes, length), (ssize_t)length);
	CHECK_INT(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static bool nothing_is_left(const char *name)
{
	char parts[PATH_MAX + 16];
	glob_t found = {0};

	snprintf(parts, sizeof parts, "%s.part-*", path_of(name));
	bool nothing = glob(parts, 0, NULL, &found) == GLOB_NOMATCH && access(path_of(name), F_OK) < 0;
	globfree(&found);
	return nothing;
}

static enum vg_status receive(const void *bytes, size_t length, const char *name)
{
	_cleanup_close_ int fd = file_of(bytes, length);

	return vg_checkpoint_receive(fd, path_of(name));
}

// Checks that a refused stream leaves nothing. Returns the status.
static enum vg_status refused(const void *bytes, size_t length)
{
	enum vg_status status = receive(bytes, length, "refused");

	CHECK(status != VG_OK);
	CHECK(nothing_is_left("refused"));
	return status;
}

static bool same_directories(const char *one, const char *other)
{
	char command[3 * PATH_MAX];

	snprintf(command, sizeof command, "diff -r %s %s", one, other);
	return system(command) == 0;
}

TEST(an_image_arrives_as_it_was_sent)
{
	int ends[2];
	struct stat info;

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	image();
	fflush(stdout);
	pid_t sender = fork();
	if (sender == 0) {
		close(ends[0]);
		_exit(vg_checkpoint_send(image(), ends[1]) != VG_OK);
	}
	close(ends[1]);
	CHECK_STATUS(vg_checkpoint_receive(ends[0], path_of("arrived")), VG_OK);
	close(ends[0]);
	CHECK_CHILD(sender);
	CHECK(same_directories(image(), path_of("arrived")));
	CHECK_INT(stat(path_of("arrived"), &info), 0);
	CHECK_INT(info.st_mode & 0777, 0700);
	CHECK_INT(stat(path_of("arrived/virgate.json"), &info), 0);
	CHECK_INT(info.st_mode & 0777, 0600);
	// A receiver must not overwrite existing files.
	size_t length;
	const char *bytes = stream(&length);
	CHECK_STATUS(receive(bytes, length, "arrived"), VG_EXISTS);
	CHECK(same_directories(image(), path_of("arrived")));
}

TEST(a_received_image_cannot_have_the_name_of_a_draft)
{
	size_t length;
	const char *bytes = stream(&length);

	CHECK_STATUS(receive(bytes, length, "x.part-000001"), VG_INVALID);
	CHECK_CONTAINS(vg_last_error()->text, "name another directory");
	CHECK(access(path_of("x.part-000001"), F_OK) < 0);
}

TEST(holes_are_not_sent)
{
	struct stat info;
	char name[PATH_MAX + 32];

	// All pages that the stand-in for CRIU (criu_standin.sh) writes are zeros.
	snprintf(name, sizeof name, "%s/tree-0/pages-1.img", image());
	_cleanup_close_ int fd = open(name, O_RDWR | O_CLOEXEC), out = memfd_create("stream", MFD_CLOEXEC);
	CHECK_INT(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 81920), 0);
	CHECK_STATUS(vg_checkpoint_send(image(), out), VG_OK);
	CHECK(lseek(out, 0, SEEK_CUR) < 60000);
	CHECK_INT(lseek(out, 0, SEEK_SET), 0);
	CHECK_STATUS(vg_checkpoint_receive(out, path_of("holes")), VG_OK);
	CHECK(same_directories(image(), path_of("holes")));
	CHECK_INT(stat(path_of("holes/tree-0/pages-1.img"), &info), 0);
	CHECK(info.st_size > 90000 && info.st_blocks * 512 < 60000);
}

TEST(a_cut_stream_leaves_no_image)
{
	size_t length;
	const char *bytes = stream(&length);

	for (size_t cut = 0; cut < length; cut += cut < 512 || length - cut < 64 ? 1 : length / 64)
		CHECK_STATUS(refused(bytes, cut), VG_SYSTEM);
	CHECK_STATUS(receive(bytes, length, "uncut"), VG_OK);
}

TEST(a_damaged_byte_is_found)
{
	size_t length;
	const char *bytes = stream(&length);
	char *copy = malloc(length);

	// Skips the description of the sender's machine in the header. It has no checksum, and this receiver ignores
	// it.
	for (size_t at = 0; at < length; at += at < 8 || at > 64 ? 1 + length / 400 : 1) {
		if (at >= 12 && at < 64)
			continue;
		memcpy(copy, bytes, length);
		copy[at] ^= 0x10;
		enum vg_status status = refused(copy, length);
		CHECK(status == VG_INTEGRITY || status == VG_PROTOCOL || status == VG_UNSUPPORTED ||
		      status == VG_SYSTEM);
	}
	free(copy);
}

TEST(bytes_after_the_end_are_refused)
{
	size_t length;
	const char *bytes = stream(&length);
	char *more = calloc(1, length + 1);

	memcpy(more, bytes, length);
	CHECK_STATUS(refused(more, length + 1), VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "behind its end");
	free(more);
}

TEST(garbage_is_refused)
{
	char garbage[4096];

	for (size_t i = 0; i < sizeof garbage; i++)
		garbage[i] = (char)(i * 37 + i / 256);
	CHECK_STATUS(refused(garbage, sizeof garbage), VG_PROTOCOL);
	CHECK_STATUS(refused("", 0), VG_SYSTEM);
	CHECK_STATUS(vg_checkpoint_receive(-1, path_of("refused")), VG_INVALID);
	CHECK_STATUS(vg_checkpoint_receive(1000, path_of("refused")), VG_INVALID);
	CHECK_STATUS(vg_checkpoint_send(image(), -1), VG_INVALID);
	CHECK_STATUS(vg_checkpoint_send(path_of("none"), 1), VG_NOT_FOUND);
}

// ---- valid frames with invalid contents ----------------------

static struct frames out;

static void begin(void)
{
	out = (struct frames){.in = -1, .out = memfd_create("stream", MFD_CLOEXEC)};
	CHECK(out.out >= 0);
	CHECK_STATUS(stream_begin(&out, false, false), VG_OK);
}

static void say(enum frame_type type, const void *payload, size_t bytes)
{
	CHECK_STATUS(frame_write(&out, type, payload, bytes, NULL, 0), VG_OK);
}

static void describe(void)
{
	static char text[1 << 16];
	char name[PATH_MAX + 32];

	snprintf(name, sizeof name, "%s/virgate.json", image());
	ssize_t length = vg_file_read(name, text, sizeof text);
	CHECK(length > 0);
	say(FRAME_DESCRIPTION, text, (size_t)length);
	say(FRAME_DESCRIPTION, "", 0);
}

static void data(uint64_t offset, size_t bytes)
{
	static char payload[1 << 18];

	memcpy(payload, &offset, sizeof offset);
	say(FRAME_DATA, payload, sizeof offset + bytes);
}

static void file(const char *name)
{
	say(FRAME_FILE, name, strlen(name));
}

static void end(uint64_t count)
{
	say(FRAME_END, &count, sizeof count);
}

static void refuse_it(const char *why)
{
	lseek(out.out, 0, SEEK_SET);
	enum vg_status status = vg_checkpoint_receive(out.out, path_of("refused"));
	close(out.out);
	if (status != VG_INTEGRITY || !strstr(vg_last_error()->text, why))
		FAIL("wanted \"%s\", got %s: %s", why, vg_status_text(status), vg_last_error()->text);
	CHECK(nothing_is_left("refused"));
}

TEST(a_stream_in_disorder_is_refused)
{
	begin(), end(0);
	refuse_it("no description");
	begin(), say(FRAME_DESCRIPTION, "{}", 2), say(FRAME_DESCRIPTION, "", 0);
	refuse_it("");
	begin(), describe(), data(0, 10);
	refuse_it("data of no file");
	begin(), describe(), file("tree-0/pages-1.img"), say(FRAME_DATA, "1234567", 7);
	refuse_it("data of no file");
	begin(), describe(), file("tree-0/pages-1.img"), data(0, 0);
	refuse_it("data of no file");
	begin(), describe(), file("tree-0/pages-1.img"), data(UINT64_MAX - 3, 8);
	refuse_it("where the file has none");
	begin(), describe(), file("tree-0/pages-1.img"), data(1 << 30, 8);
	refuse_it("where the file has none");
	begin(), describe(), file("tree-0/pages-1.img"), data(100, 100), data(199, 8);
	refuse_it("where the file has none");
	begin(), describe(), file("tree-0/pages-1.img"), file("tree-0/pages-1.img");
	refuse_it("came before");
	begin(), describe(), end(0);
	refuse_it("files came in");
	begin(), describe(), say(FRAME_END, "", 0);
	refuse_it("no end");
	begin(), describe(), say(FRAME_GO, "", 0);
	refuse_it("does not belong there");
	begin(), describe(), say(FRAME_DESCRIPTION, "", 0);
	refuse_it("does not belong there");
	begin(), describe(), say((enum frame_type)77, "", 0);
	refuse_it("does not belong there");
}

// Writes a description whose list of files lacks one of them.
static void describe_without(const char *name)
{
	char path[PATH_MAX + 32];
	json_t *file;
	size_t i;

	snprintf(path, sizeof path, "%s/virgate.json", image());
	json_t *description = json_load_file(path, 0, NULL), *files = json_object_get(description, "files");
	CHECK(files != NULL);
	json_object_del(description, "xxh3");
	json_array_foreach(files, i, file)
		if (strcmp(json_string_value(json_object_get(file, "name")), name) == 0)
			break;
	CHECK_INT(json_array_remove(files, i), 0);
	char *text = image_text_seal(description);
	CHECK(text != NULL);
	say(FRAME_DESCRIPTION, text, strlen(text));
	say(FRAME_DESCRIPTION, "", 0);
	free(text);
	json_decref(description);
}

// All files arrive unchanged, but one that CRIU needs for a restore is missing. So the sender must not end its
// processes.
TEST(an_image_that_lacks_what_criu_needs_is_refused)
{
	begin(), describe_without("tree-0/inventory.img");
	file("tree-0/pages-1.img");
	char core[64], text[64] = {0};
	uint64_t count = 1;
	static const char *const names[] = {"core-*.img", "pstree.img"};
	for (size_t i = 0; i < 2; i++) {
		glob_t found = {0};
		char pattern[PATH_MAX + 64];
		snprintf(pattern, sizeof pattern, "%s/tree-0/%s", image(), names[i]);
		CHECK_INT(glob(pattern, 0, NULL, &found), 0);
		snprintf(core, sizeof core, "%s", found.gl_pathv[0] + strlen(image()) + 1);
		ssize_t length = vg_file_read(found.gl_pathv[0], text + sizeof count, sizeof text - sizeof count);
		CHECK(length > 0);
		file(core), say(FRAME_DATA, text, sizeof count + (size_t)length);
		globfree(&found);
		count++;
	}
	end(count);
	refuse_it("tree-0/inventory.img");
}

TEST(names_that_lead_elsewhere_are_refused)
{
	static const char *const names[] = {
		"../out",  "/tmp/out",		 "tree-0/../../out",	 "tree-0",	    "", "virgate.json",
		"tree-0/", "tree-1/pages-1.img", "tree-0/pages-1.img/x", "tree-0/other.img"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		begin(), describe(), file(names[i]);
		refuse_it("does not have");
	}
	begin(), describe(), say(FRAME_FILE, "tree-0/pages-1.img\0x", 20);
	refuse_it("no name of a file");
}

TEST(a_closed_reader_ends_the_sending)
{
	int ends[2];

	CHECK_INT(pipe2(ends, O_CLOEXEC), 0);
	close(ends[0]);
	CHECK_STATUS(vg_checkpoint_send(image(), ends[1]), VG_SYSTEM);
	CHECK_CONTAINS(vg_last_error()->text, "closed the connection");
	close(ends[1]);
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	close(ends[0]);
	CHECK_STATUS(vg_checkpoint_send(image(), ends[1]), VG_SYSTEM);
	close(ends[1]);
}

// ---- the writer ------------------------------------------------------------------------------------------

TEST(a_writer_writes_more_than_it_can_keep)
{
	enum { BYTES = 4096, COUNT = 100 };
	unsigned char *buffer = malloc(BYTES), there[BYTES];
	int fd = open(path_of("written"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct writer *writer;

	CHECK_INT(writer_start(BYTES, &writer), 0);
	for (int i = 0; i < COUNT; i++) {
		memset(buffer, i, BYTES);
		CHECK_INT(writer_put(writer, fd, &buffer, 8, BYTES - 8, (off_t)i * (BYTES - 8)), 0);
	}
	CHECK_INT(writer_flush(writer), 0);
	writer_end(writer);
	for (int i = 0; i < COUNT; i++) {
		CHECK_INT(pread(fd, there, BYTES - 8, (off_t)i * (BYTES - 8)), BYTES - 8);
		CHECK(there[0] == i && there[BYTES - 9] == i);
	}
	free(buffer);
	close(fd);
}

TEST(a_writer_reports_a_full_disk)
{
	unsigned char *buffer = malloc(64), *before;
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct writer *writer;

	CHECK_INT(writer_start(64, &writer), 0);
	CHECK_INT(writer_put(writer, full, &buffer, 0, 64, 0), 0);
	CHECK_INT(writer_flush(writer), -ENOSPC);
	before = buffer;
	CHECK_INT(writer_put(writer, full, &buffer, 0, 64, 64), -ENOSPC);
	CHECK(buffer == before);
	CHECK_INT(writer_flush(writer), -ENOSPC);
	writer_end(writer);
	free(buffer);
	close(full);
}

// Tests packs that are transferred before their image: what the receiver verifies and when, and how much room it gives
// them.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "checkpoint/image/directory.h"
#include "checkpoint/move/prefill.h"
#include "checkpoint/move/stream.h"
#include "checkpoint/precopy.h"
#include "packs_test.h"
#include "pager/host_file.h"

enum { MOST_ROUNDS = 3 };

// What the sender sends: the packs of an image in each precopy round, and then an image.
struct sending {
	// The image that is sent after the rounds; NULL: that of the last round.
	const char *rounds[MOST_ROUNDS], *image;
	// The size in bytes of a second device memory, which has only zeros. The index that is sent in each round also
	// describes this memory. 0: there is no second memory.
	uint64_t empty_bytes;
};

// ---- the sender ------------------------------------------------------------------------------------------

static void send_index(struct frames *frames, const struct sending *sending, const struct device_index *index,
		       const uint32_t *numbers, size_t pack_count)
{
	struct device_memory memories[2] = {index->memories[0], {.pid = 1, .bytes = sending->empty_bytes}};
	size_t count = index->block_count + sending->empty_bytes / BLOCK, length;
	struct device_block *blocks = calloc(count, sizeof *blocks);
	struct device_index all = {memories, sending->empty_bytes ? 2 : 1, blocks, count, (unsigned)pack_count};

	memcpy(blocks, index->blocks, index->block_count * sizeof *blocks);
	for (size_t i = 0; i < index->block_count; i++)
		if (blocks[i].codec != DEVICE_ZERO)
			blocks[i].pack = numbers[blocks[i].pack];
	void *data = device_index_encode(&all, &length);
	stream_send_index(frames, data, length);
	free(data);
	free(blocks);
}

static void send_round(struct frames *frames, const struct sending *sending, const struct image_dir *dir,
		       struct packs *packs)
{
	struct device_index index = {0};
	struct image_files files = {0};
	json_t *text = NULL;
	uint32_t numbers[8];
	uint64_t bytes;

	CHECK_INT(inspect_read(dir, &text, &files), VG_OK);
	CHECK_INT(device_index_read(dir, &files, &index), VG_OK);
	CHECK(index.pack_count <= 8);
	for (unsigned i = 0; i < index.pack_count; i++)
		stream_send_pack(frames, packs, open(pack_of(dir->path, i), O_RDONLY | O_CLOEXEC), &numbers[i], &bytes);
	send_index(frames, sending, &index, numbers, packs->count);
	device_index_free(&index);
	image_files_free(&files);
	json_decref(text);
}

static void play(struct frames *frames, const struct sending *sending)
{
	struct image_dir dir = {.fd = -1};
	struct packs packs = {0};

	for (int i = 0; i < MOST_ROUNDS && sending->rounds[i]; i++) {
		image_close(&dir);
		CHECK_INT(image_open(sending->rounds[i], &dir), VG_OK);
		send_round(frames, sending, &dir, &packs);
	}
	stream_end_packs(frames);
	if (sending->image) {
		image_close(&dir);
		CHECK_INT(image_open(sending->image, &dir), VG_OK);
	}
	frames->packs = &packs;
	stream_send(frames, &dir, true);
}

static pid_t start_sender(const struct sending *sending, int *ret_fd)
{
	int ends[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct frames out = {.in = -1, .out = ends[1]};
		close(ends[0]);
		play(&out, sending);
		_exit(0);
	}
	close(ends[1]);
	*ret_fd = ends[0];
	return pid;
}

// ---- the receiver ----------------------------------------------------------------------------------------

static const char *arrived = "arrived"; // the name of the received image

struct receiving {
	struct image_draft store, draft;
	struct packs packs;
	struct prefill prefill;
	struct frames frames;
	pid_t sender;
	// `packs_status`: the result of receiving the packs; `status`: the result of receiving the image.
	enum vg_status packs_status, status;
};

static void begin_receiving(struct receiving *receiving, const struct sending *sending, bool fills)
{
	char path[PATH_MAX];
	int fd;

	*receiving = (struct receiving){.sender = start_sender(sending, &fd)};
	receiving->frames = (struct frames){.in = fd, .out = -1, .packs = &receiving->packs};
	receiving->prefill = (struct prefill){.packs = &receiving->packs};
	receiving->packs.store = &receiving->store;
	receiving->packs.round = fills ? prefill_round : NULL;
	receiving->packs.user = &receiving->prefill;
	snprintf(path, sizeof path, "%s.precopy", path_of(arrived));
	CHECK_INT(image_begin(path, &receiving->store), VG_OK);
	receiving->packs_status = stream_receive_packs(&receiving->frames, &receiving->packs);
}

static void receive_image(struct receiving *receiving)
{
	json_t *text = NULL;

	CHECK_INT(image_begin(path_of(arrived), &receiving->draft), VG_OK);
	receiving->status = receiving->packs_status;
	if (receiving->status == VG_OK)
		receiving->status = stream_receive(&receiving->frames, &receiving->draft, &text);
	json_decref(text);
}

static void end_receiving(struct receiving *receiving)
{
	kill(receiving->sender, SIGKILL);
	waitpid(receiving->sender, NULL, 0);
	prefill_finish(&receiving->prefill);
	packs_finish(&receiving->packs);
	image_finish(&receiving->store);
	image_finish(&receiving->draft);
	close(receiving->frames.in);
	frames_finish(&receiving->frames);
}

static void check_received(const struct sending *sending, bool fills, enum vg_status packs_status,
			   enum vg_status status)
{
	struct receiving receiving;

	begin_receiving(&receiving, sending, fills);
	receive_image(&receiving);
	if (receiving.packs_status != packs_status || receiving.status != status)
		FAIL("%d and %d, not %d and %d: %s", receiving.packs_status, receiving.status, packs_status, status,
		     vg_last_error()->text);
	end_receiving(&receiving);
}

static void make_image(char path[PATH_MAX], const char *name, const unsigned *kinds, size_t count)
{
	snprintf(path, PATH_MAX, "%s", path_of(name));
	must_make(path, kinds, count, NULL, VG_COMPRESSION_NONE, NULL);
}

// Returns a number of bytes for which the receiver has no room.
static uint64_t too_many_bytes(void)
{
	struct statvfs info;

	CHECK_INT(statvfs(PAGER_FILE_DIRECTORY, &info), 0);
	return ((uint64_t)info.f_bavail * info.f_frsize / 2 / BLOCK + 64) * BLOCK;
}

// ---- tests -----------------------------------------------------------------------------------------------

// Whether or not the receiver has room to fill memory in advance, it must find damage before it confirms the image.
TEST(a_damaged_pack_is_found_when_the_image_arrives)
{
	static const unsigned kinds[] = {1, 2, 3, 4};
	char path[PATH_MAX];

	make_image(path, "damaged", kinds, 4);
	const struct sending small = {.rounds = {path}}, large = {.rounds = {path}, .empty_bytes = too_many_bytes()};
	check_received(&small, false, VG_OK, VG_OK);
	check_received(&small, true, VG_OK, VG_OK);
	check_received(&large, true, VG_OK, VG_OK);
	flip_bit(pack_of(path, 0), 3 * BLOCK + 17, 0);
	check_received(&small, false, VG_OK, VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "is damaged");
	check_received(&large, true, VG_OK, VG_INTEGRITY);
	check_received(&small, true, VG_INTEGRITY, VG_INTEGRITY);
}

// The receiver has the bytes of the block in one pack, but the image names the other pack for it.
TEST(a_block_that_is_transferred_again_is_verified_again)
{
	static const unsigned kinds[][2] = {{1, 2}, {1, 3}};
	char paths[2][PATH_MAX];

	for (int i = 0; i < 2; i++) {
		snprintf(paths[i], sizeof *paths, "%s%d", path_of("again"), i);
		must_make(paths[i], kinds[i], 2, NULL, VG_COMPRESSION_NONE, NULL);
	}
	const struct sending sending = {.rounds = {paths[0], paths[1]}};
	check_received(&sending, true, VG_OK, VG_OK);
	unsigned char *found = malloc(BLOCK), *wanted = malloc(BLOCK);
	off_t at = 0;
	int fd = open(pack_of(paths[1], 0), O_RDONLY);
	fill_block(wanted, 1);
	while (pread(fd, found, BLOCK, at) == BLOCK && memcmp(found, wanted, BLOCK) != 0)
		at += BLOCK;
	close(fd);
	free(found);
	free(wanted);
	flip_bit(pack_of(paths[1], 0), at + 5, 0);
	check_received(&sending, true, VG_INTEGRITY, VG_INTEGRITY);
}

// ---- room ------------------------------------------------------------------------------------------------

TEST(a_disk_keeps_a_reserve)
{
	static const unsigned kinds[] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct receiving receiving;
	char path[PATH_MAX];
	struct statvfs disk;

	make_image(path, "eight", kinds, 8);
	mkdir(path_of("small"), 0700);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("small", path_of("small"), "tmpfs", 0, "size=16m,mode=700") < 0)
		SKIP("cannot mount a file system: %s", strerror(errno));
	const struct sending sending = {.rounds = {path}};
	arrived = "small/arrived";
	begin_receiving(&receiving, &sending, false);
	arrived = "arrived";
	CHECK_INT(statvfs(path_of("small"), &disk), 0);
	CHECK(disk.f_bavail >= disk.f_blocks / 20);
	CHECK_INT(receiving.packs_status, VG_INSUFFICIENT);
	CHECK_CONTAINS(vg_last_error()->text, "migrate without --precopy");
	CHECK(vg_last_error()->need > vg_last_error()->have && vg_last_error()->have > 0);
	end_receiving(&receiving);
	umount2(path_of("small"), MNT_DETACH);
}

TEST(unused_packs_are_removed)
{
	static const unsigned kinds[][2] = {{1, 2}, {3, 4}};
	char one[PATH_MAX], other[PATH_MAX];
	struct receiving receiving;

	make_image(one, "unused", kinds[0], 2);
	make_image(other, "used", kinds[1], 2);
	const struct sending sending = {.rounds = {one, other}};
	begin_receiving(&receiving, &sending, true);
	CHECK_INT(receiving.packs_status, VG_OK);
	CHECK(access(pack_of(receiving.store.directory, 0), F_OK) < 0);
	CHECK_INT(access(pack_of(receiving.store.directory, 1), F_OK), 0);
	CHECK_INT(receiving.packs.bytes, 2 * BLOCK);
	receive_image(&receiving);
	CHECK_INT(receiving.status, VG_OK);
	end_receiving(&receiving);
	// The receiver has removed the pack of the image `one`. Refer to that pack again, first in a round and then in
	// the image.
	const struct sending round = {.rounds = {one, other, one}}, image = {.rounds = {one, other}, .image = one};
	check_received(&round, true, VG_INTEGRITY, VG_INTEGRITY);
	check_received(&image, true, VG_OK, VG_INTEGRITY);
	CHECK_CONTAINS(vg_last_error()->text, "the number of a pack that is not used any more");
}

TEST(a_sender_sends_a_pack_again_that_it_has_closed)
{
	struct device_block block = {.codec = DEVICE_RAW, .length = BLOCK, .pack = 1};
	const struct device_index index = {.blocks = &block, .block_count = 1};
	static const uint32_t wanted[] = {0, 1, 2, 1};
	struct packs packs = {0};
	uint64_t bytes;
	uint32_t number;
	int files[2];

	struct frames frames = {.in = -1, .out = memfd_create("stream", MFD_CLOEXEC)};
	for (int i = 0; i < 2; i++)
		files[i] = memory_of(&(unsigned){1}, 1);
	for (int i = 0; i < 4; i++) {
		if (i == 2)
			CHECK_INT(packs_close_unused(&packs, &index), VG_OK);
		CHECK_INT(stream_send_pack(&frames, &packs, dup(files[i % 2]), &number, &bytes), VG_OK);
		CHECK_INT(number, wanted[i]);
		CHECK_INT(bytes, i < 3 ? BLOCK : 0);
	}
	CHECK_INT(packs.fds[0], -1);
	packs_finish(&packs);
	frames_finish(&frames);
	close(frames.out);
	close(files[0]);
	close(files[1]);
}

// A pack of a base may have a hole at its end, if a program that leaves holes has copied the base.
TEST(a_pack_with_a_hole_at_its_end_arrives_whole)
{
	struct frames out = {.in = -1, .out = memfd_create("stream", MFD_CLOEXEC)};
	enum frame_type type = FRAME_PACK;
	struct packs packs = {0};
	uint64_t bytes, offset = 0;
	uint32_t number;
	int file = memory_of((const unsigned[]){1, 0}, 2);

	CHECK_INT(lseek(file, BLOCK, SEEK_DATA), -1); // the second block is a hole
	CHECK_INT(stream_send_pack(&out, &packs, file, &number, &bytes), VG_OK);
	CHECK_INT(stream_end_packs(&out), VG_OK);
	struct frames in = {.in = out.out, .out = -1};
	lseek(in.in, 0, SEEK_SET);
	for (uint64_t end = 0; type != FRAME_PACKED; bytes = end) {
		CHECK_INT(frame_read(&in, &type), VG_OK);
		if (type != FRAME_DATA)
			continue;
		memcpy(&offset, in.payload, sizeof offset);
		end = offset + in.payload_bytes - sizeof offset;
	}
	CHECK_INT(bytes, 2 * BLOCK);
	packs_finish(&packs);
	frames_finish(&in);
	close(in.in);
}

// The receiver fills a file with device memory before the image arrives. A restore can take the file only once, and
// only for memory of the same size.
TEST(filled_memory_is_used_once)
{
	static const unsigned kinds[] = {1, 0, 2};
	const struct device_block *have = NULL;
	struct receiving receiving;
	unsigned char *wanted = malloc(BLOCK), *found = malloc(BLOCK);
	char path[PATH_MAX];
	int fd;

	make_image(path, "taken", kinds, 3);
	const struct sending sending = {.rounds = {path}};
	const struct device_memory memory = {(uint64_t)dumped, 3 * BLOCK}, other = {(uint64_t)dumped, 2 * BLOCK};
	begin_receiving(&receiving, &sending, true);
	CHECK_INT(receiving.packs_status, VG_OK);
	CHECK_INT(prefill_take(NULL, &memory, &have), -1);
	CHECK_INT(prefill_take(&receiving.prefill, &other, &have), -1);
	CHECK(!have);
	fd = prefill_take(&receiving.prefill, &memory, &have);
	CHECK(fd >= 0);
	CHECK_INT(have[1].codec, DEVICE_ZERO);
	CHECK_INT(prefill_find(&receiving.prefill, &memory, &have), -1);
	CHECK_INT(prefill_take(&receiving.prefill, &memory, &have), -1);
	prefill_finish(&receiving.prefill);
	for (int i = 0; i < 3; i++) {
		fill_block(wanted, kinds[i]);
		CHECK_INT(pread(fd, found, BLOCK, (off_t)i * BLOCK), BLOCK);
		CHECK(memcmp(found, wanted, BLOCK) == 0);
	}
	close(fd);
	free(wanted);
	free(found);
	end_receiving(&receiving);
}

static int stop(void *user, const struct vg_checkpoint_progress *progress)
{
	*(uint64_t *)user = progress->bytes;
	return 1;
}

TEST(filling_memory_ahead_can_be_stopped)
{
	static const unsigned kinds[] = {1};
	struct vg_checkpoint_result result = {0};
	struct image_draft store = {0};
	struct image_files files = {0};
	struct device_index index;
	json_t *text = NULL;
	uint64_t bytes = 0;
	char path[PATH_MAX];
	size_t length;

	make_image(path, "stopped", kinds, 1);
	bool is_checked[1] = {false};
	struct image_dir dir;
	CHECK_INT(image_open(path, &dir), VG_OK);
	CHECK_INT(inspect_read(&dir, &text, &files), VG_OK);
	CHECK_INT(device_index_read(&dir, &files, &index), VG_OK);
	void *data = device_index_encode(&index, &length);
	struct packs packs = {.count = 1, .store = &store, .is_checked = is_checked};
	struct prefill prefill = {.packs = &packs};
	store.lock = dir.fd;
	snprintf(store.directory, sizeof store.directory, "%s", path);
	struct phase phase = {.progress = stop, .user = &bytes, .result = &result, .since = 1, .bytes = 7};
	CHECK_INT(prefill_round(&prefill, data, length, &phase), VG_STATE);
	// The progress function gets the number of bytes that the phase has counted.
	CHECK_INT(bytes, 7);
	CHECK(!is_checked[0]);
	prefill_finish(&prefill);
	device_index_free(&index);
	image_files_free(&files);
	json_decref(text);
	image_close(&dir);
	free(data);
}

// ---- the packs of the image ------------------------------------------------------------------------------

// A sender that has made its rounds and now writes the memory of the stopped processes, which has two blocks.
struct last {
	struct frames frames;
	struct precopy precopy;
	struct image_draft draft;
	struct device_packed packed;
	struct device_out *out;
	int receiver; // the other end of the connection
};

static void begin_last(struct last *last)
{
	static const struct device_bases none;
	static const unsigned kinds[] = {1, 2};
	int ends[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	*last = (struct last){.receiver = ends[0], .packed = {precopy_send_last, &last->precopy}};
	last->frames = (struct frames){.in = -1, .out = ends[1], .may_stop = true};
	last->precopy = (struct precopy){.frames = &last->frames, .base.dir.fd = -1};
	CHECK_INT(image_begin(path_of("last"), &last->draft), VG_OK);
	const struct device_source source = {dumped, memory_of(kinds, 2), 2 * (uint64_t)BLOCK};
	CHECK_INT(device_out_start(&last->draft, &source, 1, &none, &last->packed, &last->out), VG_OK);
}

static void finish_writing(struct last *last)
{
	struct device_written written;
	json_t *text = json_object();

	CHECK_INT(device_out_finish(last->out, text, NULL, &written), VG_OK);
	CHECK_INT(written.new_bytes, 2 * BLOCK);
	json_decref(text);
}

static void end_last(struct last *last)
{
	precopy_finish(&last->precopy);
	image_finish(&last->draft);
	frames_finish(&last->frames);
	close(last->frames.out);
	if (last->receiver >= 0)
		close(last->receiver);
}

TEST(the_packs_of_an_image_are_sent_before_it_is_complete)
{
	struct vg_checkpoint_result result = {0};
	struct phase phase = {.result = &result};
	enum frame_type type;
	struct last last;
	uint64_t bytes = 0;

	begin_last(&last);
	struct frames in = {.in = last.receiver, .out = -1};
	CHECK_INT(frame_read(&in, &type), VG_OK);
	CHECK_INT(type, FRAME_PACK);
	while (bytes < 2 * BLOCK) {
		CHECK_INT(frame_read(&in, &type), VG_OK);
		CHECK_INT(type, FRAME_DATA);
		bytes += in.payload_bytes - sizeof(uint64_t);
	}
	finish_writing(&last);
	CHECK_INT(precopy_end_packs(&last.precopy, &phase), VG_OK);
	CHECK_INT(frame_read(&in, &type), VG_OK);
	CHECK_INT(type, FRAME_PACKED);
	frames_finish(&in);
	end_last(&last);
}

static int stop_later(void *user, const struct vg_checkpoint_progress *progress)
{
	unsigned *calls = user;

	return ++*calls == 3;
}

// All packs have arrived, but the receiver does not read that they have.
TEST(the_end_of_the_packs_can_be_interrupted)
{
	struct vg_checkpoint_result result = {0};
	unsigned calls = 0;
	struct phase phase = {.progress = stop_later, .user = &calls, .result = &result};
	int ends[2];
	char byte = 0;

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	while (send(ends[1], &byte, 1, MSG_DONTWAIT) == 1)
		continue;
	struct frames frames = {.in = -1, .out = ends[1], .may_stop = true};
	struct precopy precopy = {.frames = &frames, .base.dir.fd = -1};
	CHECK_INT(phase_begin(&phase, VG_CHECKPOINT_SEND), VG_OK);
	CHECK_INT(precopy_end_packs(&precopy, &phase), VG_STATE);
	CHECK_INT(calls, 3);
	precopy_finish(&precopy);
	frames_finish(&frames);
	close(ends[0]);
	close(ends[1]);
}

// The receiver reads nothing, so the thread that sends the packs waits.
TEST(sending_the_packs_of_an_image_can_be_stopped)
{
	struct vg_checkpoint_result result = {0};
	struct phase phase = {.result = &result, .stop = true};
	struct last last;

	for (int is_asked = 0; is_asked < 2; is_asked++) {
		begin_last(&last);
		finish_writing(&last);
		if (is_asked)
			CHECK_INT(precopy_end_packs(&last.precopy, &phase), VG_STATE);
		end_last(&last);
	}
}

TEST(the_sender_learns_that_packs_of_an_image_did_not_arrive)
{
	struct vg_checkpoint_result result = {0};
	struct phase phase = {.result = &result};
	struct last last;

	begin_last(&last);
	close(last.receiver);
	last.receiver = -1;
	finish_writing(&last);
	CHECK_INT(precopy_end_packs(&last.precopy, &phase), VG_SYSTEM);
	CHECK_INT(vg_last_error()->code, ECONNRESET);
	end_last(&last);
}

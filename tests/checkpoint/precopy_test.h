// Plays the receiver of a migration with precopy, and verifies what the sender transfers. Include in exactly one file
// per program. One thread.
#pragma once
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "checkpoint/device/in.h"
#include "checkpoint/image/device_index.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/inspect.h"
#include "checkpoint/move/prefill.h"
#include "checkpoint/move/stream.h"
#include "tenants_test.h"
#include "virgate/image.h"

enum { HELD = 64, BLOCKS = HELD / 2, FILL = 0x5eed };

// Names the point at which the receiver closes the connection.
enum far { CLOSES_IN_ROUNDS, CLOSES_BEHIND_ROUNDS, REFUSES_AFTER_LOOK };

static inline int listen_there(void)
{
	struct sockaddr_un where = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	unlink(path_of("socket"));
	snprintf(where.sun_path, sizeof where.sun_path, "%s", path_of("socket"));
	CHECK_INT(bind(listener, (struct sockaddr *)&where, sizeof where), 0);
	CHECK_INT(listen(listener, 1), 0);
	return listener;
}

// Returns what the program has written into a block after that many rounds. The program writes `changes` blocks in each
// round.
static inline unsigned expected(unsigned block, unsigned changes, unsigned rounds)
{
	return !changes ? FILL : block < changes && rounds ? rounds * 64 + block : FILL * 0x10000u + block;
}

// Checks one block of the program's memory while the program is stopped. The program reports only complete rounds, so
// it may already have written the block in the next round.
static inline void check_block(const unsigned *words, unsigned number, const struct program *program, unsigned changes)
{
	unsigned rounds = report_of(program).round, first = words[0];

	for (size_t word = 0; word < DEVICE_BLOCK / 4; word++)
		if (words[word] != first)
			FAIL("block %u has %u and %u", number, first, words[word]);
	if (first != expected(number, changes, rounds) && first != expected(number, changes, rounds + 1))
		FAIL("block %u has %u after %u rounds, not %u", number, first, rounds,
		     expected(number, changes, rounds));
}

static inline void check_packs(const struct image_dir *dir, const struct device_index *index,
			       const struct program *program, unsigned changes)
{
	unsigned char *stored = malloc(DEVICE_STORED_MOST), *data = malloc(DEVICE_BLOCK);

	CHECK_INT(index->block_count, BLOCKS);
	for (unsigned i = 0; i < BLOCKS; i++) {
		char name[32];
		snprintf(name, sizeof name, DEVICE_PACK_FORMAT, (unsigned)index->blocks[i].pack);
		int fd = image_open_file(dir->fd, name);
		CHECK(fd >= 0);
		CHECK_INT(device_block_load(fd, &index->blocks[i], stored), 0);
		close(fd);
		CHECK(device_block_unpack(&index->blocks[i], stored, data));
		check_block((const unsigned *)data, i, program, changes);
	}
	free(stored);
	free(data);
}

// Checks the host memory that the receiver fills with transferred blocks: after the rounds it has most blocks, and
// after the last transfer all blocks.
static inline void check_prefill(const struct image_dir *dir, const struct device_index *index,
				 const struct prefill *prefill, const struct program *program, unsigned changes)
{
	const struct device_block *have;
	int fd = prefill_find(prefill, &index->memories[0], &have);
	unsigned *data = malloc(DEVICE_BLOCK), same = 0;

	CHECK(fd >= 0);
	for (unsigned i = 0; i < BLOCKS; i++)
		same += memcmp(have[i].digest, index->blocks[i].digest, DIGEST_BYTES) == 0;
	CHECK(same >= BLOCKS - changes);
	CHECK_INT(device_in_fill(dir, index, 0, have, fd, NULL, NULL), VG_OK);
	for (unsigned i = 0; i < BLOCKS; i++) {
		CHECK_INT(pread(fd, data, DEVICE_BLOCK, (off_t)i * DEVICE_BLOCK), DEVICE_BLOCK);
		check_block(data, i, program, changes);
	}
	free(data);
}

static inline void check_memory(const struct image_dir *dir, const struct prefill *prefill,
				const struct program *program, unsigned changes)
{
	struct image_files files = {0};
	struct device_index index;
	json_t *text = NULL;

	CHECK_INT(inspect_read(dir, &text, &files), VG_OK);
	CHECK_INT(device_index_read(dir, &files, &index), VG_OK);
	check_packs(dir, &index, program, changes);
	check_prefill(dir, &index, prefill, program, changes);
	device_index_free(&index);
	image_files_free(&files);
	json_decref(text);
}

static inline unsigned trusted_packs(const struct packs *packs)
{
	unsigned count = 0;

	for (unsigned i = 0; i < DEVICE_MOST_PACKS && packs->is_trusted; i++)
		count += packs->is_trusted[i];
	return count;
}

// Notes how many packs had arrived after the last round.
static size_t packs_of_rounds;
static inline enum vg_status take_round(void *user, const void *index, size_t length, struct phase *phase)
{
	struct prefill *prefill = user;

	packs_of_rounds = prefill->packs->count;
	return prefill_round(prefill, index, length, phase);
}

static inline void receive_and_look(struct frames *frames, const struct program *program, unsigned changes,
				    enum far far)
{
	struct image_draft store = {0}, draft = {0};
	struct packs packs = {.store = &store};
	struct prefill prefill = {.packs = &packs};
	json_t *description = NULL;
	uint32_t status = VG_POLICY;

	CHECK_INT(image_begin(path_of("far.image.precopy"), &store), VG_OK);
	frames->packs = &packs;
	packs.round = take_round;
	packs.user = &prefill;
	if (stream_receive_packs(frames, &packs))
		FAIL("%s", vg_last_error()->text);
	// The packs of the image arrive before the image.
	if (far == REFUSES_AFTER_LOOK)
		CHECK(changes ? packs.count > packs_of_rounds : packs.count == packs_of_rounds);
	if (far == CLOSES_BEHIND_ROUNDS) {
		prefill_finish(&prefill);
		image_finish(&store);
		return;
	}
	CHECK_INT(image_begin(path_of("far.image"), &draft), VG_OK);
	if (stream_receive(frames, &draft, &description))
		FAIL("%s", vg_last_error()->text);
	CHECK(packs.count > 0);
	CHECK(trusted_packs(&packs) > 0 || changes > BLOCKS / 2);
	CHECK_INT(image_publish(&draft, description, false), VG_OK);
	image_finish(&store);
	const struct image_dir dir = image_draft_dir(&draft);
	// The image must be valid: vg_image_verify() reads all its files.
	if (vg_image_verify(path_of("far.image"), NULL))
		FAIL("%s", vg_last_error()->text);
	check_memory(&dir, &prefill, program, changes);
	frame_write(frames, FRAME_REFUSED, &status, sizeof status, "seen enough", 11);
	json_decref(description);
	prefill_finish(&prefill);
	packs_finish(&packs);
	image_finish(&draft);
}

static inline pid_t start_far_side(const struct program *program, unsigned changes, enum far far)
{
	int listener = listen_there();

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int fd = accept(listener, NULL, NULL);
		struct frames frames = {.in = fd, .out = fd};
		struct stream_header header;
		enum frame_type type;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (stream_accept(&frames, &header) || !header.has_packs)
			_exit(1);
		frame_write(&frames, FRAME_READY, NULL, 0, NULL, 0);
		for (int i = 0; i < 3 && far == CLOSES_IN_ROUNDS; i++)
			if (frame_read(&frames, &type))
				_exit(2);
		if (far != CLOSES_IN_ROUNDS)
			receive_and_look(&frames, program, changes, far);
		_exit(0);
	}
	close(listener);
	return pid;
}

static inline void check_far_side(pid_t pid)
{
	CHECK_CHILD(pid);
}

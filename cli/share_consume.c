// share consume: maps the memory that a producer offers, and verifies its contents.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "say.h"
#include "share.h"
#include "share/channel.h"
#include "share/offer.h"
#include "share/step.h"

// Receives an offer and checks that it has one range of the right size. Returns 0, or EXIT_FAILED after a message.
static int receive_offer(int socket, int seconds, struct vg_share_offer **ret_offer)
{
	const struct vg_share_socket_options options = {.size = sizeof options, .timeout_ms = seconds * 1000};
	struct vg_share_offer *offer;
	struct vg_share_range range;

	if (vg_share_receive(socket, &options, &offer) || vg_share_offer_range(offer, 0, &range)) {
		say_last_error();
		return EXIT_FAILED;
	}
	printf("Received FD: %d, size: %llu bytes\n", offer->ranges[0].descriptor, (unsigned long long)range.mapped);
	SHARE_STEP("offer received");
	if (vg_share_offer_count(offer) == 1 && range.bytes == SHARE_BYTES && range.writable) {
		*ret_offer = offer;
		return 0;
	}
	say_error("the producer offers %zu ranges, the first of %llu bytes%s, but one of %d bytes for writing is "
		  "expected",
		  vg_share_offer_count(offer), (unsigned long long)range.bytes, range.writable ? "" : ", for reading",
		  SHARE_BYTES);
	vg_share_offer_destroy(offer);
	return EXIT_FAILED;
}

static int import_memory(struct vg_vram *vram, const struct vg_share_offer *offer, struct vg_vram_handle *ret_handle)
{
	const struct vg_share_import_options options = {.size = sizeof options, .writable = 1};

	if (vg_share_import(vram, offer, 0, &options, ret_handle)) {
		say_last_error();
		return EXIT_FAILED;
	}
	printf("Imported allocation handle from FD\n");
	share_say_mapped(*ret_handle, "Mapped imported memory to virtual address");
	SHARE_STEP("imported");
	return 0;
}

static int verify_pattern(struct vg_vram_handle handle)
{
	uint32_t *data = malloc(SHARE_BYTES), i = 0;

	if (!data) {
		say_error("out of memory for %d integers", SHARE_INTEGERS);
		return EXIT_FAILED;
	}
	if (vg_vram_read_at(handle, 0, data, SHARE_BYTES)) {
		say_last_error();
		free(data);
		return EXIT_FAILED;
	}
	printf("Copied %d bytes from GPU to host\n", SHARE_BYTES);
	while (i < SHARE_INTEGERS && data[i] == share_pattern(i))
		i++;
	if (i == SHARE_INTEGERS)
		printf("Data verification PASSED (%d integers verified)\n", SHARE_INTEGERS);
	else
		say_error("Data verification FAILED: integer %u is 0x%08x, not 0x%08x", i, data[i], share_pattern(i));
	free(data);
	SHARE_STEP("verified");
	return i == SHARE_INTEGERS ? 0 : EXIT_FAILED;
}

static int send_answer(int socket, int seconds, bool good)
{
	const uint32_t word = good ? SHARE_VERIFIED : SHARE_WRONG;
	struct share_channel channel;

	if (share_channel_open(socket, seconds * 1000, &channel) || share_bytes_send(&channel, &word, sizeof word)) {
		say_last_error();
		return EXIT_FAILED;
	}
	printf("Sent acknowledgment to producer\n");
	SHARE_STEP("answer sent");
	return good ? 0 : EXIT_FAILED;
}

// Receives the memory and verifies it. Answers the producer only after unmapping the memory, because the producer then
// zeroes and frees it.
static int consume_from_socket(int socket, struct vg_vram *vram, int seconds)
{
	struct vg_vram_handle handle = {0};
	struct vg_share_offer *offer;

	int r = receive_offer(socket, seconds, &offer);
	if (r)
		return r;
	r = import_memory(vram, offer, &handle);
	vg_share_offer_destroy(offer);
	if (r)
		return r;
	r = verify_pattern(handle);
	if (vg_vram_free(handle)) {
		say_last_error();
		r = EXIT_FAILED;
	}
	SHARE_STEP("unmapped");
	int answered = send_answer(socket, seconds, r == 0);
	return r ? r : answered;
}

static int consume_memory(const struct share_pair *pair)
{
	struct vg_vram *vram;

	int r = share_pair_open(pair, &vram);
	if (r)
		return r;
	printf("Connecting to producer...\n");
	int socket = share_connect(pair->socket, pair->seconds);
	r = socket < 0 ? EXIT_FAILED : 0;
	if (r == 0) {
		printf("Connected to producer\n");
		SHARE_STEP("connected");
		r = consume_from_socket(socket, vram, pair->seconds);
		close(socket);
	}
	vg_vram_destroy(vram);
	SHARE_STEP("closed");
	return r;
}

static int run_share_consume(const struct arguments *arguments)
{
	return share_pair_run(arguments, "Consumer", consume_memory);
}

static const struct option options[] = {SHARE_OPTIONS, {0}};

const struct verb verb_share_consume = {
	.name = "share consume",
	.synopsis = "[--socket PATH] [--device GPU] [--timeout SECONDS] [--sim]",
	.summary = "Map the memory that a producer offers, and verify it",
	.details = "Waits until the same user starts `virgate share produce`. Exit status: 0 if the memory holds "
		   "the pattern, 1 if not.",
	.options = options,
	.run = run_share_consume,
};

// share produce: offers device memory with a pattern to a consumer.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/status.h"
#include "say.h"
#include "share.h"
#include "share/channel.h"
#include "share/offer.h"
#include "share/step.h"
#include "virgate/virtual_memory.h"

// Finds the granularity of device memory: the size of a one-byte allocation, which is freed again.
static enum vg_status find_granularity(struct vg_device *device, size_t *ret_bytes)
{
	struct vg_physical_memory *memory;

	enum vg_status status = vg_physical_memory_create(device, 1, NULL, &memory);
	if (status)
		return status;
	*ret_bytes = vg_physical_memory_size(memory);
	vg_physical_memory_destroy(memory);
	return VG_OK;
}

static enum vg_status allocate_memory(struct vg_vram *vram, struct vg_vram_handle *ret_handle)
{
	const struct vg_vram_allocate_options options = {.size = sizeof options, .shareable = 1};
	size_t granule;

	enum vg_status status = find_granularity(vg_vram_device(vram), &granule);
	if (status)
		return status;
	printf("VMM support: yes\nMemory granularity: %zu bytes\nBuffer size: %d bytes, aligned size: %zu bytes\n",
	       granule, SHARE_BYTES, (SHARE_BYTES + granule - 1) / granule * granule);
	status = vg_vram_allocate(vram, SHARE_BYTES, &options, ret_handle);
	if (status)
		return status;
	printf("Created physical memory allocation\n");
	share_say_mapped(*ret_handle, "Mapped physical memory to virtual address");
	SHARE_STEP("allocated");
	return VG_OK;
}

static enum vg_status write_pattern(struct vg_vram_handle handle)
{
	uint32_t *data = malloc(SHARE_BYTES);

	if (!data)
		return vg_fail(VG_NO_MEMORY, 0, "out of memory for %d integers", SHARE_INTEGERS);
	for (uint32_t i = 0; i < SHARE_INTEGERS; i++)
		data[i] = share_pattern(i);
	printf("Generated %d test integers\n", SHARE_INTEGERS);
	enum vg_status status = vg_vram_write_at(handle, 0, data, SHARE_BYTES);
	free(data);
	if (status)
		return status;
	printf("Copied test data to GPU\n");
	SHARE_STEP("filled");
	return VG_OK;
}

static enum vg_status make_offer(struct vg_vram_handle handle, struct vg_share_offer **ret_offer)
{
	const struct vg_share_range_options options = {.size = sizeof options, .writable = 1};
	struct vg_share_offer *offer;

	enum vg_status status = vg_share_offer_create(&offer);
	if (status)
		return status;
	status = vg_share_offer_add(offer, handle, &options);
	if (status) {
		vg_share_offer_destroy(offer);
		return status;
	}
	printf("Exported allocation as FD: %d\n", offer->ranges[0].descriptor);
	SHARE_STEP("exported");
	*ret_offer = offer;
	return VG_OK;
}

// Sends the offer and waits for the consumer's answer. Returns 0, or EXIT_FAILED after a message.
static int serve_consumer(int socket, const struct vg_share_offer *offer, int seconds)
{
	const struct vg_share_socket_options options = {.size = sizeof options, .timeout_ms = seconds * 1000};
	struct share_channel channel;
	uint32_t answer;

	printf("Consumer connected\n");
	SHARE_STEP("connected");
	if (vg_share_send(socket, offer, &options)) {
		say_last_error();
		return EXIT_FAILED;
	}
	printf("Sent FD and size metadata to consumer\n");
	if (share_channel_open(socket, options.timeout_ms, &channel) ||
	    share_bytes_receive(&channel, &answer, sizeof answer)) {
		say_error("the consumer did not answer: %s", vg_last_error()->text);
		return EXIT_FAILED;
	}
	SHARE_STEP("answered");
	if (answer == SHARE_VERIFIED) {
		printf("Consumer verified data successfully!\n");
		return 0;
	}
	if (answer == SHARE_WRONG)
		say_error("the consumer read data that differ from those written");
	else
		say_error("invalid answer of the consumer: 0x%08x", answer);
	return EXIT_FAILED;
}

static int wait_for_consumer(struct share_listener *listener, const struct vg_share_offer *offer, int seconds)
{
	printf("Waiting for consumer connection...\n");
	int socket = share_listener_accept(listener, seconds);
	if (socket < 0)
		return EXIT_FAILED;
	int r = serve_consumer(socket, offer, seconds);
	close(socket);
	return r;
}

// Offers the memory. Closes the exported descriptors before it frees the memory: open descriptors would keep the memory
// allocated.
static int produce_memory(struct vg_vram *vram, struct share_listener *listener, int seconds)
{
	struct vg_share_offer *offer = NULL;
	struct vg_vram_handle handle = {0};

	int r = EXIT_FAILED;
	if (allocate_memory(vram, &handle) || write_pattern(handle) || make_offer(handle, &offer))
		say_last_error();
	else
		r = wait_for_consumer(listener, offer, seconds);
	vg_share_offer_destroy(offer);
	SHARE_STEP("descriptors closed");
	if (handle.value && vg_vram_free(handle)) {
		say_last_error();
		r = EXIT_FAILED;
	}
	SHARE_STEP("freed");
	return r;
}

static int run_producer(const struct share_pair *pair)
{
	struct share_listener listener;
	struct vg_vram *vram;

	int r = share_listener_open(pair->socket, &listener);
	if (r)
		return r;
	r = share_pair_open(pair, &vram);
	if (r == 0) {
		r = produce_memory(vram, &listener, pair->seconds);
		vg_vram_destroy(vram);
	}
	share_listener_close(&listener);
	return r;
}

static int run_share_produce(const struct arguments *arguments)
{
	return share_pair_run(arguments, "Producer", run_producer);
}

static const struct option options[] = {SHARE_OPTIONS, {0}};

const struct verb verb_share_produce = {
	.name = "share produce",
	.synopsis = "[--socket PATH] [--device GPU] [--timeout SECONDS] [--sim]",
	.summary = "Offer device memory with a test pattern to a consumer",
	.details = "Waits for `virgate share consume` of the same user, which maps the same memory and verifies it. "
		   "Exit status: 0 if it did, 1 if not.",
	.options = options,
	.run = run_share_produce,
};

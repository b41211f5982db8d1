// Fuzzes the requests that virgate-device-plugin answers. The first byte of the input selects the method. The others
// are the body of the request: a frame of gRPC with a message.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "frame.h"
#include "inventory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define UUID "GPU-00112233-4455-6677-8899-aabbccddeeff"

static void require(bool holds)
{
	if (!holds)
		abort();
}

static int issue(void *user, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT])
{
	memset(ret_token, 'a', TOKEN_TEXT);
	ret_token[TOKEN_TEXT - 1] = '\0';
	return 0;
}

static int permit(void *user, const char *vgpu, uint64_t until)
{
	return 0;
}

static struct inventory *make_inventory(void)
{
	static struct vg_profile profiles[] = {{.name = "a", .memory = 1u << 30, .share = 20},
					       {.name = "b", .memory = 1u << 29}};
	static struct vg_profile_list list = {2, profiles};
	static struct vg_device_info device = {.uuid = UUID, .memory = 4ull << 30, .context_memory = 1 << 20};
	static struct vg_device_list devices = {1, &device};
	static struct inventory inventory;
	const struct vg_vgpu_list none = {0};

	if (inventory.count)
		return &inventory;
	require(inventory_init(&inventory, &list, 10));
	inventory_update(&inventory, &devices, &none, 1);
	require(inventory.resources[0].count == 4);
	return &inventory;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const methods[] = {"/v1beta1.DevicePlugin/Allocate",
					      "/v1beta1.DevicePlugin/PreStartContainer",
					      "/v1beta1.DevicePlugin/GetPreferredAllocation",
					      "/v1beta1.DevicePlugin/GetDevicePluginOptions", "/none"};
	static uint64_t now = 1;
	const struct api api = {make_inventory(), API_GPU_UUID, issue, permit, NULL};
	struct api_answer answer;
	const uint8_t *message;
	size_t length;
	char text[32];

	if (size < 1 || frame_read(data + 1, size - 1, &message, &length))
		return 0;
	require(message == data + 1 + FRAME_HEAD && length == size - 1 - FRAME_HEAD);
	now += 5; // 5 ms; a reservation lasts 10 ms, so it ends after two requests
	api_answer(&api, &api.inventory->resources[0], methods[data[0] % 5], message, length, now, &answer);
	require((answer.status != RPC_OK) == (*answer.text != '\0'));
	require(answer.status == RPC_OK ? answer.data != NULL : answer.data == NULL);
	frame_write_text(answer.text, text, sizeof text);
	require(memchr(text, '\0', sizeof text));
	free(answer.data);
	return 0;
}

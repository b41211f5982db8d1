// Tests the parts of virgate-device-plugin that do no input and output: the frames of the protocol, and the decision
// which devices are healthy.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "deviceplugin.pb-c.h"
#include "frame.h"
#include "inventory.h"
#include "test.h"

#define UUID "GPU-00112233-4455-6677-8899-aabbccddeeff"

static struct inventory inventory;

// Replaces the function of libvirgate, whose lists come from a daemon.
void vg_device_list_free(struct vg_device_list *list)
{
	free(list);
}

// Sets up two profiles on a GPU of 4 GiB. The first has 2 GiB and 40 % of the time. The second has 1 GiB, of which all
// but 256 MiB can move to the host.
static void set_up(void)
{
	struct vg_profile_list *list = calloc(1, sizeof *list);
	struct vg_profile *profiles = calloc(2, sizeof *profiles);

	profiles[0] = (struct vg_profile){.name = strdup("large"), .memory = 2ull << 30, .share = 40};
	profiles[1] = (struct vg_profile){
		.name = strdup("moving"), .memory = 1ull << 30, .evictable = 1, .fixed = 256ull << 20};
	*list = (struct vg_profile_list){2, profiles};
	CHECK(inventory_init(&inventory, list, 1000));
	strcpy(inventory.owner[0], "root");
	strcpy(inventory.owner[1], "0");
}

static void tell(uint64_t reserved, const struct vg_vgpu_list *vgpus, uint64_t now)
{
	struct vg_device_list *devices = calloc(1, sizeof *devices + sizeof(struct vg_device_info));
	struct vg_device_info *device = (struct vg_device_info *)(devices + 1);

	*device = (struct vg_device_info){
		.uuid = UUID, .memory = 4ull << 30, .reserved = reserved, .context_memory = 16 << 20, .simulated = 1};
	*devices = (struct vg_device_list){1, device};
	inventory_update(&inventory, devices, vgpus, now);
}

static unsigned count_healthy(int resource)
{
	unsigned count = 0;

	for (size_t i = 0; i < inventory.resources[resource].count; i++)
		count += inventory.resources[resource].slots[i].is_healthy;
	return count;
}

static bool reserve(int resource, int slot, uint64_t now)
{
	struct vg_device_info figures;

	return inventory_reserve(&inventory, &inventory.resources[resource], &inventory.resources[resource].slots[slot],
				 now, &figures);
}

static bool first_issued;
static int failing_issues;

static int issue(void *user, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT])
{
	first_issued = is_first;
	strcpy(ret_token, "00112233445566778899aabbccddeeff");
	return failing_issues && !--failing_issues ? -ENOSPC : 0;
}

static uint64_t permitted_until;
static int permit_result;

static int permit(void *user, const char *vgpu, uint64_t until)
{
	permitted_until = until;
	return permit_result;
}

// Allocates a device of the first resource for each of two containers.
static enum rpc_status allocate_two(const char *first, const char *second, uint64_t now)
{
	V1beta1__AllocateRequest request = V1BETA1__ALLOCATE_REQUEST__INIT;
	V1beta1__ContainerAllocateRequest containers[2], *pointers[] = {&containers[0], &containers[1]};
	char *ids[] = {(char *)first, (char *)second};
	const struct api api = {&inventory, API_GPU_UUID, issue, permit, NULL};
	struct api_answer answer;
	uint8_t message[256];

	for (int i = 0; i < 2; i++) {
		v1beta1__container_allocate_request__init(&containers[i]);
		containers[i].n_devices_ids = 1;
		containers[i].devices_ids = &ids[i];
	}
	request.n_container_requests = 2;
	request.container_requests = pointers;
	size_t length = v1beta1__allocate_request__pack(&request, message);
	api_answer(&api, &inventory.resources[0], "/v1beta1.DevicePlugin/Allocate", message, length, now, &answer);
	CHECK(!answer.status == !!answer.data);
	free(answer.data);
	return answer.status;
}

// Prepares the start of a container with a device of the first resource.
static enum rpc_status start(const char *id, uint64_t now)
{
	V1beta1__PreStartContainerRequest request = V1BETA1__PRE_START_CONTAINER_REQUEST__INIT;
	char *ids[] = {(char *)id};
	const struct api api = {&inventory, API_GPU_UUID, issue, permit, NULL};
	struct api_answer answer;
	uint8_t message[128];

	request.n_devices_ids = 1;
	request.devices_ids = ids;
	size_t length = v1beta1__pre_start_container_request__pack(&request, message);
	api_answer(&api, &inventory.resources[0], "/v1beta1.DevicePlugin/PreStartContainer", message, length, now,
		   &answer);
	CHECK(!answer.status == !!answer.data);
	free(answer.data);
	return answer.status;
}

TEST(reserved_room_counts_for_other_profiles_until_its_time_is_over)
{
	const struct vg_vgpu_list none = {0};

	set_up();
	tell(0, &none, 1);
	CHECK_INT(inventory.resources[0].count, 2);
	// the vGPUs use the same 768 MiB in turn, and each needs 256 MiB of its own
	CHECK_INT(inventory.resources[1].count, 13);
	CHECK_INT(count_healthy(0), 2);
	CHECK(reserve(1, 0, 10));
	CHECK_INT(count_healthy(0), 1);
	CHECK_INT(count_healthy(1), 13);
	CHECK(reserve(0, 0, 20));
	// 2 GiB are left: the 768 MiB that are used in turn, and 256 MiB for each of 5 vGPUs. One is reserved already.
	CHECK_INT(count_healthy(1), 5);
	CHECK(!reserve(0, 1, 30));
	tell(0, &none, 2000);
	CHECK_INT(count_healthy(0), 2);
	CHECK_INT(count_healthy(1), 13);
	inventory_finish(&inventory);
}

TEST(reservation_ends_when_its_vgpu_exists)
{
	const struct vg_vgpu_list none = {0};
	struct vg_vgpu_info vgpu = {
		.name = "k8s.large.00112233.1", .uuid = UUID, .owner = "root", .ephemeral = 1, .created = 5};
	const struct vg_vgpu_list one = {1, &vgpu};

	set_up();
	tell(0, &none, 1);
	CHECK(reserve(0, 1, 2));
	CHECK(inventory_is_pending(&inventory.resources[0].slots[1], 3));
	tell(2ull << 30, &one, 3);
	CHECK(!inventory_is_pending(&inventory.resources[0].slots[1], 3));
	CHECK(inventory.resources[0].slots[1].is_running && !inventory.resources[0].slots[0].is_running);
	// reserves for the next container of the device while the vGPU of the last one still exists
	CHECK(reserve(0, 1, 4));
	tell(2ull << 30, &one, 5);
	CHECK(inventory_is_pending(&inventory.resources[0].slots[1], 5));
	vgpu.created = 6;
	tell(2ull << 30, &one, 6);
	CHECK(!inventory_is_pending(&inventory.resources[0].slots[1], 6));
	inventory_finish(&inventory);
}

// A pod whose container was started may know the token. So the next allocation counts as that of another pod, and
// makes older tokens invalid. That is so even if the vGPU still exists or its room is reserved.
TEST(started_container_makes_the_next_token_the_first)
{
	const struct vg_vgpu_list none = {0};
	const struct vg_vgpu_info vgpu = {
		.name = "k8s.large.00112233.1", .uuid = UUID, .owner = "root", .ephemeral = 1, .created = 5};
	const struct vg_vgpu_list one = {1, &vgpu};

	set_up();
	tell(0, &none, 1);
	CHECK_INT(allocate_two(UUID "/0", UUID "/1", 2), RPC_OK);
	CHECK(first_issued);
	CHECK_INT(allocate_two(UUID "/0", UUID "/1", 3), RPC_OK); // the same pod
	CHECK(!first_issued);
	tell(0, &none, 5000);
	// the reservation has ended, but no container was started, so this is the same pod
	CHECK_INT(allocate_two(UUID "/0", UUID "/1", 5001), RPC_OK);
	CHECK(!first_issued);
	CHECK_INT(start(UUID "/1", 5002), RPC_OK);
	CHECK_INT(permitted_until, 6002);
	CHECK_INT(allocate_two(UUID "/0", UUID "/1", 5003), RPC_OK); // reserved
	CHECK(first_issued);
	CHECK_INT(start(UUID "/1", 5004), RPC_OK);
	tell(2ull << 30, &one, 5005);
	CHECK_INT(allocate_two(UUID "/0", UUID "/1", 5006), RPC_OK); // running
	CHECK(first_issued);
	inventory_finish(&inventory);
}

TEST(allocations_of_one_request_share_a_device)
{
	const struct vg_vgpu_list none = {0};

	set_up();
	tell(0, &none, 1);
	CHECK_INT(allocate_two(UUID "/0", UUID "/0", 2), RPC_OK);
	CHECK(!first_issued); // the second one
	CHECK_INT(start(UUID "/0", 3), RPC_OK);
	CHECK_INT(allocate_two(UUID "/0", UUID "/7", 4), RPC_NOT_FOUND);
	CHECK_INT(allocate_two(UUID "/1", UUID "/0", 5), RPC_OK);
	CHECK(first_issued); // the refused request has not made a first token
	inventory_finish(&inventory);
}

TEST(start_that_cannot_be_noted_is_refused)
{
	const struct vg_vgpu_list none = {0};

	set_up();
	tell(0, &none, 1);
	permit_result = -ENOSPC;
	CHECK_INT(start(UUID "/0", 2), RPC_INTERNAL);
	permit_result = 0;
	CHECK_INT(start(UUID "/0", 3), RPC_OK);
	inventory_finish(&inventory);
}

TEST(failed_gpu_has_no_healthy_device)
{
	const struct vg_vgpu_info vgpu = {
		.name = "k8s.large.00112233.0", .uuid = UUID, .owner = "root", .ephemeral = 1, .created = 5};
	const struct vg_vgpu_list one = {1, &vgpu};

	set_up();
	tell(2ull << 30, &one, 1);
	CHECK_INT(count_healthy(0), 2);
	inventory_fail(&inventory, "GPU-other", "it is gone", 2);
	CHECK_INT(count_healthy(0), 2);
	inventory_fail(&inventory, UUID, "it is gone", 2);
	CHECK_INT(count_healthy(0) + count_healthy(1), 0);
	CHECK_STR(inventory_failure(&inventory, UUID), "it is gone");
	inventory_finish(&inventory);
}

// Each row differs in one thing from the vGPU of a container, so it must not count as one.
TEST(vgpu_with_the_name_of_a_device_is_no_container)
{
	static const struct vg_vgpu_info rows[] = {
		{.owner = "0", .uuid = UUID, .ephemeral = 1},
		{.owner = "alice", .uuid = UUID, .ephemeral = 1},
		{.owner = "root", .uuid = UUID},
		{.owner = "root", .uuid = "GPU-other", .ephemeral = 1},
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct vg_vgpu_info vgpu = rows[i];
		const struct vg_vgpu_list one = {1, &vgpu};
		const struct slot *slot;
		vgpu.name = "k8s.large.00112233.0";
		vgpu.created = 5;
		set_up();
		tell(64 << 20, &one, 1);
		slot = &inventory.resources[0].slots[0];
		CHECK_INT(slot->is_running, i == 0);
		CHECK_INT(slot->is_taken, i > 0);
		CHECK_INT(slot->is_healthy, i == 0);
		CHECK_INT(allocate_two(UUID "/1", UUID "/0", 2), i == 0 ? RPC_OK : RPC_FAILED_PRECONDITION);
		tell(0, &(const struct vg_vgpu_list){0}, 3);
		CHECK(!inventory.resources[0].slots[0].is_taken && count_healthy(0) == 2);
		inventory_finish(&inventory);
	}
}

TEST(running_devices_stay_healthy_without_the_daemon)
{
	const struct vg_vgpu_info vgpu = {
		.name = "k8s.large.00112233.0", .uuid = UUID, .owner = "root", .ephemeral = 1, .created = 5};
	const struct vg_vgpu_list one = {1, &vgpu};

	set_up();
	tell(2ull << 30, &one, 1);
	inventory_update(&inventory, NULL, NULL, 2);
	CHECK_INT(count_healthy(0), 1);
	CHECK_INT(count_healthy(1), 0);
	inventory_finish(&inventory);
}

TEST(several_containers_get_devices_together_or_none_does)
{
	const struct vg_vgpu_list none = {0};

	set_up();
	tell(0, &none, 1);
	CHECK_INT(allocate_two(UUID "/0", UUID "/7", 2), RPC_NOT_FOUND);
	CHECK(!inventory_is_pending(&inventory.resources[0].slots[0], 2));
	failing_issues = 2;
	CHECK_INT(allocate_two(UUID "/0", UUID "/1", 3), RPC_INTERNAL);
	CHECK(!inventory_is_pending(&inventory.resources[0].slots[0], 3));
	CHECK_INT(allocate_two(UUID "/0", UUID "/1", 3), RPC_OK);
	CHECK(inventory_is_pending(&inventory.resources[0].slots[0], 3));
	inventory_finish(&inventory);
}

// Requests allocations for two devices, one of which is unknown. The other one is reserved, and its vGPU was created.
// The reservation must still end when the plugin has read the daemon's lists twice.
TEST(refused_allocation_does_not_prolong_an_earlier_reservation)
{
	const struct vg_vgpu_list none = {0};

	set_up();
	tell(0, &none, 1);
	CHECK(reserve(0, 0, 2));
	inventory_note_created(&inventory, inventory.resources[0].slots[0].vgpu);
	CHECK_INT(allocate_two(UUID "/0", UUID "/7", 3), RPC_NOT_FOUND);
	CHECK_INT(allocate_two(UUID "/0", UUID "/7", 3), RPC_NOT_FOUND);
	CHECK(inventory_is_pending(&inventory.resources[0].slots[0], 3));
	tell(0, &none, 4);
	CHECK(inventory_is_pending(&inventory.resources[0].slots[0], 4));
	tell(0, &none, 5);
	CHECK(!inventory_is_pending(&inventory.resources[0].slots[0], 5));
	inventory_finish(&inventory);
}

TEST(frames_that_do_not_match_their_length_are_refused)
{
	static const struct {
		size_t length;
		uint8_t body[8];
		bool is_valid;
	} rows[] = {
		{0, {0}, false},
		{4, {0}, false},
		{5, {0}, true},
		{5, {1}, false},
		{6, {0, 0, 0, 0, 1, 'x'}, true},
		{6, {0}, false},
		{6, {0, 255, 255, 255, 255}, false},
	};
	const uint8_t *message;
	size_t length;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		bool is_valid = !frame_read(rows[i].body, rows[i].length, &message, &length);
		CHECK_INT(is_valid, rows[i].is_valid);
		CHECK(!is_valid || length == rows[i].length - FRAME_HEAD);
	}
}

TEST(texts_of_headers_are_encoded_and_cut)
{
	char text[64], small[8];

	frame_write_text("50 % \xc3\xa4\n", text, sizeof text);
	CHECK_STR(text, "50 %25 %C3%A4%0A");
	frame_write_text("aaaaaaaa%%%%", small, sizeof small);
	CHECK_STR(small, "aaaaa");
}

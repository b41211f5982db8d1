#include "api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deviceplugin.pb-c.h"

// The most containers and devices in one request. The kubelet sends one container at a time, with one of this plugin's
// devices.
enum { CONTAINERS_MOST = 64, PREFERRED_MOST = 16 };

static const char service[] = "/v1beta1.DevicePlugin/";

__attribute__((format(printf, 3, 4))) static void refuse(struct api_answer *answer, enum rpc_status status,
							 const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answer->text, sizeof answer->text, format, arguments);
	va_end(arguments);
	answer->status = status;
}

static void pack(struct api_answer *answer, const ProtobufCMessage *message)
{
	size_t length = protobuf_c_message_get_packed_size(message);

	answer->data = malloc(length + 1);
	if (!answer->data) {
		refuse(answer, RPC_RESOURCE_EXHAUSTED, "no memory for the answer");
		return;
	}
	answer->length = protobuf_c_message_pack(message, answer->data);
}

static bool check_containers(size_t count, struct api_answer *answer)
{
	if (count <= CONTAINERS_MOST)
		return true;
	refuse(answer, RPC_INVALID_ARGUMENT, "the request is for %zu containers, and %d are the most", count,
	       CONTAINERS_MOST);
	return false;
}

static void format_size(uint64_t bytes, char ret_text[32])
{
	snprintf(ret_text, 32, "%.1f GiB", (double)bytes / (1 << 30));
	if (bytes < 1 << 30)
		snprintf(ret_text, 32, "%.1f MiB", (double)bytes / (1 << 20));
}

// ---- the list -------------------------------------------------------------------------------------------------

void api_list(const struct resource *resource, struct api_answer *ret_answer)
{
	V1beta1__ListAndWatchResponse list = V1BETA1__LIST_AND_WATCH_RESPONSE__INIT;
	V1beta1__Device *devices = calloc(resource->count + 1, sizeof *devices);
	V1beta1__Device **pointers = calloc(resource->count + 1, sizeof *pointers);

	*ret_answer = (struct api_answer){0};
	for (size_t i = 0; devices && pointers && i < resource->count; i++) {
		v1beta1__device__init(&devices[i]);
		devices[i].id = resource->slots[i].id;
		devices[i].health = (char *)(resource->slots[i].is_healthy ? "Healthy" : "Unhealthy");
		pointers[i] = &devices[i];
	}
	list.devices = pointers;
	list.n_devices = resource->count;
	if (devices && pointers)
		pack(ret_answer, &list.base);
	else
		refuse(ret_answer, RPC_RESOURCE_EXHAUSTED, "no memory for the list");
	free(devices);
	free(pointers);
}

// ---- which slots a request names ------------------------------------------------------------------------------

// Refuses a request because the GPU has no room. `real` has the figures that the daemon reports; `figures` also counts
// the room that is reserved for containers that have not started yet.
static void refuse_room(struct api_answer *answer, const struct resource *resource,
			const struct vg_device_info *figures, const struct vg_device_info *real)
{
	char left[32], total[32], reserved[32];
	uint64_t room = figures->reserved < figures->memory ? figures->memory - figures->reserved : 0;

	format_size(room, left);
	format_size(figures->memory, total);
	format_size(figures->reserved - real->reserved, reserved);
	if (real->drained)
		refuse(answer, RPC_RESOURCE_EXHAUSTED,
		       "profile %s: GPU %d is drained, so no container can start on it: virgate drain --undo %d "
		       "ends that",
		       resource->profile->name, real->index, real->index);
	else
		refuse(answer, RPC_RESOURCE_EXHAUSTED,
		       "profile %s does not fit on GPU %d: %s of %s and %u %% of its time are left, beside %s for "
		       "containers "
		       "that are about to start; end a container there, or try again later",
		       resource->profile->name, real->index, left, total,
		       figures->share_reserved < 100 ? 100 - figures->share_reserved : 0, reserved);
}

// Finds the only slot that a container asks for, and reserves it. Returns NULL after a refusal.
static struct slot *reserve_slot(const struct api *api, struct resource *resource, char *const *ids, size_t count,
				 uint64_t now, struct api_answer *answer)
{
	struct vg_device_info figures;

	if (count != 1) {
		refuse(answer, RPC_INVALID_ARGUMENT,
		       "a container can have one device of %s, and %zu were asked for: give the container a larger "
		       "profile, or ask for the rest in another container",
		       resource->name, count);
		return NULL;
	}
	struct slot *slot = inventory_find(resource, ids[0]);
	if (!slot) {
		refuse(answer, RPC_NOT_FOUND, "%s has no device \"%.80s\": it has %zu, which ListAndWatch lists",
		       resource->name, ids[0], resource->count);
		return NULL;
	}
	const struct vg_device_info *device = &api->inventory->devices->devices[slot->device];
	const char *failure = inventory_failure(api->inventory, device->uuid);
	if (failure) {
		refuse(answer, RPC_FAILED_PRECONDITION, "GPU %d has failed: %s", device->index, failure);
		return NULL;
	}
	if (api->inventory->is_daemon_lost) {
		refuse(answer, RPC_UNAVAILABLE,
		       "no container can start in a vGPU while the node's daemon does not answer: check "
		       "virgated.service");
		return NULL;
	}
	if (slot->is_taken) {
		refuse(answer, RPC_FAILED_PRECONDITION,
		       "the vGPU %s is there already and is no container's: `virgate rm --force %s` removes it",
		       slot->vgpu, slot->vgpu);
		return NULL;
	}
	if (inventory_reserve(api->inventory, resource, slot, now, &figures))
		return slot;
	refuse_room(answer, resource, &figures, device);
	return NULL;
}

// ---- Allocate -------------------------------------------------------------------------------------------------

// The answer for one container. The texts are members of it, because the protobuf messages have only pointers to texts.
struct allocation {
	V1beta1__ContainerAllocateResponse response;
	V1beta1__Pair variable, annotation;
	V1beta1__CDIDevice vgpu, gpu;
	V1beta1__Pair *variables[1], *annotations[1];
	V1beta1__CDIDevice *devices[2];
	char token[TOKEN_TEXT], variable_text[192], annotation_text[256], vgpu_text[96], gpu_text[96];
	struct slot *slot;
	struct reservation before; // of the slot
	bool is_first;		   // older tokens become invalid, because no container can need them
};

static void name_gpu(const struct api *api, const struct vg_device_info *device, char *ret_text, size_t capacity)
{
	*ret_text = '\0';
	if (device->simulated || api->gpu == API_GPU_NONE)
		return;
	if (api->gpu == API_GPU_ALL)
		snprintf(ret_text, capacity, "nvidia.com/gpu=all");
	else if (api->gpu == API_GPU_INDEX)
		snprintf(ret_text, capacity, "nvidia.com/gpu=%d", device->index);
	else
		snprintf(ret_text, capacity, "nvidia.com/gpu=%s", device->uuid);
}

// Fills in the answer for one container. Its variable VIRGATE_ALLOCATION tells the hook of the CDI device the vGPU's
// name, the GPU and the token. The annotation names the same CDI devices as the answer, for kubelets and runtimes that
// do not pass on the devices of the answer.
static void fill_allocation(const struct api *api, const struct resource *resource, struct allocation *allocation)
{
	const struct slot *slot = allocation->slot;
	const struct vg_device_info *device = &api->inventory->devices->devices[slot->device];

	v1beta1__container_allocate_response__init(&allocation->response);
	v1beta1__pair__init(&allocation->variable);
	v1beta1__pair__init(&allocation->annotation);
	v1beta1__cdidevice__init(&allocation->vgpu);
	v1beta1__cdidevice__init(&allocation->gpu);
	snprintf(allocation->variable_text, sizeof allocation->variable_text, "%s@%s:%s", slot->vgpu, device->uuid,
		 allocation->token);
	snprintf(allocation->vgpu_text, sizeof allocation->vgpu_text, "virgate.dev/vgpu=profile:%s",
		 resource->profile->name);
	name_gpu(api, device, allocation->gpu_text, sizeof allocation->gpu_text);
	snprintf(allocation->annotation_text, sizeof allocation->annotation_text, "%s%s%s", allocation->vgpu_text,
		 *allocation->gpu_text ? "," : "", allocation->gpu_text);
	allocation->variable.key = (char *)"VIRGATE_ALLOCATION";
	allocation->variable.value = allocation->variable_text;
	allocation->annotation.key = (char *)"cdi.k8s.io/virgate";
	allocation->annotation.value = allocation->annotation_text;
	allocation->vgpu.name = allocation->vgpu_text;
	allocation->gpu.name = allocation->gpu_text;
	allocation->variables[0] = &allocation->variable;
	allocation->annotations[0] = &allocation->annotation;
	allocation->devices[0] = &allocation->vgpu;
	allocation->devices[1] = &allocation->gpu;
	allocation->response.n_envs = allocation->response.n_annotations = 1;
	allocation->response.n_cdi_devices = *allocation->gpu_text ? 2 : 1;
	allocation->response.envs = allocation->variables;
	allocation->response.annotations = allocation->annotations;
	allocation->response.cdi_devices = allocation->devices;
}

// Restores the reservations that the slots of the first `count` allocations had before. Begins with the last one,
// because several allocations may have the same slot: then the oldest reservation must win.
static void undo_reservations(const struct api *api, struct allocation *allocations, size_t count, uint64_t now)
{
	while (count--)
		allocations[count].slot->reservation = allocations[count].before;
	inventory_judge(api->inventory, now);
}

// Reserves a slot for each container; if one cannot be reserved, reserves none. The kubelet allocates for all
// containers of a pod before it starts the first one. Containers of a pod may get the same slot one after the other;
// then their tokens are all valid. But after a container was started with the slot, the next allocation is for another
// pod, so the older tokens become invalid.
static bool reserve_all(const struct api *api, struct resource *resource, const V1beta1__AllocateRequest *request,
			uint64_t now, struct allocation *allocations, struct api_answer *answer)
{
	for (size_t i = 0; i < request->n_container_requests; i++) {
		const V1beta1__ContainerAllocateRequest *one = request->container_requests[i];
		const struct slot *found =
			one->n_devices_ids == 1 ? inventory_find(resource, one->devices_ids[0]) : NULL;
		if (found) {
			allocations[i].before = found->reservation;
			allocations[i].is_first = !found->reservation.is_unstarted;
		}
		allocations[i].slot = reserve_slot(api, resource, one->devices_ids, one->n_devices_ids, now, answer);
		if (allocations[i].slot) {
			allocations[i].slot->reservation.is_unstarted = true;
			continue;
		}
		undo_reservations(api, allocations, i, now);
		return false;
	}
	return true;
}

// Makes a token for each allocation. Returns false after a refusal.
static bool issue_tokens(const struct api *api, struct allocation *allocations, size_t count, struct api_answer *answer)
{
	for (size_t i = 0; i < count; i++) {
		struct allocation *one = &allocations[i];
		int r = api->issue(api->user, one->slot->vgpu, one->is_first, one->token);
		if (r == 0)
			continue;
		refuse(answer, RPC_INTERNAL, "the allocation of %s cannot be noted beside the daemon's socket: %s",
		       one->slot->vgpu, strerror(-r));
		return false;
	}
	return true;
}

static void answer_allocate(const struct api *api, struct resource *resource, const V1beta1__AllocateRequest *request,
			    uint64_t now, struct api_answer *answer)
{
	V1beta1__AllocateResponse response = V1BETA1__ALLOCATE_RESPONSE__INIT;
	size_t count = request->n_container_requests;
	struct allocation *allocations = calloc(count + 1, sizeof *allocations);
	V1beta1__ContainerAllocateResponse **pointers = calloc(count + 1, sizeof *pointers);

	if (!allocations || !pointers) {
		refuse(answer, RPC_RESOURCE_EXHAUSTED, "no memory for %zu allocations", count);
	} else if (reserve_all(api, resource, request, now, allocations, answer)) {
		bool is_noted = issue_tokens(api, allocations, count, answer);
		for (size_t i = 0; is_noted && i < count; i++) {
			fill_allocation(api, resource, &allocations[i]);
			pointers[i] = &allocations[i].response;
		}
		response.n_container_responses = count;
		response.container_responses = pointers;
		if (is_noted)
			pack(answer, &response.base);
		if (answer->status)
			undo_reservations(api, allocations, count, now);
	}
	free(allocations);
	free(pointers);
}

// ---- GetPreferredAllocation -----------------------------------------------------------------------------------

// Rates a slot: slots with low numbers are chosen first. These are healthy and unused slots on the GPU with the least
// room, so that GPUs with much room stay free for large profiles.
static uint64_t rate(const struct api *api, const struct slot *slot, uint64_t now)
{
	const uint64_t used = UINT64_C(1) << 62, unhealthy = UINT64_C(1) << 63;
	struct vg_device_info figures;

	inventory_figures(api->inventory, slot, now, &figures);
	uint64_t room = figures.reserved < figures.memory ? figures.memory - figures.reserved : 0;
	return room % used + (slot->is_running || inventory_is_pending(slot, now) ? used : 0) +
	       (slot->is_healthy ? 0 : unhealthy);
}

static bool is_among(const char *id, char *const *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(ids[i], id) == 0)
			return true;
	return false;
}

// Returns the available device with the best rating that is not chosen yet. NULL: no device is left.
static char *choose(const struct api *api, const struct resource *resource,
		    const V1beta1__ContainerPreferredAllocationRequest *request, char *const *chosen, size_t count,
		    uint64_t now)
{
	uint64_t least = UINT64_MAX;
	char *best = NULL;

	for (size_t i = 0; i < request->n_available_deviceids; i++) {
		char *id = request->available_deviceids[i];
		const struct slot *slot = inventory_find(resource, id);
		uint64_t rating = slot ? rate(api, slot, now) : UINT64_MAX;
		if (rating < least && !is_among(id, chosen, count)) {
			least = rating;
			best = id;
		}
	}
	return best;
}

struct preference {
	V1beta1__ContainerPreferredAllocationResponse response;
	char *ids[PREFERRED_MOST];
};

static void fill_preference(const struct api *api, const struct resource *resource,
			    const V1beta1__ContainerPreferredAllocationRequest *request, uint64_t now,
			    struct preference *preference)
{
	size_t wanted = request->allocation_size > 0 ? (size_t)request->allocation_size : 0, count = 0;

	v1beta1__container_preferred_allocation_response__init(&preference->response);
	if (wanted > PREFERRED_MOST)
		wanted = PREFERRED_MOST; // the kubelet chooses the other devices itself
	while (count < wanted && count < request->n_must_include_deviceids) {
		preference->ids[count] = request->must_include_deviceids[count];
		count++;
	}
	for (char *id; count < wanted && (id = choose(api, resource, request, preference->ids, count, now));)
		preference->ids[count++] = id;
	preference->response.n_deviceids = count;
	preference->response.deviceids = preference->ids;
}

static void answer_preference(const struct api *api, const struct resource *resource,
			      const V1beta1__PreferredAllocationRequest *request, uint64_t now,
			      struct api_answer *answer)
{
	V1beta1__PreferredAllocationResponse response = V1BETA1__PREFERRED_ALLOCATION_RESPONSE__INIT;
	size_t count = request->n_container_requests;
	struct preference *preferences = calloc(count + 1, sizeof *preferences);
	V1beta1__ContainerPreferredAllocationResponse **pointers = calloc(count + 1, sizeof *pointers);

	for (size_t i = 0; preferences && pointers && i < count; i++) {
		fill_preference(api, resource, request->container_requests[i], now, &preferences[i]);
		pointers[i] = &preferences[i].response;
	}
	response.n_container_responses = count;
	response.container_responses = pointers;
	if (preferences && pointers)
		pack(answer, &response.base);
	else
		refuse(answer, RPC_RESOURCE_EXHAUSTED, "no memory for %zu preferences", count);
	free(preferences);
	free(pointers);
}

// ---- the methods ----------------------------------------------------------------------------------------------

static void handle_options(const struct api *api, struct resource *resource, const ProtobufCMessage *request,
			   uint64_t now, struct api_answer *answer)
{
	V1beta1__DevicePluginOptions options = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;

	options.pre_start_required = options.get_preferred_allocation_available = 1;
	pack(answer, &options.base);
}

static void handle_list(const struct api *api, struct resource *resource, const ProtobufCMessage *request, uint64_t now,
			struct api_answer *answer)
{
	answer->is_list = true;
}

static void handle_preference(const struct api *api, struct resource *resource, const ProtobufCMessage *request,
			      uint64_t now, struct api_answer *answer)
{
	const V1beta1__PreferredAllocationRequest *preferred = (const V1beta1__PreferredAllocationRequest *)request;

	if (check_containers(preferred->n_container_requests, answer))
		answer_preference(api, resource, preferred, now, answer);
}

static void handle_allocate(const struct api *api, struct resource *resource, const ProtobufCMessage *request,
			    uint64_t now, struct api_answer *answer)
{
	const V1beta1__AllocateRequest *allocate = (const V1beta1__AllocateRequest *)request;

	if (check_containers(allocate->n_container_requests, answer))
		answer_allocate(api, resource, allocate, now, answer);
}

// Handles PreStartContainer, which the kubelet calls before each start of a container. It also does so before a
// restart, for which it does not call Allocate again. The hook needs this permission: a pod that has lost its device
// still knows a token, but the kubelet does not start containers with that device for it.
static void handle_start(const struct api *api, struct resource *resource, const ProtobufCMessage *request,
			 uint64_t now, struct api_answer *answer)
{
	const V1beta1__PreStartContainerRequest *start = (const V1beta1__PreStartContainerRequest *)request;
	V1beta1__PreStartContainerResponse response = V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;

	struct slot *slot = reserve_slot(api, resource, start->devices_ids, start->n_devices_ids, now, answer);
	if (!slot)
		return;
	slot->reservation.is_unstarted = false;
	int r = api->permit(api->user, slot->vgpu, slot->reservation.until);
	if (r < 0)
		refuse(answer, RPC_INTERNAL, "the start of %s cannot be noted beside the daemon's socket: %s",
		       slot->vgpu, strerror(-r));
	else
		pack(answer, &response.base);
}

static const struct {
	const char *name;
	const ProtobufCMessageDescriptor *request;
	void (*handle)(const struct api *api, struct resource *resource, const ProtobufCMessage *request, uint64_t now,
		       struct api_answer *answer);
} methods[] = {
	{"GetDevicePluginOptions", &v1beta1__empty__descriptor, handle_options},
	{"ListAndWatch", &v1beta1__empty__descriptor, handle_list},
	{"GetPreferredAllocation", &v1beta1__preferred_allocation_request__descriptor, handle_preference},
	{"Allocate", &v1beta1__allocate_request__descriptor, handle_allocate},
	{"PreStartContainer", &v1beta1__pre_start_container_request__descriptor, handle_start},
};

void api_answer(const struct api *api, struct resource *resource, const char *method, const uint8_t *message,
		size_t length, uint64_t now, struct api_answer *ret_answer)
{
	size_t i = 0;

	*ret_answer = (struct api_answer){0};
	if (strncmp(method, service, strlen(service)) == 0)
		method += strlen(service);
	while (i < sizeof methods / sizeof *methods && strcmp(methods[i].name, method) != 0)
		i++;
	if (i == sizeof methods / sizeof *methods) {
		refuse(ret_answer, RPC_UNIMPLEMENTED, "there is no method \"%.80s\" in the device plugin API v1beta1",
		       method);
		return;
	}
	ProtobufCMessage *request = protobuf_c_message_unpack(methods[i].request, NULL, length, message);
	if (!request) {
		refuse(ret_answer, RPC_INVALID_ARGUMENT, "the message of %s is not valid", method);
		return;
	}
	methods[i].handle(api, resource, request, now, ret_answer);
	protobuf_c_message_free_unpacked(request, NULL);
}

// Answers the kubelet's requests for one resource: parses a message, and makes the answer. Does no input and output
// itself, except by calling issue() and permit(). Main thread only.
#pragma once
#include "frame.h"
#include "inventory.h"
#include "token.h"

enum api_gpu { API_GPU_UUID, API_GPU_INDEX, API_GPU_ALL, API_GPU_NONE };

struct api {
	struct inventory *inventory;
	enum api_gpu gpu; // which device of NVIDIA's own CDI specification a container gets in addition
	// Makes a token by which the hook recognizes an allocation of the vGPU. If `is_first`, makes the vGPU's older
	// tokens invalid. Returns 0 or -errno.
	int (*issue)(void *user, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT]);
	// Permits one start of a container with the vGPU. The permission expires at `until` (CLOCK_MONOTONIC, in
	// milliseconds). Returns 0 or -errno.
	int (*permit)(void *user, const char *vgpu, uint64_t until);
	void *user;
};

struct api_answer {
	enum rpc_status status;
	char text[640]; // the reason, if the status is not RPC_OK
	uint8_t *data;	// the encoded answer, which the caller frees
	size_t length;
	bool is_list; // the request is ListAndWatch: send the message of api_list() now, and again at each change
};

// Answers one request. `method` is its HTTP path, such as "/v1beta1.DevicePlugin/Allocate".
void api_answer(const struct api *api, struct resource *resource, const char *method, const uint8_t *message,
		size_t length, uint64_t now, struct api_answer *ret_answer);
// Encodes the list of a resource's devices as the answer to ListAndWatch.
void api_list(const struct resource *resource, struct api_answer *ret_answer);

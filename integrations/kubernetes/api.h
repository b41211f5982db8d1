// Answers the requests of the kubelet for one resource: reads a message, and makes the answer. Main thread only; no
// input and output, but for issue() and permit().
#pragma once
#include "frame.h"
#include "inventory.h"
#include "token.h"

enum api_gpu { API_GPU_UUID, API_GPU_INDEX, API_GPU_ALL, API_GPU_NONE };

struct api {
	struct inventory *inventory;
	enum api_gpu gpu; // which device of NVIDIA's CDI specification a container gets
	// Makes the token by which the hook knows an allocation of the vGPU, and forgets older ones with `is_first`.
	// Returns 0 or -errno.
	int (*issue)(void *user, const char *vgpu, bool is_first, char ret_token[TOKEN_TEXT]);
	// Permits one start of a container with the vGPU until a time. Returns 0 or -errno.
	int (*permit)(void *user, const char *vgpu, uint64_t until);
	void *user;
};

struct api_answer {
	enum rpc_status status;
	char text[640]; // why the status is not RPC_OK
	uint8_t *data;	// the message, which the caller frees
	size_t length;
	bool is_list; // the request is ListAndWatch: the answer is api_list(), each time that it changes
};

// `method` is the path of the request, "/v1beta1.DevicePlugin/Allocate".
void api_answer(const struct api *api, struct resource *resource, const char *method, const uint8_t *message,
		size_t length, uint64_t now, struct api_answer *ret_answer);
// Makes the list of a resource's devices.
void api_list(const struct resource *resource, struct api_answer *ret_answer);

#include "daemon/mps.h"

#include "base/clock.h"
#include "daemon/answer.h"
#include "daemon/mps_server.h"

#include <string.h>

enum {
	CLIENTS = 48, // clients of one MPS server at most, according to NVIDIA's documentation
	RESERVE = 4,  // how many of these clients are kept free for processes that admitted programs start later
};

// Refuses a second mode on a GPU and, in the mode mps, a second user: clients of different MPS servers would share the
// GPU without turns.
static json_t *refuse_mixture(const struct node *node, const struct vgpu *vgpu)
{
	for (const struct vgpu *other = node->vgpus; other; other = other->next) {
		if (other == vgpu || other->device != vgpu->device || !mps_count_programs(other))
			continue;
		if (other->terms.is_mps != vgpu->terms.is_mps)
			return refuse(
				"busy",
				"GPU %zu: the vGPU %s has the mode %s, but programs of the mode %s run there (vGPU "
				"%s), and a GPU has one mode at a time: wait until they have ended, or choose the "
				"mode %s or another GPU",
				vgpu->device, vgpu->name, vgpu->terms.is_mps ? "mps" : "time",
				other->terms.is_mps ? "mps" : "time", other->name,
				other->terms.is_mps ? "mps" : "time");
		if (vgpu->terms.is_mps && other->owner != vgpu->owner)
			return refuse("busy",
				      "GPU %zu: programs of user %u use it in the mode mps, which serves one user at a "
				      "time: wait until they have ended, or choose another GPU",
				      vgpu->device, (unsigned int)other->owner);
	}
	return NULL;
}

static json_t *refuse_ended(const struct server *server, uint64_t now)
{
	return refuse("busy",
		      "GPU %zu: its MPS control daemon has ended %u time%s in a row; the next start is in %.1f s: try "
		      "again then, and see its log in %.*slog",
		      server->device, server->failures, server->failures == 1 ? "" : "s",
		      (double)(server->next_start_ns - now) / 1e9, (int)(strlen(server->pipe) - 4), server->pipe);
}

json_t *mps_check(const struct node *node, const struct vgpu *vgpu)
{
	const struct server *server = mps_find_server(vgpu->device, vgpu->owner);
	uint64_t now = vg_clock_monotonic_ns();
	json_t *refusal = refuse_mixture(node, vgpu);

	if (refusal || !vgpu->terms.is_mps || (refusal = mps_admit(vgpu)))
		return refusal;
	unsigned int clients = mps_count_clients(node, vgpu->device, vgpu->owner);
	if (clients >= CLIENTS - RESERVE)
		return refuse("limit",
			      "GPU %zu: %u programs run there in the mode mps, and a server has at most %d clients, of "
			      "which %d are kept for processes that they start: wait until some have ended, or choose "
			      "another GPU",
			      vgpu->device, clients, CLIENTS, RESERVE);
	return server && server->source.fd < 0 && now < server->next_start_ns ? refuse_ended(server, now) : NULL;
}

json_t *mps_enter(const struct node *node, const struct vgpu *vgpu, bool *ret_ready)
{
	json_t *refusal = mps_check(node, vgpu);

	*ret_ready = true;
	if (refusal || !vgpu->terms.is_mps)
		return refusal;
	struct server *server = mps_find_server(vgpu->device, vgpu->owner);
	if (!server)
		server = mps_add_server(node, vgpu->device, vgpu->owner);
	if (!server)
		return refuse("system", "no memory for the MPS control daemon of GPU %zu", vgpu->device);
	server->needed_ns = vg_clock_monotonic_ns(); // mps_keep() then starts the control daemon
	*ret_ready = server->listens && !server->was_ended;
	return NULL;
}

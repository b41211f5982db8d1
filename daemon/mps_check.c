#include "daemon/mps.h"

#include "base/clock.h"
#include "daemon/answer.h"
#include "daemon/job.h"
#include "daemon/mps_server.h"
#include "daemon/process.h"

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

static const char *find_user_of(const struct node *node, const struct server *server)
{
	const struct vgpu *vgpu = node->vgpus;

	while (vgpu->owner != server->uid || !vgpu->terms.is_mps || !(server->devices >> vgpu->device & 1) ||
	       vgpu->job_gpus || !mps_count_programs(vgpu))
		vgpu = vgpu->next;
	return vgpu->name;
}

// Refuses a vGPU of a job while programs use an MPS server that has some GPUs of the job, but not all. A program is a
// client of one server only, so the job needs one server for all of its GPUs.
static json_t *refuse_servers(const struct node *node, const struct vgpu *vgpu)
{
	uint64_t devices = job_devices(node, vgpu);
	unsigned int count = (unsigned int)__builtin_popcountll(devices);
	const struct server *server = NULL;

	if (vgpu->job_gpus > count)
		count = vgpu->job_gpus;
	while ((server = mps_next_server(server, devices, vgpu->owner))) {
		bool suits = (server->devices & devices) == devices &&
			     (unsigned int)__builtin_popcountll(server->devices) >= count;
		if (suits || !mps_has_clients(node, server))
			continue;
		return refuse("busy",
			      "GPU %zu: vGPU %s is one of a job with %u GPUs, which needs an MPS server for all of "
			      "them, but programs (vGPU %s) use a server for %s only: wait until they have ended, "
			      "start the job before them, or use other GPUs or --mode time",
			      vgpu->device, vgpu->name, count, find_user_of(node, server), server->title);
	}
	return NULL;
}

static json_t *refuse_ended(const struct server *server, uint64_t now)
{
	return refuse("busy",
		      "%s: its MPS control daemon has ended %u time%s in a row; the next start is in %.1f s: try "
		      "again then, and see its log in %.*slog",
		      server->title, server->failures, server->failures == 1 ? "" : "s",
		      (double)(server->next_start_ns - now) / 1e9, (int)(strlen(server->pipe) - 4), server->pipe);
}

json_t *mps_check(const struct node *node, const struct vgpu *vgpu)
{
	const struct server *server = mps_find_server(vgpu->device, vgpu->owner);
	uint64_t now = vg_clock_monotonic_ns();
	json_t *refusal = refuse_mixture(node, vgpu);

	if (refusal || !vgpu->terms.is_mps || (refusal = mps_admit(vgpu)))
		return refusal;
	if ((refusal = refuse_servers(node, vgpu)))
		return refusal;
	unsigned int clients = mps_count_clients(node, vgpu->device, vgpu->owner);
	if (clients >= CLIENTS - RESERVE)
		return refuse(
			"limit",
			"GPU %zu: %u programs run there in the mode mps, and a server has at most %d clients on a GPU, "
			"of which %d are kept for processes that they start: wait until some have ended, or choose "
			"another GPU",
			vgpu->device, clients, CLIENTS, RESERVE);
	return server && server->source.fd < 0 && now < server->next_start_ns ? refuse_ended(server, now) : NULL;
}

// Returns the record of a server that programs on the GPUs can use: one for exactly these GPUs, or one for more GPUs
// that runs or is about to start. NULL: no such server exists.
static struct server *find_suitable(const struct node *node, uint64_t devices, uid_t uid)
{
	struct server *server = mps_next_server(NULL, devices, uid);

	if (!server || server->devices == devices)
		return server;
	if ((server->devices & devices) != devices)
		return NULL;
	bool runs = server->source.fd >= 0 && !server->was_ended;
	bool starts = server->is_looked_up || server->awaited_until_ns;
	return runs || starts || mps_has_clients(node, server) ? server : NULL;
}

// Returns whether another request waits for a server of some of the GPUs and of other GPUs. If two such requests ended
// each other's servers, neither would get one. A request for a part of the GPUs can use the server of all of them.
static bool others_wait(uint64_t devices, uid_t uid)
{
	const struct server *server = NULL;

	while ((server = mps_next_server(server, devices, uid)))
		if (server->awaited_until_ns && server->devices & ~devices)
			return true;
	return false;
}

// Returns the record of the server for the GPUs, and adds it if it does not exist. Returns NULL in two cases: a server
// for other GPUs must end first, or start for another request (*ret_ready is false), or there is no memory (*ret_ready
// is true).
static struct server *provide_server(struct node *node, uint64_t devices, uid_t uid, bool *ret_ready)
{
	struct server *server = find_suitable(node, devices, uid), *next;

	*ret_ready = server || !others_wait(devices, uid);
	if (server || !*ret_ready)
		return server;
	for (server = mps_next_server(NULL, devices, uid); server; server = next) {
		next = mps_next_server(server, devices, uid);
		if (!mps_retire_server(node, server))
			*ret_ready = false;
	}
	return *ret_ready ? mps_add_server(node, devices, uid) : NULL;
}

json_t *mps_enter(struct node *node, const struct vgpu *vgpu, bool *ret_ready)
{
	json_t *refusal = mps_check(node, vgpu);

	*ret_ready = true;
	if (refusal || !vgpu->terms.is_mps)
		return refusal;
	if (vgpu->job_gpus && vgpu->ledger)
		return refuse("busy", "vGPU %s is one of job %s, which has not entered all of its GPUs yet: try again",
			      vgpu->name, vgpu->job);
	if (!job_is_complete(node, vgpu))
		return NULL;
	struct server *server = provide_server(node, job_devices(node, vgpu), vgpu->owner, ret_ready);
	if (!server && !*ret_ready)
		return NULL;
	if (!server)
		return refuse("system", "no memory for the MPS control daemon of GPU %zu", vgpu->device);
	uint64_t now = vg_clock_monotonic_ns();
	server->needed_ns = now; // mps_keep() then starts the control daemon
	// the control daemon may have ended, although this daemon has not handled that yet
	*ret_ready = server->listens && !server->was_ended && !process_has_ended(server->source.fd);
	if (*ret_ready && server->awaited_until_ns) {
		server->awaited_until_ns = 0;
		node->must_retry = true; // other requests may have waited for this one
	}
	if (!*ret_ready)
		mps_await_server(server, now);
	return NULL;
}

#include "shim/registration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ledger/ledger.h"

// After a timeout, no message that waits for an answer is sent for this long. So a program spends at most a tenth of
// its time waiting for the daemon.
static const uint64_t pause_ns = 200000000;
static _Atomic uint64_t paused_until_ns;

static int (*get_descriptor)(void);

void shim_registration_set_descriptor(int (*get)(void))
{
	get_descriptor = get;
}

// Returns the path of the daemon's socket, and describes this process for a message. NULL: there is no daemon.
static const char *find_daemon(const char *vgpu, struct vg_wire_registration *ret_registration)
{
	const char *socket = secure_getenv("VIRGATE_SOCKET");
	struct vg_ledger_owner self;

	if (!socket || !*socket || vg_ledger_self(&self) != 0)
		return NULL;
	*ret_registration = (struct vg_wire_registration){
		.pid = self.pid, .pid_namespace = self.pid_namespace, .start_time = self.start_time};
	strncpy(ret_registration->ledger, vgpu, sizeof ret_registration->ledger - 1);
	return socket;
}

static int send_registration(const char *vgpu, bool wait)
{
	struct vg_wire_registration registration;
	const char *socket = find_daemon(vgpu, &registration);

	if (!socket)
		return -ENOENT;
	int exports = get_descriptor ? get_descriptor() : -1;
	int result = wait ? vg_wire_register_and_wait(socket, &registration, exports)
			  : vg_wire_register(socket, &registration, exports);
	if (result == -ETIMEDOUT)
		paused_until_ns = vg_clock_monotonic_ns() + pause_ns;
	return result;
}

void shim_register(const char *vgpu)
{
	send_registration(vgpu, false);
}

bool shim_register_and_measure(const char *vgpu)
{
	return vg_clock_monotonic_ns() >= paused_until_ns && send_registration(vgpu, true) == 0;
}

// True after this process told the daemon that it has closed another vGPU's memory, and got no answer in time. The
// daemon may receive that message later, and it would undo a newer request to open the memory. So no such requests are
// made any more, and this process is charged for memory that it opens.
static _Atomic bool has_lost_leave;

bool shim_guest_join(const char *vgpu, uint64_t key, struct vg_wire_guest *ret_guest)
{
	struct vg_wire_guest asked = {.key = key};
	// This message is sent even in the pause after a timeout (pause_ns). Such messages are rare, and the answer
	// decides which vGPU is charged for as long as this process has the memory open.
	const char *socket = has_lost_leave ? NULL : find_daemon(vgpu, &asked.self);

	return socket && vg_wire_be_guest(socket, &asked, ret_guest) == 0 && ret_guest->share;
}

void shim_guest_leave(const char *vgpu, uint32_t number, const char *of)
{
	struct vg_wire_guest asked = {.share = number};
	const char *socket = find_daemon(vgpu, &asked.self);

	strncpy(asked.vgpu, of, sizeof asked.vgpu - 1);
	if (socket && vg_wire_be_guest(socket, &asked, NULL) == -ETIMEDOUT)
		has_lost_leave = true;
}

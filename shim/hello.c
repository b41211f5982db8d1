#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ledger/ledger.h"
#include "shim/export.h"
#include "shim/hello.h"
#include "wire/wire.h"

// A daemon that does not answer in time is given this long: a program waits for it a tenth of its time
// at most.
static const uint64_t leave_alone_ns = 200000000;
static _Atomic uint64_t not_before_ns;

// Where the daemon is; NULL: nowhere, or it is to be left alone.
static const char *daemon_for(const char *vgpu, bool wait, struct vg_wire_hello *ret_hello)
{
	const char *socket = secure_getenv("VIRGATE_SOCKET");
	struct vg_ledger_owner self;

	if (!socket || !*socket || (wait && vg_clock_monotonic_ns() < not_before_ns) || vg_ledger_self(&self) != 0)
		return NULL;
	*ret_hello = (struct vg_wire_hello){
		.pid = self.pid, .pid_namespace = self.pid_namespace, .start_time = self.start_time};
	strncpy(ret_hello->ledger, vgpu, sizeof ret_hello->ledger - 1);
	return socket;
}

bool shim_hello(const char *vgpu, bool wait)
{
	struct vg_wire_hello hello;
	const char *socket = daemon_for(vgpu, wait, &hello);

	if (!socket)
		return false;
	int result = wait ? vg_wire_register_and_wait(socket, &hello, shim_exports_descriptor())
			  : vg_wire_register(socket, &hello, shim_exports_descriptor());
	if (result == -ETIMEDOUT)
		not_before_ns = vg_clock_monotonic_ns() + leave_alone_ns;
	return result == 0;
}

// A leave that the daemon may still come to would undo a later join: there is none then, and we are charged besides.
static _Atomic bool out_of_step;

bool shim_guest_join(const char *vgpu, uint64_t key, struct vg_wire_guest *ret_guest)
{
	struct vg_wire_guest asked = {.key = key};
	// Asked also while it is left alone otherwise: this happens seldom, and decides who is charged for long.
	const char *socket = out_of_step ? NULL : daemon_for(vgpu, false, &asked.self);

	return socket && vg_wire_be_guest(socket, &asked, ret_guest) == 0 && ret_guest->share;
}

void shim_guest_leave(const char *vgpu, uint32_t share, const char *of)
{
	struct vg_wire_guest asked = {.share = share};
	const char *socket = daemon_for(vgpu, false, &asked.self);

	strncpy(asked.vgpu, of, sizeof asked.vgpu - 1);
	if (socket && vg_wire_be_guest(socket, &asked, NULL) == -ETIMEDOUT)
		out_of_step = true;
}

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

bool shim_hello(const char *vgpu, bool wait)
{
	const char *socket = getenv("VIRGATE_SOCKET");
	struct vg_wire_hello hello = {0};
	struct vg_ledger_owner self;
	int result;

	if (!socket || !*socket || (wait && vg_clock_monotonic_ns() < not_before_ns) || vg_ledger_self(&self) != 0)
		return false;
	hello.pid = self.pid;
	hello.pid_namespace = self.pid_namespace;
	hello.start_time = self.start_time;
	strncpy(hello.ledger, vgpu, sizeof hello.ledger - 1);
	result = vg_wire_say_hello(socket, &hello, shim_exports_descriptor(), wait);
	if (result == -ETIMEDOUT)
		not_before_ns = vg_clock_monotonic_ns() + leave_alone_ns;
	return result == 0;
}

// Exports events to other processes as plain bytes, and imports them.
#include "core/error.h"
#include "core/event.h"

#include <string.h>

enum vg_status vg_event_export(struct vg_event *event, struct vg_event_descriptor *ret_descriptor)
{
	VG_ENTRY();
	CUipcEventHandle handle;

	CORE_USABLE(event, "event");
	CORE_NEEDED(ret_descriptor);
	if (!(event->flags & CU_EVENT_INTERPROCESS))
		return vg_fail(VG_INVALID, 0, "the event is not for other processes: make it with .ipc = 1");
	CORE_ENTER(scope, event->context->handle);
	CORE_CALL(cuIpcGetEventHandle, &handle, event->handle);
	memset(ret_descriptor, 0, sizeof *ret_descriptor);
	_Static_assert(sizeof ret_descriptor->handle == sizeof handle.reserved, "the size of the driver's handle");
	memcpy(ret_descriptor->handle, handle.reserved, sizeof handle.reserved);
	ret_descriptor->blocking_sync = (event->flags & CU_EVENT_BLOCKING_SYNC) != 0;
	return VG_OK;
}

enum vg_status vg_event_import(struct vg_context *context, const void *descriptor, size_t size,
			       struct vg_event **ret_event)
{
	VG_ENTRY();
	struct vg_event_descriptor given;
	CUipcEventHandle ipc;
	CUevent handle;

	CORE_USABLE(context, "context");
	CORE_NEEDED(descriptor);
	CORE_NEEDED(ret_event);
	if (size < sizeof given)
		return vg_fail(VG_INVALID, 0, "the event's descriptor is %zu bytes: expected at least %zu", size,
			       sizeof given);
	memcpy(&given, descriptor, sizeof given);
	memcpy(ipc.reserved, given.handle, sizeof ipc.reserved);
	CORE_ENTER(scope, context->handle);
	CORE_CALL(cuIpcOpenEventHandle, &handle, ipc);
	enum vg_status status = core_event_wrap(context, handle,
						CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING |
							(given.blocking_sync ? CU_EVENT_BLOCKING_SYNC : 0),
						ret_event);
	if (status)
		core_driver->cuEventDestroy_v2(handle);
	return status;
}

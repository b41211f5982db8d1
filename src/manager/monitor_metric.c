// Defines the table of metrics.
#include "manager/monitor.h"

#include <stddef.h>

static const struct {
	const char *text;
	size_t offset;
	enum monitor_unit unit;
} metrics[] = {
#define X(name, field, unit) [VG_METRIC_##name] = {#field, offsetof(struct vg_sample, field), MONITOR_##unit},
	VG_METRIC_LIST(X)
#undef X
};
// The build fails if struct vg_sample has a metric that VG_METRIC_LIST lacks. Such a metric would be missing in the
// JSON output, too.
_Static_assert(sizeof(struct vg_sample) ==
		       offsetof(struct vg_sample, memory_held) + VG_METRIC_COUNT * sizeof(struct vg_metric),
	       "every figure of a sample is in VG_METRIC_LIST");

const char *vg_metric_text(enum vg_metric_name metric)
{
	return (unsigned)metric < VG_METRIC_COUNT ? metrics[metric].text : "unknown metric";
}

enum monitor_unit monitor_metric_unit(enum vg_metric_name metric)
{
	return metrics[metric].unit;
}

const struct vg_metric *monitor_metric(const struct vg_sample *sample, enum vg_metric_name metric)
{
	return (const struct vg_metric *)((const char *)sample + metrics[metric].offset);
}

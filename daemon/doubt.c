#include "daemon/doubt.h"

#include "base/clock.h"
#include "base/size.h"
#include "daemon/say.h"

// The driver allocates some memory without a call that gives its size. So a vGPU can exceed its fixed part although its
// processes report the truth. To doubt it would do harm: a vGPU that is doubted is not moved to the host to make room
// for others. So a vGPU may exceed its fixed part by an eighth of the part that moves, but by at least SLACK_LEAST and
// at most SLACK_MOST. LAST_NS: how long all measurements must contradict the reports before the vGPU is doubted.
static const uint64_t SLACK_LEAST = 32ull << 20, SLACK_MOST = 256ull << 20, LAST_NS = 200000000;

// Returns how much of the vGPU's memory may be on the device while the vGPU counts as being in the host. Does not use
// the ledger, since the vGPU's processes can write any value there.
static uint64_t most_while_out(const struct vgpu *vgpu)
{
	uint64_t slack = (vgpu->memory > vgpu->fixed ? vgpu->memory - vgpu->fixed : 0) / 8;

	slack = slack > SLACK_LEAST ? slack : SLACK_LEAST;
	return vgpu->fixed + vg_size_min(slack, SLACK_MOST);
}

static void begin_doubt(struct vgpu *vgpu, uint64_t physical)
{
	char text[2][VG_SIZE_TEXT];

	vgpu->residence.is_doubted = true;
	say("vGPU %s counts as on the GPU: its programs report that their memory is in the host, but %s of it is on "
	    "the GPU, and its fixed part is %s; end them if they do not leave, or raise --fixed",
	    vgpu->name, vg_size_format(physical, text[0]), vg_size_format(vgpu->fixed, text[1]));
}

void doubt_update(struct vgpu *vgpu, const struct doubt_measurement *measurement)
{
	struct residence *residence = &vgpu->residence;
	uint64_t now = vg_clock_monotonic_ns();

	if (!residence->claims_out) {
		residence->disagrees_since_ns = 0;
		return;
	}
	if (measurement->physical <= most_while_out(vgpu)) {
		if (measurement->is_complete)
			doubt_reset(vgpu);
		return;
	}
	if (!residence->disagrees_since_ns)
		residence->disagrees_since_ns = now;
	if (!residence->is_doubted && now - residence->disagrees_since_ns >= LAST_NS)
		begin_doubt(vgpu, measurement->physical);
}

void doubt_reset(struct vgpu *vgpu)
{
	vgpu->residence.is_doubted = false;
	vgpu->residence.disagrees_since_ns = 0;
}

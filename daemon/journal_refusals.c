#include "daemon/journal.h"

#include "base/clock.h"
#include "base/size.h"

#include <string.h>

// A program may repeat a refused request many times a second. So a vGPU gets at most one event for refusals in this
// time, with their number.
static const uint64_t EVERY_NS = 2000000000;

// Copies the name of the driver's function, which a program wrote, as printable ASCII.
static void copy_entry(const struct vg_ledger_refusal *refusal, char text[VG_LEDGER_ENTRY + 1])
{
	size_t length = strnlen(refusal->entry, VG_LEDGER_ENTRY);

	for (size_t i = 0; i < length; i++)
		text[i] = refusal->entry[i] > ' ' && refusal->entry[i] < 127 ? refusal->entry[i] : '?';
	text[length] = '\0';
}

static void add_refusals(struct node *node, struct vgpu *vgpu, uint64_t number)
{
	static struct vg_ledger_refusal refusals[VG_LEDGER_REFUSALS];
	size_t count = vg_ledger_refusals(vgpu->ledger, refusals);
	uint64_t fresh = number - vgpu->refusals_in_journal;
	char entry[VG_LEDGER_ENTRY + 1], texts[3][VG_SIZE_TEXT];

	if (!count)
		return;
	const struct vg_ledger_refusal *last = &refusals[count - 1];
	copy_entry(last, entry);
	const struct journal_note note = {.vgpu = vgpu,
					  .pid = last->pid,
					  .bytes = last->asked,
					  .count = fresh > UINT32_MAX ? UINT32_MAX : (unsigned int)fresh};
	journal_add(node, JOURNAL_REFUSED, &note, "%s asked for %s: %s of %s charged", entry,
		    vg_size_format(last->asked, texts[0]), vg_size_format(last->charged, texts[1]),
		    vg_size_format(last->limit, texts[2]));
}

void journal_add_last_refusals(struct node *node, struct vgpu *vgpu)
{
	uint64_t number = vgpu->damage != DAMAGE_CONTENTS ? vg_ledger_refusal_count(vgpu->ledger) : 0;

	if (number > vgpu->refusals_in_journal)
		add_refusals(node, vgpu, number);
	if (number)
		vgpu->refusals_in_journal = number;
}

void journal_add_refusals(struct node *node)
{
	uint64_t now = vg_clock_monotonic_ns();

	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next) {
		if (vgpu->damage == DAMAGE_CONTENTS || now < vgpu->next_refusal_ns)
			continue;
		uint64_t number = vg_ledger_refusal_count(vgpu->ledger);
		if (number > vgpu->refusals_in_journal) {
			add_refusals(node, vgpu, number);
			vgpu->next_refusal_ns = now + EVERY_NS;
		}
		vgpu->refusals_in_journal = number;
	}
}

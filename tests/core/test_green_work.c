// Tests memory, copies, code and launches on a stream of a green context. These objects belong to the primary context,
// but launches run only on the green context's SMs.
#include "code_test.h"

enum { BLOCKS = 1024, SMS = 16 };

// Each block writes the SM on which it ran, and runs long enough for all SMs to get blocks.
static const char where_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
				 ".visible .entry where(.param .u64 out, .param .u64 spin) {\n"
				 ".reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<8>;\n"
				 "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [spin]; cvta.to.global.u64 %rd1, %rd1;\n"
				 "mov.u64 %rd3, 0;\n"
				 "AGAIN: add.u64 %rd3, %rd3, 1; setp.lt.u64 %p1, %rd3, %rd2; @%p1 bra AGAIN;\n"
				 "mov.u32 %r1, %smid; mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd4, %r2, 4;\n"
				 "add.u64 %rd5, %rd1, %rd4; st.global.u32 [%rd5], %r1; ret; }\n";

static int count_distinct(const unsigned *sms)
{
	char seen[1024] = {0};
	int count = 0;

	for (int i = 0; i < BLOCKS; i++) {
		CHECK(sms[i] < sizeof seen);
		count += !seen[sms[i]];
		seen[sms[i]] = 1;
	}
	return count;
}

// Returns the number of SMs on which the blocks of a launch ran.
static int count_sms_used(struct vg_stream *stream, struct vg_kernel *kernel, struct vg_buffer *buffer)
{
	static unsigned sms[BLOCKS];
	unsigned long long spin = getenv("VIRGATE_SIM") ? 1 : 100000;
	vg_address address = vg_buffer_address(buffer);

	OK(vg_buffer_fill_byte(buffer, 0xff, stream));
	OK(vg_launch(stream, CONFIG(BLOCKS, 32), kernel, VG_ARGUMENTS(address, spin)));
	OK(vg_buffer_read(buffer, 0, sms, sizeof sms, stream));
	OK(vg_stream_sync(stream));
	return count_distinct(sms);
}

TEST(work_of_a_green_context_stays_on_its_sms)
{
	struct vg_context *context = first_context(), *green = green_context(SMS);
	struct vg_stream *stream, *everywhere;
	struct vg_memory_resource *pool;
	struct vg_object_code *code;
	struct vg_kernel *kernel;
	struct vg_buffer *buffer;
	struct CUctx_st *now;

	OK(vg_stream_create(green, NULL, &stream));
	OK(vg_stream_create(context, NULL, &everywhere));
	OK(vg_device_pool_current(vg_context_device(context), &pool));
	OK(vg_buffer_create(pool, BLOCKS * sizeof(unsigned), stream, &buffer));
	OK(vg_object_code_create(VG_CODE_PTX, where_text, sizeof where_text, NULL, &code));
	OK(vg_object_code_kernel(code, "where", &kernel));
	CHECK(count_sms_used(stream, kernel, buffer) <= SMS);
	CHECK(count_sms_used(everywhere, kernel, buffer) > SMS);
	OK(vg_context_current(&now));
	CHECK(!now);
	vg_context_destroy(green); // objects can be destroyed in any order
	vg_context_destroy(context);
	vg_memory_resource_destroy(pool);
	vg_buffer_destroy(buffer);
	vg_stream_destroy(everywhere);
	vg_stream_destroy(stream);
	vg_kernel_destroy(kernel);
	vg_object_code_destroy(code);
}

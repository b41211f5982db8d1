#include "core_test.h"

// The structures of DLPack, as in <dlpack/dlpack.h>.
#include "../../src/core/dlpack.h"

static const struct vg_data_type f32 = {VG_TYPE_FLOAT, 32, 1};

static struct vg_layout matrix(int64_t rows, int64_t columns)
{
	struct vg_layout layout;

	OK(vg_layout_dense(2, (int64_t[]){rows, columns}, 4, VG_ORDER_C, &layout));
	return layout;
}

// A foreign tensor that counts the calls of its deleter.
struct foreign {
	struct DLManagedTensorVersioned versioned;
	struct DLManagedTensor plain;
	int64_t shape[2], strides[2];
	float data[12];
	int deleted;
};

static void delete_versioned(struct DLManagedTensorVersioned *tensor)
{
	((struct foreign *)tensor->manager)->deleted++;
}

static void delete_plain(struct DLManagedTensor *tensor)
{
	((struct foreign *)tensor->manager)->deleted++;
}

static void make_foreign(struct foreign *foreign)
{
	*foreign = (struct foreign){.shape = {2, 3}, .strides = {1, 4}};
	for (int i = 0; i < 12; i++)
		foreign->data[i] = (float)i;
	foreign->plain = (struct DLManagedTensor){
		.tensor = {foreign->data,
			   {VG_MEMORY_HOST, 0},
			   2,
			   {VG_TYPE_FLOAT, 32, 1},
			   foreign->shape,
			   foreign->strides,
			   4},
		.manager = foreign,
		.deleter = delete_plain,
	};
	foreign->versioned = (struct DLManagedTensorVersioned){
		.version = {1, 1},
		.manager = foreign,
		.deleter = delete_versioned,
		.flags = DLPACK_READ_ONLY,
		.tensor = foreign->plain.tensor,
	};
}

TEST(a_view_keeps_its_buffer_and_fits_in_it)
{
	struct vg_context *context = first_context();
	struct vg_memory_resource *pool;
	struct vg_layout fits = matrix(8, 8), too_large = matrix(8, 9);
	struct vg_stream *stream;
	struct vg_buffer *buffer;
	struct vg_view *view = NULL;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_device_pool_current(vg_context_device(context), &pool));
	OK(vg_buffer_create(pool, 256, stream, &buffer));
	REFUSED(vg_view_of_buffer(buffer, &too_large, f32, 0, &view), VG_INVALID, "needs 288 bytes, and there are 256");
	CHECK(view == NULL);
	OK(vg_view_of_buffer(buffer, &fits, f32, 0, &view));
	vg_buffer_destroy(buffer);
	CHECK(vg_view_buffer(view) == buffer);
	CHECK_INT(vg_view_kind(view), VG_MEMORY_DEVICE);
	CHECK_INT(vg_view_device(view), 0);
	CHECK(vg_view_is_device_accessible(view) && !vg_view_is_host_accessible(view));
	CHECK(vg_view_address(view) != 0);
	OK(vg_buffer_close(buffer, stream)); // the view keeps the buffer: the memory exists until the view is destroyed
	REFUSED(vg_view_of_buffer(buffer, &fits, f32, 0, &view), VG_CLOSED, "buffer has been closed");
	vg_view_destroy(view);
	vg_memory_resource_destroy(pool);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(an_imported_tensor_is_deleted_once_with_the_last_view_of_it)
{
	struct foreign foreign;
	struct vg_view *view, *other;

	make_foreign(&foreign);
	OK(vg_view_import(&foreign.plain, &view));
	CHECK(vg_view_address(view) == (uintptr_t)foreign.data + 4); // includes byte_offset
	CHECK_INT(vg_view_layout(view)->strides[1], 4);
	CHECK_INT(vg_view_device(view), -1);
	CHECK(!vg_view_is_read_only(view) && vg_view_is_host_accessible(view) && !vg_view_is_device_accessible(view));
	struct vg_layout row;
	OK(vg_layout_slice(vg_view_layout(view), 0, 0, 1, 1, &row));
	OK(vg_view_reinterpret(view, &row, NULL, &other));
	vg_view_destroy(view);
	CHECK_INT(foreign.deleted, 0);
	vg_view_destroy(other);
	CHECK_INT(foreign.deleted, 1);
	make_foreign(&foreign);
	OK(vg_view_import_versioned(&foreign.versioned, &view));
	CHECK(vg_view_is_read_only(view));
	vg_view_destroy(view);
	CHECK_INT(foreign.deleted, 1);
}

TEST(a_refused_tensor_is_not_deleted)
{
	struct foreign foreign;
	struct vg_view *view = NULL;

	make_foreign(&foreign);
	foreign.plain.tensor.device.type = 8; // Vulkan
	REFUSED(vg_view_import(&foreign.plain, &view), VG_UNSUPPORTED, "device type 8");
	make_foreign(&foreign);
	foreign.plain.tensor.rank = 65;
	REFUSED(vg_view_import(&foreign.plain, &view), VG_INVALID, "rank 65");
	make_foreign(&foreign);
	foreign.plain.tensor.rank = -1;
	REFUSED(vg_view_import(&foreign.plain, &view), VG_INVALID, "rank -1");
	make_foreign(&foreign);
	foreign.plain.tensor.shape = NULL;
	REFUSED(vg_view_import(&foreign.plain, &view), VG_INVALID, "shape is NULL");
	make_foreign(&foreign);
	foreign.plain.tensor.type.bits = 4;
	REFUSED(vg_view_import(&foreign.plain, &view), VG_UNSUPPORTED, "4 bits");
	make_foreign(&foreign);
	foreign.plain.tensor.type.lanes = 0;
	REFUSED(vg_view_import(&foreign.plain, &view), VG_INVALID, "0 bytes");
	make_foreign(&foreign);
	foreign.plain.tensor.data = NULL;
	REFUSED(vg_view_import(&foreign.plain, &view), VG_INVALID, "6 elements at address 0");
	make_foreign(&foreign);
	foreign.plain.tensor.byte_offset = UINT64_MAX;
	REFUSED(vg_view_import(&foreign.plain, &view), VG_INVALID, "byte_offset");
	make_foreign(&foreign);
	foreign.versioned.version.major = 2;
	REFUSED(vg_view_import_versioned(&foreign.versioned, &view), VG_UNSUPPORTED, "DLPack 2.1");
	REFUSED(vg_view_import(NULL, &view), VG_INVALID, "tensor is NULL");
	CHECK(view == NULL);
	CHECK_INT(foreign.deleted, 0);
}

static int dropped;

static void count_drop(void *owner)
{
	CHECK(owner == &dropped);
	dropped++;
}

TEST(an_exported_tensor_keeps_the_view_and_includes_the_offset)
{
	const struct vg_view_options options = {.size = sizeof options, .owner = &dropped, .release = count_drop};
	static float data[64];
	struct vg_layout layout = matrix(8, 8);
	struct DLManagedTensor *plain;
	struct DLManagedTensorVersioned *versioned;
	struct vg_view *view, *read_only;

	OK(vg_layout_slice(&layout, 0, 2, 6, 2, &layout));
	OK(vg_view_create((uintptr_t)data, &layout, f32, &options, &view));
	OK(vg_view_export(view, &plain));
	OK(vg_view_export_versioned(view, &versioned));
	vg_view_destroy(view);
	CHECK(plain->tensor.data == data + 16 && plain->tensor.byte_offset == 0);
	CHECK_INT(plain->tensor.rank, 2);
	CHECK_INT(plain->tensor.shape[0], 2);
	CHECK_INT(plain->tensor.strides[0], 16);
	CHECK_INT(plain->tensor.device.type, VG_MEMORY_HOST);
	CHECK_INT(versioned->flags, 0);
	CHECK_INT(versioned->version.major, 1);
	plain->deleter(plain);
	CHECK_INT(dropped, 0);
	versioned->deleter(versioned);
	CHECK_INT(dropped, 1);
	OK(vg_view_create((uintptr_t)data, &layout, f32,
			  &(struct vg_view_options){.size = sizeof options, .read_only = 1}, &read_only));
	REFUSED(vg_view_export(read_only, &plain), VG_UNSUPPORTED, "read-only");
	OK(vg_view_export_versioned(read_only, &versioned));
	CHECK_INT(versioned->flags, DLPACK_READ_ONLY);
	vg_view_destroy(read_only);
	versioned->deleter(versioned);
}

TEST(exported_views_are_imported_unchanged)
{
	static float data[64];
	struct vg_layout layout = matrix(4, 16);
	struct DLManagedTensorVersioned *tensor;
	struct vg_view *view, *back;

	OK(vg_layout_permute(&layout, (int[]){1, 0}, &layout));
	OK(vg_view_create((uintptr_t)data, &layout, f32, NULL, &view));
	OK(vg_view_export_versioned(view, &tensor));
	OK(vg_view_import_versioned(tensor, &back));
	vg_view_destroy(view);
	CHECK_INT(vg_view_address(back), (uintptr_t)data);
	CHECK_INT(vg_view_layout(back)->rank, 2);
	CHECK_INT(vg_view_layout(back)->shape[0], 16);
	CHECK_INT(vg_view_layout(back)->strides[0], 1);
	CHECK_INT(vg_view_type(back).code, VG_TYPE_FLOAT);
	vg_view_destroy(back);
}

TEST(reinterpreted_views_stay_within_the_bytes)
{
	static float data[64];
	const struct vg_data_type f64 = {VG_TYPE_FLOAT, 64, 1}, f32x4 = {VG_TYPE_FLOAT, 32, 4};
	struct vg_layout layout = matrix(8, 8), larger = matrix(8, 9);
	struct vg_view *view, *other;

	OK(vg_view_create((uintptr_t)data, &layout, f32, NULL, &view));
	REFUSED(vg_view_reinterpret(view, &larger, NULL, &other), VG_INVALID, "0 to 288: the view spans 0 to 256");
	REFUSED(vg_view_reinterpret(view, &layout, &f64, &other), VG_INVALID, "elements of 4 bytes, the type has 8");
	OK(vg_view_reinterpret(view, NULL, &f64, &other));
	CHECK_INT(vg_view_layout(other)->shape[1], 4);
	vg_view_destroy(other);
	OK(vg_view_reinterpret(view, NULL, &f32x4, &other));
	CHECK_INT(vg_view_layout(other)->shape[1], 2);
	vg_view_destroy(other);
	OK(vg_layout_slice(&layout, 1, 0, 3, 1, &layout));
	struct vg_view *narrow;
	OK(vg_view_reinterpret(view, &layout, NULL, &narrow));
	REFUSED(vg_view_reinterpret(narrow, NULL, &f64, &other), VG_INVALID, "no multiple of 8 bytes");
	vg_view_destroy(narrow);
	vg_view_destroy(view);
}

TEST(invalid_views_are_refused)
{
	struct vg_layout layout = matrix(2, 2);
	struct vg_view *view = NULL;

	REFUSED(vg_view_create(0, &layout, f32, NULL, &view), VG_INVALID, "4 elements at address 0");
	REFUSED(vg_view_create(4096, NULL, f32, NULL, &view), VG_INVALID, "layout is NULL");
	REFUSED(vg_view_create(4096, &layout, (struct vg_data_type){VG_TYPE_FLOAT, 0, 1}, NULL, &view), VG_INVALID,
		"0 bits");
	REFUSED(vg_view_create(4096, &layout, f32,
			       &(struct vg_view_options){.size = sizeof(struct vg_view_options), .kind = 8}, &view),
		VG_INVALID, "memory kind 8");
	REFUSED(vg_view_create(4096, &layout, f32, &(struct vg_view_options){.size = 3}, &view), VG_INVALID,
		"size is 3");
	layout.strides[0] = INT64_MAX;
	REFUSED(vg_view_create(4096, &layout, f32, NULL, &view), VG_INVALID, "2^63");
	REFUSED(vg_view_export(NULL, NULL), VG_INVALID, "view is NULL");
	CHECK(view == NULL);
}

static enum vg_status allocate_at_user(void *user, size_t size, struct vg_stream *stream,
				       struct vg_allocation *ret_allocation)
{
	*ret_allocation = (struct vg_allocation){(uintptr_t)user, size, NULL};
	return VG_OK;
}

static enum vg_status release_nothing(void *user, const struct vg_allocation *allocation, struct vg_stream *stream)
{
	return VG_OK;
}

TEST(inaccessible_memory_has_no_view)
{
	struct vg_memory_resource_operations operations = {.size = sizeof operations,
							   .name = "nowhere",
							   .allocate = allocate_at_user,
							   .deallocate = release_nothing,
							   .properties = {.device = -1}};
	static char memory[64];
	struct vg_layout layout = matrix(2, 2);
	struct vg_memory_resource *resource, *again;
	struct vg_view *view = NULL;
	struct vg_buffer *buffer;

	OK(vg_memory_resource_create(&operations, memory, &resource));
	again = vg_memory_resource_retain(resource);
	CHECK(again == resource && !vg_memory_resource_retain(NULL));
	vg_memory_resource_destroy(resource);
	// the object has another reference, which is still valid
	OK(vg_buffer_create(again, sizeof memory, NULL, &buffer));
	REFUSED(vg_view_of_buffer(buffer, &layout, f32, 0, &view), VG_UNSUPPORTED,
		"neither the host nor a device can reach the buffer");
	CHECK(!view);
	vg_buffer_destroy(buffer);
	vg_memory_resource_destroy(again);
}

static struct vg_memory_resource *pool_of(enum vg_memory_kind kind, struct vg_context *context)
{
	struct vg_memory_resource *resource;
	struct vg_device *device = vg_context_device(context);

	if (kind == VG_MEMORY_DEVICE)
		OK(vg_device_pool_current(device, &resource));
	else if (kind == VG_MEMORY_PINNED)
		OK(vg_legacy_pinned_resource_create(context, &resource));
	else
		OK(vg_managed_pool_current(device, &resource));
	return resource;
}

TEST(exported_views_keep_the_kind_of_memory)
{
	static const enum vg_memory_kind kinds[] = {VG_MEMORY_DEVICE, VG_MEMORY_PINNED, VG_MEMORY_MANAGED};
	struct vg_context *context = first_context();
	struct vg_layout layout = matrix(8, 8);
	struct DLManagedTensor *tensor;
	struct vg_stream *stream;
	struct vg_buffer *buffer;
	struct vg_view *view, *back;

	OK(vg_stream_create(context, NULL, &stream));
	for (int i = 0; i < 3; i++) {
		struct vg_memory_resource *resource = pool_of(kinds[i], context);
		OK(vg_buffer_create(resource, 256, stream, &buffer));
		OK(vg_view_of_buffer(buffer, &layout, f32, 0, &view));
		CHECK_INT(vg_view_kind(view), kinds[i]);
		CHECK_INT(vg_view_is_device_accessible(view), 1);
		CHECK_INT(vg_view_is_host_accessible(view), kinds[i] != VG_MEMORY_DEVICE);
		OK(vg_view_export(view, &tensor));
		CHECK_INT(tensor->tensor.device.type, kinds[i]);
		CHECK_INT(tensor->tensor.device.id, vg_view_device(view) < 0 ? 0 : vg_view_device(view));
		OK(vg_view_import(tensor, &back));
		CHECK_INT(vg_view_kind(back), kinds[i]);
		CHECK_INT(vg_view_address(back), vg_buffer_address(buffer));
		vg_memory_resource_destroy(resource);
		vg_buffer_destroy(buffer);
		vg_view_destroy(view);
		vg_view_destroy(back); // the view is the last user of the memory
	}
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

TEST(views_of_host_memory)
{
	static float data[64];
	struct vg_context *context = first_context();
	struct vg_layout layout = matrix(8, 8);
	struct vg_buffer *buffer;
	struct vg_view *view;

	OK(vg_buffer_borrow((uintptr_t)data, sizeof data, NULL, &buffer));
	OK(vg_view_of_buffer(buffer, &layout, f32, 1, &view));
	CHECK_INT(vg_view_kind(view), VG_MEMORY_HOST);
	CHECK_INT(vg_view_device(view), -1);
	CHECK(vg_view_is_read_only(view) && vg_view_is_host_accessible(view) && !vg_view_is_device_accessible(view));
	struct vg_view *part;
	OK(vg_view_reinterpret(view, NULL, NULL, &part));
	CHECK(vg_view_is_read_only(part)); // derived views are read-only, too
	vg_view_destroy(part);
	vg_view_destroy(view);
	vg_buffer_destroy(buffer);
	vg_context_destroy(context);
}

TEST(tensors_without_strides_and_without_deleter)
{
	struct foreign foreign;
	struct vg_view *view;

	make_foreign(&foreign);
	foreign.plain.tensor.strides = NULL;
	foreign.plain.deleter = NULL;
	OK(vg_view_import(&foreign.plain, &view));
	CHECK_INT(vg_view_layout(view)->strides[0], 3);
	CHECK_INT(vg_view_layout(view)->strides[1], 1);
	CHECK(vg_view_buffer(view) == NULL);
	vg_view_destroy(view);
	make_foreign(&foreign);
	foreign.plain.tensor.rank = 0;
	OK(vg_view_import(&foreign.plain, &view));
	CHECK_INT(vg_layout_volume(vg_view_layout(view)), 1);
	vg_view_destroy(view);
	make_foreign(&foreign);
	foreign.shape[1] = 0;
	foreign.plain.tensor.data = NULL; // an empty tensor may have no address
	OK(vg_view_import(&foreign.plain, &view));
	CHECK_INT(vg_layout_volume(vg_view_layout(view)), 0);
	vg_view_destroy(view);
	CHECK_INT(foreign.deleted, 1);
}

// Tests layouts, compared with a slow but simple model: the list of the offsets of all elements, in C order.
#include "core_test.h"

#include <stdbool.h>

enum { ELEMENTS_MOST = 4096 };

struct elements {
	int count;
	int64_t offsets[ELEMENTS_MOST];
};

static int64_t offset_of(const struct vg_layout *layout, const int64_t *index)
{
	int64_t offset = layout->offset;

	for (int i = 0; i < layout->rank; i++)
		offset += index[i] * layout->strides[i];
	return offset;
}

static struct elements elements_of(const struct vg_layout *layout)
{
	struct elements all = {0};
	int64_t index[VG_LAYOUT_RANK] = {0};
	int64_t volume = vg_layout_volume(layout);

	CHECK(volume <= ELEMENTS_MOST);
	while (all.count < volume) {
		all.offsets[all.count++] = offset_of(layout, index);
		for (int i = layout->rank; i-- > 0 && ++index[i] == layout->shape[i];)
			index[i] = 0;
	}
	return all;
}

static void check_same(const struct vg_layout *one, const struct vg_layout *other)
{
	struct elements a = elements_of(one), b = elements_of(other);

	CHECK_INT(a.count, b.count);
	CHECK(memcmp(a.offsets, b.offsets, (size_t)a.count * sizeof *a.offsets) == 0);
}

static unsigned int seed = 12345;

static int random_below(int limit)
{
	seed = seed * 1664525 + 1013904223;
	return (int)(seed >> 8) % limit;
}

// Makes a dense layout with a random order of axes, perhaps sliced or broadcast.
static struct vg_layout random_layout(void)
{
	struct vg_layout layout;
	int64_t shape[4];
	int axes[4], rank = 1 + random_below(4);

	for (int i = 0; i < rank; i++) {
		shape[i] = 1 + random_below(5);
		int at = random_below(i + 1);
		axes[i] = axes[at];
		axes[at] = i;
	}
	OK(vg_layout_dense_axes(rank, shape, 4, axes, &layout));
	for (int i = 0; i < rank; i++)
		if (random_below(3) == 0) {
			int64_t start = random_below((int)layout.shape[i] + 1);
			OK(vg_layout_slice(&layout, i, start, layout.shape[i], 1 + random_below(2), &layout));
		} else if (random_below(4) == 0)
			OK(vg_layout_slice(&layout, i, layout.shape[i] - 1, -1, -1, &layout));
	return layout;
}

TEST(reshape_keeps_the_order_or_is_unsupported)
{
	int reshaped = 0, refused = 0;

	for (int round = 0; round < 3000; round++) {
		struct vg_layout layout = random_layout(), flat, again;
		int64_t volume = vg_layout_volume(&layout);
		int64_t outer = volume ? 1 + random_below((int)volume) : 1;
		while (volume % outer)
			outer--;
		int64_t shape[3] = {volume ? outer : 0, 1, volume ? -1 : 3};

		enum vg_status status = vg_layout_reshape(&layout, 3, shape, &flat);
		if (status == VG_UNSUPPORTED) {
			// The library may refuse a reshape only if the offsets along a new axis are not evenly spaced.
			// Then no stride fits.
			struct elements all = elements_of(&layout);
			int64_t inner = volume / outer;
			bool even = true;
			for (int64_t i = 0; i < volume; i++)
				if (inner > 1 && i % inner > 0 &&
				    all.offsets[i] - all.offsets[i - 1] != all.offsets[1] - all.offsets[0])
					even = false;
				else if (i % inner == 0 && i > inner &&
					 all.offsets[i] - all.offsets[i - inner] != all.offsets[inner] - all.offsets[0])
					even = false;
			CHECK(!even);
			refused++;
			continue;
		}
		OK(status);
		check_same(&layout, &flat);
		OK(vg_layout_reshape(&flat, layout.rank, layout.shape, &again));
		check_same(&layout, &again);
		reshaped++;
	}
	CHECK(reshaped > 500 && refused > 50);
}

TEST(repeated_axis_is_not_merged_with_one_of_huge_stride)
{
	struct vg_layout layout, flat;

	// Two axes can become one if the outer stride is the inner extent times the inner stride. Here that product is
	// 2^63, which overflows, and the outer stride is 0. So the axes must stay separate.
	OK(vg_layout_strided(2, (int64_t[]){2, 2}, (int64_t[]){0, INT64_C(1) << 62}, 1, &layout));
	REFUSED(vg_layout_reshape(&layout, 1, (int64_t[]){4}, &flat), VG_UNSUPPORTED, "has gaps");
}

TEST(permute_squeeze_and_unsqueeze_change_indices_only)
{
	for (int round = 0; round < 1000; round++) {
		struct vg_layout layout = random_layout(), other, back;
		int axes[4], inverse[4];

		for (int i = 0; i < layout.rank; i++) {
			int at = random_below(i + 1);
			axes[i] = axes[at];
			axes[at] = i;
		}
		for (int i = 0; i < layout.rank; i++)
			inverse[axes[i]] = i;
		OK(vg_layout_permute(&layout, axes, &other));
		CHECK_INT(vg_layout_volume(&other), vg_layout_volume(&layout));
		OK(vg_layout_permute(&other, inverse, &back));
		check_same(&layout, &back);
		OK(vg_layout_unsqueeze(&layout, random_below(layout.rank + 1), &other));
		CHECK_INT(other.rank, layout.rank + 1);
		check_same(&layout, &other);
		OK(vg_layout_squeeze(&layout, &other));
		check_same(&layout, &other);
		for (int i = 0; i < other.rank; i++)
			CHECK(other.shape[i] != 1);
	}
}

TEST(queries_match_the_list_of_elements)
{
	for (int round = 0; round < 3000; round++) {
		struct vg_layout layout = random_layout();
		struct elements all = elements_of(&layout);
		int64_t least, greatest, low = all.count ? all.offsets[0] : 0, high = low;
		bool c_order = true;

		for (int i = 0; i < all.count; i++) {
			low = all.offsets[i] < low ? all.offsets[i] : low;
			high = all.offsets[i] > high ? all.offsets[i] : high;
			c_order &= all.offsets[i] == all.offsets[0] + i;
		}
		vg_layout_bounds(&layout, &least, &greatest);
		CHECK_INT(least, low);
		CHECK_INT(greatest, high);
		CHECK_INT(vg_layout_is_contiguous_c(&layout), c_order);
		CHECK_INT(vg_layout_is_unique(&layout), 1); // slices of dense layouts are unique
		int reversed[4];
		struct vg_layout transposed;
		for (int i = 0; i < layout.rank; i++)
			reversed[i] = layout.rank - 1 - i;
		OK(vg_layout_permute(&layout, reversed, &transposed));
		CHECK_INT(vg_layout_is_contiguous_f(&transposed), c_order);
		if (c_order)
			CHECK(vg_layout_is_contiguous(&layout) && vg_layout_is_contiguous(&transposed));
	}
}

TEST(layouts_are_contiguous_in_any_order_without_gaps)
{
	struct vg_layout layout;

	OK(vg_layout_dense_axes(3, (int64_t[]){2, 3, 4}, 4, (int[]){1, 2, 0}, &layout));
	CHECK(vg_layout_is_contiguous(&layout) && !vg_layout_is_contiguous_c(&layout) &&
	      !vg_layout_is_contiguous_f(&layout));
	OK(vg_layout_slice(&layout, 0, 0, 1, 1, &layout));
	CHECK(!vg_layout_is_contiguous(&layout));
}

TEST(broadcast_layouts_are_not_unique)
{
	struct vg_layout layout;

	OK(vg_layout_dense(2, (int64_t[]){3, 1}, 8, VG_ORDER_C, &layout));
	OK(vg_layout_broadcast(&layout, 3, (int64_t[]){2, 3, 4}, &layout));
	CHECK_INT(layout.strides[0], 0);
	CHECK_INT(layout.strides[1], 1);
	CHECK_INT(layout.strides[2], 0);
	CHECK(!vg_layout_is_unique(&layout));
	REFUSED(vg_layout_broadcast(&layout, 3, (int64_t[]){2, 5, 4}, &layout), VG_INVALID,
		"shape[1] is 5: 3 elements");
	REFUSED(vg_layout_broadcast(&layout, 2, (int64_t[]){3, 4}, &layout), VG_INVALID, "3 axes cannot become 2");
}

TEST(repack_needs_a_multiple_of_the_new_size)
{
	struct vg_layout layout, other;
	size_t most;

	OK(vg_layout_dense(2, (int64_t[]){6, 8}, 4, VG_ORDER_F, &layout));
	CHECK(layout.strides[0] == 1 && layout.strides[1] == 6);
	OK(vg_layout_dense(2, (int64_t[]){6, 8}, 4, VG_ORDER_C, &layout));
	CHECK(layout.strides[0] == 8 && layout.strides[1] == 1);
	OK(vg_layout_repack(&layout, 1, 16, &other));
	CHECK_INT(other.shape[0], 6);
	CHECK_INT(other.shape[1], 2);
	CHECK_INT(other.strides[0], 2);
	CHECK_INT(other.item_size, 16);
	OK(vg_layout_repack(&other, 1, 2, &other));
	CHECK_INT(other.shape[1], 16);
	REFUSED(vg_layout_repack(&layout, 1, 12, &other), VG_INVALID, "no multiple of 12 bytes");
	REFUSED(vg_layout_repack(&layout, 0, 8, &other), VG_INVALID, "axis 0 has a stride of 8");
	OK(vg_layout_max_item_size(&layout, 1, 4096, 16, &most));
	CHECK_INT(most, 16);
	OK(vg_layout_max_item_size(&layout, 1, 4096 + 8, 16, &most));
	CHECK_INT(most, 8);
	OK(vg_layout_slice(&layout, 1, 1, 7, 1, &layout)); // the first element of the slice is at offset 4
	OK(vg_layout_max_item_size(&layout, 1, 4096, 16, &most));
	CHECK_INT(most, 4);
}

TEST(invalid_arguments_are_refused_and_change_nothing)
{
	struct vg_layout layout = {.rank = 7}, dense;
	int64_t huge[] = {INT64_MAX, 2}, shape[] = {4, 5};

	REFUSED(vg_layout_dense(65, shape, 4, VG_ORDER_C, &layout), VG_INVALID, "rank 65: a layout has 0 to 64 axes");
	REFUSED(vg_layout_dense(-1, shape, 4, VG_ORDER_C, &layout), VG_INVALID, "rank -1");
	REFUSED(vg_layout_dense(2, NULL, 4, VG_ORDER_C, &layout), VG_INVALID, "shape is NULL");
	REFUSED(vg_layout_dense(2, shape, 0, VG_ORDER_C, &layout), VG_INVALID, "0 bytes");
	REFUSED(vg_layout_dense(2, huge, 4, VG_ORDER_C, &layout), VG_INVALID, "2^63");
	REFUSED(vg_layout_dense(1, (int64_t[]){-3}, 4, VG_ORDER_C, &layout), VG_INVALID, "shape[0] is -3");
	REFUSED(vg_layout_dense(2, shape, 4, 9, &layout), VG_INVALID, "order 9");
	REFUSED(vg_layout_dense_axes(2, shape, 4, (int[]){0, 0}, &layout), VG_INVALID, "axes[1] is 0");
	REFUSED(vg_layout_dense_axes(2, shape, 4, NULL, &layout), VG_INVALID, "axes is NULL");
	REFUSED(vg_layout_strided(2, shape, (int64_t[]){INT64_MAX, 1}, 4, &layout), VG_INVALID, "2^63");
	REFUSED(vg_layout_strided(2, shape, (int64_t[]){1, INT64_MIN}, 4, &layout), VG_INVALID, "2^63");
	REFUSED(vg_layout_strided(1, (int64_t[]){2}, (int64_t[]){INT64_MAX / 4}, 8, &layout), VG_INVALID, "2^63");
	CHECK_INT(layout.rank, 7);
	OK(vg_layout_dense(2, shape, 4, VG_ORDER_C, &dense));
	REFUSED(vg_layout_slice(&dense, 2, 0, 1, 1, &layout), VG_INVALID, "axis 2: the layout has 2");
	REFUSED(vg_layout_slice(&dense, 0, 0, 5, 1, &layout), VG_INVALID, "axis 0 has 4 elements");
	REFUSED(vg_layout_slice(&dense, 0, 3, 1, 1, &layout), VG_INVALID, "from 3 to 1 by 1");
	REFUSED(vg_layout_slice(&dense, 0, 0, 1, 0, &layout), VG_INVALID, "a step of 0");
	REFUSED(vg_layout_slice(&dense, 0, 4, -1, -1, &layout), VG_INVALID, "from 4 to -1");
	REFUSED(vg_layout_reshape(&dense, 2, (int64_t[]){-1, -1}, &layout), VG_INVALID, "one may be -1");
	REFUSED(vg_layout_reshape(&dense, 2, (int64_t[]){3, -1}, &layout), VG_INVALID, "20 elements do not fit");
	REFUSED(vg_layout_flatten(&dense, 1, 0, &layout), VG_INVALID, "axes 1 to 0");
	REFUSED(vg_layout_unsqueeze(&dense, 3, &layout), VG_INVALID, "before 3");
	REFUSED(vg_layout_permute(NULL, (int[]){0}, &layout), VG_INVALID, "layout is NULL");
	CHECK_INT(layout.rank, 7);
}

TEST(required_size_includes_the_last_element)
{
	struct vg_layout layout;
	size_t bytes;

	OK(vg_layout_strided(2, (int64_t[]){3, 4}, (int64_t[]){10, 2}, 4, &layout));
	OK(vg_layout_required_size(&layout, &bytes));
	CHECK_INT(bytes, (2 * 10 + 3 * 2 + 1) * 4);
	OK(vg_layout_strided(1, (int64_t[]){3}, (int64_t[]){-1}, 4, &layout));
	REFUSED(vg_layout_required_size(&layout, &bytes), VG_INVALID, "2 elements before the pointer");
	OK(vg_layout_dense(2, (int64_t[]){0, 4}, 4, VG_ORDER_C, &layout));
	OK(vg_layout_required_size(&layout, &bytes));
	CHECK_INT(bytes, 0);
	OK(vg_layout_dense(0, NULL, 4, VG_ORDER_C, &layout));
	OK(vg_layout_required_size(&layout, &bytes));
	CHECK_INT(bytes, 4);
}

TEST(flatten_merges_axes)
{
	struct vg_layout layout, flat;

	OK(vg_layout_dense(4, (int64_t[]){2, 3, 4, 5}, 4, VG_ORDER_C, &layout));
	OK(vg_layout_flatten(&layout, 1, 2, &flat));
	CHECK_INT(flat.rank, 3);
	CHECK_INT(flat.shape[1], 12);
	check_same(&layout, &flat);
	OK(vg_layout_flatten(&layout, 0, 3, &flat));
	CHECK_INT(flat.rank, 1);
	check_same(&layout, &flat);
	OK(vg_layout_flatten(&layout, 2, 2, &flat));
	CHECK_INT(flat.rank, 4);
	check_same(&layout, &flat);
	// Keep 3 of the 4 elements along axis 2. The stride of axis 1 still covers 4, so the axes cannot become one.
	OK(vg_layout_slice(&layout, 2, 0, 3, 1, &layout));
	REFUSED(vg_layout_flatten(&layout, 1, 2, &flat), VG_UNSUPPORTED, "has gaps");
	OK(vg_layout_flatten(&layout, 2, 3, &flat));
	check_same(&layout, &flat);
}

// Passes layouts whose fields the program itself has set to invalid values.
TEST(invalid_layouts_are_refused)
{
	struct vg_layout odd = {.rank = VG_LAYOUT_RANK + 1, .item_size = 4}, result = {.rank = 7};
	size_t size = 77;
	int64_t least, greatest;

	for (int i = 0; i < 2; i++, odd.rank = -1) {
		REFUSED(vg_layout_permute(&odd, (int[VG_LAYOUT_RANK + 1]){0}, &result), VG_INVALID,
			"a layout has 0 to 64 axes");
		REFUSED(vg_layout_squeeze(&odd, &result), VG_INVALID, "axes");
		REFUSED(vg_layout_unsqueeze(&odd, 0, &result), VG_INVALID, "axes");
		REFUSED(vg_layout_broadcast(&odd, 1, (int64_t[]){2}, &result), VG_INVALID, "axes");
		REFUSED(vg_layout_slice(&odd, 0, 0, 1, 1, &result), VG_INVALID, "axes");
		REFUSED(vg_layout_reshape(&odd, 1, (int64_t[]){1}, &result), VG_INVALID, "axes");
		REFUSED(vg_layout_flatten(&odd, 0, 0, &result), VG_INVALID, "axes");
		REFUSED(vg_layout_repack(&odd, 0, 2, &result), VG_INVALID, "axes");
		REFUSED(vg_layout_max_item_size(&odd, 0, 0, 16, &size), VG_INVALID, "axes");
		REFUSED(vg_layout_required_size(&odd, &size), VG_INVALID, "axes");
		CHECK_INT(vg_layout_volume(&odd), 0);
		vg_layout_bounds(&odd, &least, &greatest);
		CHECK(least == 0 && greatest == 0);
		CHECK(!vg_layout_is_contiguous(&odd) && !vg_layout_is_contiguous_c(&odd) &&
		      !vg_layout_is_contiguous_f(&odd));
		CHECK(!vg_layout_is_unique(&odd));
	}
	CHECK_INT(result.rank, 7);
	CHECK_INT(size, 77);
	result = (struct vg_layout){.rank = 1, .shape = {4}, .strides = {INT64_MAX / 2}, .item_size = 4};
	REFUSED(vg_layout_slice(&result, 0, 3, 4, 1, &odd), VG_INVALID, "beyond 2^63");
}

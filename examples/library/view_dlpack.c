// Passes a tensor to another library and back by DLPack, without a copy: half of a matrix, transposed. It needs no GPU.
#include "check.h"

enum { ROWS = 4, COLUMNS = 6 };

static void free_owner(void *owner)
{
	*(int *)owner += 1;
}

static float read_element(const struct vg_view *view, int64_t row, int64_t column)
{
	const struct vg_layout *layout = vg_view_layout(view);
	const float *first = (const float *)(uintptr_t)vg_view_address(view) + layout->offset;

	return first[row * layout->strides[0] + column * layout->strides[1]];
}

int main(void)
{
	static const struct vg_data_type f32 = {VG_TYPE_FLOAT, 32, 1};
	static float matrix[ROWS][COLUMNS];
	int dropped = 0, wrong = 0;
	struct vg_view_options options = {.size = sizeof options, .owner = &dropped, .release = free_owner};
	struct DLManagedTensor *tensor;
	struct vg_layout layout;
	struct vg_view *ours, *theirs;

	for (int i = 0; i < ROWS; i++)
		for (int j = 0; j < COLUMNS; j++)
			matrix[i][j] = 10.0f * i + j;

	// Describes every other column of the matrix, transposed.
	check(vg_layout_dense(2, (int64_t[]){ROWS, COLUMNS}, sizeof(float), VG_ORDER_C, &layout));
	check(vg_layout_slice(&layout, 1, 0, COLUMNS, 2, &layout));
	check(vg_layout_permute(&layout, (int[]){1, 0}, &layout));
	check(vg_view_create((uintptr_t)matrix, &layout, f32, &options, &ours));

	// Passes the tensor to a stand-in for another library, which reads it.
	check(vg_view_export(ours, &tensor));
	vg_view_destroy(ours);
	check(vg_view_import(tensor, &theirs));
	for (int i = 0; i < COLUMNS / 2; i++)
		for (int j = 0; j < ROWS; j++)
			wrong += read_element(theirs, i, j) != matrix[j][2 * i];
	int early = dropped;
	vg_view_destroy(theirs);

	printf("view_dlpack: %d elements are wrong; the matrix was let go %d times, %d of them too early\n", wrong,
	       dropped, early);
	return wrong || early || dropped != 1;
}

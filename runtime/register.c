// Registers images, kernels and variables: host code compiled by nvcc calls these functions before main().
#include "register.h"

#include <stdlib.h>

#include "generated.h"

struct rt_image {
	const void *wrapper;
	pthread_mutex_t lock;
	CUlibrary library; // NULL: the image is not loaded yet
	bool has_managed, is_managed_ready;
	struct rt_symbol *symbols;
	struct rt_image *next;
};

static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rt_image *images;
static atomic_bool managed_pending; // whether an image with managed variables is not loaded yet

void **CUDARTAPI __cudaRegisterFatBinary(void *fatCubin)
{
	struct rt_image *image = calloc(1, sizeof *image);

	if (!image)
		abort(); // the function cannot return an error, and the program needs its kernels
	image->wrapper = fatCubin;
	pthread_mutex_init(&image->lock, NULL);
	pthread_mutex_lock(&images_lock);
	image->next = images;
	images = image;
	pthread_mutex_unlock(&images_lock);
	return (void **)image;
}

void CUDARTAPI __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
}

static void unlink_image(struct rt_image *image)
{
	pthread_mutex_lock(&images_lock);
	for (struct rt_image **link = &images; *link; link = &(*link)->next)
		if (*link == image) {
			*link = image->next;
			break;
		}
	pthread_mutex_unlock(&images_lock);
}

void CUDARTAPI __cudaUnregisterFatBinary(void **fatCubinHandle)
{
	struct rt_image *image = (struct rt_image *)fatCubinHandle;

	if (!image)
		return;
	unlink_image(image);
	for (struct rt_symbol *symbol = image->symbols, *next; symbol; symbol = next) {
		next = symbol->next;
		rt_table_remove(symbol);
		free(symbol);
	}
	if (image->library && rt_initialize() == cudaSuccess)
		rt_driver.cuLibraryUnload(image->library); // may fail at exit, when the driver may be unloaded already
	pthread_mutex_destroy(&image->lock);
	free(image);
}

static void add_symbol(void **handle, enum rt_symbol_kind kind, const void *key, const char *name, size_t size,
		       void **managed)
{
	struct rt_image *image = (struct rt_image *)handle;
	struct rt_symbol *symbol = calloc(1, sizeof *symbol);

	if (!symbol)
		abort();
	*symbol = (struct rt_symbol){
		.kind = kind, .key = key, .name = name, .image = image, .managed = managed, .size = size};
	pthread_mutex_lock(&image->lock);
	symbol->next = image->symbols;
	image->symbols = symbol;
	image->has_managed |= managed != NULL;
	pthread_mutex_unlock(&image->lock);
	if (managed)
		atomic_store(&managed_pending, true);
	// A managed variable is added when it is allocated, because its key is its address.
	if (!managed && rt_table_add(symbol) != cudaSuccess)
		abort();
}

void CUDARTAPI __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
				      const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim,
				      dim3 *gDim, int *wSize)
{
	add_symbol(fatCubinHandle, RT_FUNCTION, hostFun, deviceName, 0, NULL);
}

void CUDARTAPI __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName,
				 int ext, size_t size, int constant, int global)
{
	add_symbol(fatCubinHandle, RT_VARIABLE, hostVar, deviceName, size, NULL);
}

void CUDARTAPI __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
					const char *deviceName, int ext, size_t size, int constant, int global)
{
	add_symbol(fatCubinHandle, RT_MANAGED, NULL, deviceName, size, hostVarPtrAddress);
}

// Loads the image and allocates its managed variables. The caller has image->lock.
static cudaError_t load_image(struct rt_image *image)
{
	CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
	void *value = (void *)1;

	if (!image->library)
		RT_TRY(rt_driver.cuLibraryLoadData(&image->library, image->wrapper, NULL, NULL, 0, &option, &value, 1));
	if (!image->has_managed || image->is_managed_ready)
		return cudaSuccess;
	for (struct rt_symbol *symbol = image->symbols; symbol; symbol = symbol->next) {
		CUdeviceptr address;
		size_t size;
		if (symbol->kind != RT_MANAGED || symbol->key)
			continue;
		RT_TRY(rt_driver.cuLibraryGetManaged(&address, &size, image->library, symbol->name));
		symbol->key = *symbol->managed = (void *)address;
		RT_TRY(rt_table_add(symbol));
	}
	image->is_managed_ready = true;
	return cudaSuccess;
}

cudaError_t rt_image_load(struct rt_image *image, CUlibrary *ret_library)
{
	cudaError_t error;

	RT_TRY(rt_initialize());
	pthread_mutex_lock(&image->lock);
	error = load_image(image);
	if (error == cudaSuccess)
		*ret_library = image->library;
	pthread_mutex_unlock(&image->lock);
	return error;
}

cudaError_t rt_images_load_managed(void)
{
	cudaError_t error = cudaSuccess;
	CUlibrary library;

	if (!atomic_exchange(&managed_pending, false))
		return cudaSuccess;
	pthread_mutex_lock(&images_lock);
	for (struct rt_image *image = images; image && error == cudaSuccess; image = image->next)
		if (image->has_managed)
			error = rt_image_load(image, &library);
	pthread_mutex_unlock(&images_lock);
	if (error != cudaSuccess)
		atomic_store(&managed_pending, true);
	return error;
}

char CUDARTAPI __cudaInitModule(void **fatCubinHandle)
{
	CUlibrary library;
	cudaError_t error = rt_enter();

	if (error == cudaSuccess)
		error = rt_image_load((struct rt_image *)fatCubinHandle, &library);
	return rt_record(error) == cudaSuccess;
}

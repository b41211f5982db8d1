// Checks that cuBLASLt and cuDNN are found and have all functions of the tables, and that our declarations of cuDNN
// agree with its header. Loading them needs no GPU.
#include "driver/math.h"
#include "test.h"

#include <sys/wait.h>

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(VG_CUDNN_FLOAT, CUDNN_DATA_FLOAT);
SAME(VG_CUDNN_DOUBLE, CUDNN_DATA_DOUBLE);
SAME(VG_CUDNN_HALF, CUDNN_DATA_HALF);
SAME(VG_CUDNN_BFLOAT16, CUDNN_DATA_BFLOAT16);
SAME(VG_CUDNN_NCHW, CUDNN_TENSOR_NCHW);
SAME(VG_CUDNN_CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(VG_CUDNN_DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME(VG_CUDNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
SAME(VG_CUDNN_FMA_MATH, CUDNN_FMA_MATH);
SAME(VG_CUDNN_ALGORITHM_DIRECT, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT);
SAME(VG_CUDNN_ALGORITHMS, CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
SAME(sizeof(struct vg_cudnn_algorithm), sizeof(cudnnConvolutionFwdAlgoPerf_t));
SAME(offsetof(struct vg_cudnn_algorithm, workspace), offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
SAME(offsetof(struct vg_cudnn_algorithm, math), offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));
#endif

// Runs in a child, since a loaded library stays. Returns the exit status: 0, or 77 if the library is missing.
static int run_in_child(int (*run)(void), const char *variable, const char *value)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		if (variable)
			setenv(variable, value, 1);
		_exit(run());
	}
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int load_cublaslt(void)
{
	const struct vg_cublaslt *table, *again;
	char problem[1000] = "";

	if (vg_cublaslt_load(&table, problem, sizeof problem)) {
		printf("%s\n", problem);
		fflush(stdout);
		return strstr(problem, "VIRGATE_CUBLASLT") ? 77 : 1;
	}
	printf("cuBLASLt %d.%d: %s\n", table->major, table->minor, table->path);
	fflush(stdout);
	return vg_cublaslt_load(&again, problem, sizeof problem) || again != table || table->major < 12;
}

static int load_cudnn(void)
{
	const struct vg_cudnn *table, *again;
	char problem[1000] = "";

	if (vg_cudnn_load(&table, problem, sizeof problem)) {
		printf("%s\n", problem);
		fflush(stdout);
		return strstr(problem, "VIRGATE_CUDNN") ? 77 : 1;
	}
	printf("cuDNN %d.%d: %s\n", table->major, table->minor, table->path);
	fflush(stdout);
	return vg_cudnn_load(&again, problem, sizeof problem) || again != table || table->major != 9;
}

TEST(cublaslt_is_loaded)
{
	int status = run_in_child(load_cublaslt, NULL, NULL);

	if (status == 77)
		SKIP("no cuBLASLt");
	CHECK_INT(status, 0);
}

TEST(cudnn_is_loaded)
{
	int status = run_in_child(load_cudnn, NULL, NULL);

	if (status == 77)
		SKIP("no cuDNN");
	CHECK_INT(status, 0);
}

// No other file replaces one that the user names.
TEST(named_file_that_is_missing_is_refused)
{
	CHECK_INT(run_in_child(load_cublaslt, "VIRGATE_CUBLASLT", "/nowhere/libcublasLt.so.13"), 77);
	CHECK_INT(run_in_child(load_cudnn, "VIRGATE_CUDNN", "/nowhere/libcudnn.so.9"), 77);
}

TEST(named_file_of_another_library_is_refused)
{
	CHECK_INT(run_in_child(load_cublaslt, "VIRGATE_CUBLASLT", "libm.so.6"), 77);
	CHECK_INT(run_in_child(load_cudnn, "VIRGATE_CUDNN", "libm.so.6"), 77);
}

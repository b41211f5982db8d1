// Relaxed atomic functions, for the types for which CUDA has them. Each returns the old value.
#pragma once
#include "language.h"

// Prevents the compiler from deducing T from the second argument, which is converted to the type that the first
// argument points to.
template <typename T> struct atomic_operand {
	typedef T type;
};
#define OPERAND typename atomic_operand<T>::type

template <typename T> DEVICE_FUNCTION T atomicAdd(T *at, OPERAND value)
{
	return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
DEVICE_FUNCTION float atomicAdd(float *at, float value)
{
	return __nvvm_atom_add_gen_f(at, value);
}
DEVICE_FUNCTION double atomicAdd(double *at, double value)
{
	double before;
	asm volatile("atom.add.f64 %0, [%1], %2;" : "=d"(before) : "l"(at), "d"(value) : "memory");
	return before;
}
template <typename T> DEVICE_FUNCTION T atomicSub(T *at, OPERAND value)
{
	return __atomic_fetch_sub(at, value, __ATOMIC_RELAXED);
}
template <typename T> DEVICE_FUNCTION T atomicMin(T *at, OPERAND value)
{
	return __atomic_fetch_min(at, value, __ATOMIC_RELAXED);
}
template <typename T> DEVICE_FUNCTION T atomicMax(T *at, OPERAND value)
{
	return __atomic_fetch_max(at, value, __ATOMIC_RELAXED);
}
template <typename T> DEVICE_FUNCTION T atomicAnd(T *at, OPERAND value)
{
	return __atomic_fetch_and(at, value, __ATOMIC_RELAXED);
}
template <typename T> DEVICE_FUNCTION T atomicOr(T *at, OPERAND value)
{
	return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}
template <typename T> DEVICE_FUNCTION T atomicXor(T *at, OPERAND value)
{
	return __atomic_fetch_xor(at, value, __ATOMIC_RELAXED);
}
template <typename T> DEVICE_FUNCTION T atomicExch(T *at, OPERAND value)
{
	T before;
	__atomic_exchange(at, &value, &before, __ATOMIC_RELAXED);
	return before;
}
template <typename T> DEVICE_FUNCTION T atomicCAS(T *at, OPERAND expected, OPERAND value)
{
	__atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return expected;
}
#undef OPERAND

// atomicInc counts up to `last` and then starts again at 0; atomicDec counts down to 0 and then starts again at `last`.
DEVICE_FUNCTION unsigned int atomicInc(unsigned int *at, unsigned int last)
{
	return __nvvm_atom_inc_gen_ui(at, last);
}
DEVICE_FUNCTION unsigned int atomicDec(unsigned int *at, unsigned int last)
{
	return __nvvm_atom_dec_gen_ui(at, last);
}

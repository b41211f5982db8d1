// Atomic functions, relaxed, of the types that CUDA has them for. Each returns the value before.
#pragma once
#include "language.h"

// T as such: the second argument is converted to the type behind the first.
template <typename T> struct atomic_operand {
	typedef T type;
};
#define OPERAND typename atomic_operand<T>::type

template <typename T> DEVICE_FUNCTION T atomicAdd(T *at, OPERAND value)
{
	return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
DEVICE_FUNCTION float atomicAdd(float *at, float value) { return __nvvm_atom_add_gen_f(at, value); }
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

// Counts to `last` and begins again at 0; counts down to 0 and begins again at `last`.
DEVICE_FUNCTION unsigned int atomicInc(unsigned int *at, unsigned int last) { return __nvvm_atom_inc_gen_ui(at, last); }
DEVICE_FUNCTION unsigned int atomicDec(unsigned int *at, unsigned int last) { return __nvvm_atom_dec_gen_ui(at, last); }

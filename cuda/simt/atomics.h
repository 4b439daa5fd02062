#pragma once

#include "cuda/simt/qualifiers.h"

/// Read-modify-write operations on shared and global memory. Each returns the value before it.
///
/// They are atomic among the threads of a block, and among blocks that run on several workers. Like the device's they
/// order nothing else: pair them with __threadfence() where other memory depends on them.
#if SIMT_ON_CPU

#include <cuda_bf16.h>

int atomicAdd(int* address, int value);
unsigned atomicAdd(unsigned* address, unsigned value);
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value);
float atomicAdd(float* address, float value);
double atomicAdd(double* address, double value);
__nv_bfloat16 atomicAdd(__nv_bfloat16* address, __nv_bfloat16 value);
int atomicSub(int* address, int value);
unsigned atomicSub(unsigned* address, unsigned value);

int atomicMin(int* address, int value);
unsigned atomicMin(unsigned* address, unsigned value);
long long atomicMin(long long* address, long long value);
unsigned long long atomicMin(unsigned long long* address, unsigned long long value);
int atomicMax(int* address, int value);
unsigned atomicMax(unsigned* address, unsigned value);
long long atomicMax(long long* address, long long value);
unsigned long long atomicMax(unsigned long long* address, unsigned long long value);

int atomicExch(int* address, int value);
unsigned atomicExch(unsigned* address, unsigned value);
unsigned long long atomicExch(unsigned long long* address, unsigned long long value);
float atomicExch(float* address, float value);
/// Stores `value` where the old value is `expected`.
int atomicCAS(int* address, int expected, int value);
unsigned atomicCAS(unsigned* address, unsigned expected, unsigned value);
unsigned long long atomicCAS(unsigned long long* address, unsigned long long expected, unsigned long long value);

int atomicAnd(int* address, int value);
unsigned atomicAnd(unsigned* address, unsigned value);
unsigned long long atomicAnd(unsigned long long* address, unsigned long long value);
int atomicOr(int* address, int value);
unsigned atomicOr(unsigned* address, unsigned value);
unsigned long long atomicOr(unsigned long long* address, unsigned long long value);
int atomicXor(int* address, int value);
unsigned atomicXor(unsigned* address, unsigned value);
unsigned long long atomicXor(unsigned long long* address, unsigned long long value);
/// old >= limit ? 0 : old + 1
unsigned atomicInc(unsigned* address, unsigned limit);
/// old == 0 || old > limit ? limit : old − 1
unsigned atomicDec(unsigned* address, unsigned limit);

#endif

// What OpenCL C, CUDA C++ and host C++ call differently, for kernels in what the three have in common. It is
// put before the source of every kernel.
//
//     KERNEL(add)(GLOBAL const float *x, GLOBAL float *y, LONG count) {
//         if (WORK_ITEM < count)
//             y[WORK_ITEM] += x[WORK_ITEM];
//     }
//
// BYTE (8 bits), UINT (32 bits), ULONG (64 bits) are unsigned; LONG has 64 bits and a sign; GLOBAL marks a
// pointer to the device's memory. A FUNCTION is what kernels call. A KERNEL is called for every WORK_ITEM,
// and for some past the last, which it must leave alone.
//
// A GROUP_KERNEL(name, width, height) is called for groups of width * height items, at most 256, which share
// LOCAL memory. Its statements are the whole group's, except in the blocks after ITEMS and PHASE, which every
// item does: LOCAL_X and LOCAL_Y say which one, GROUP which group. A PHASE begins when
// all items have ended the block before it; ITEMS begins at once, for what touches no LOCAL memory that
// another item writes. Variables that live from one block to the next are PRIVATE(type, name), read and
// written as MINE(name). So host C++ runs a phase as a loop over the items, and needs no threads.
//
// No templates, no recursion, no library.

#if defined(__OPENCL_VERSION__)

#define BYTE uchar
#define UINT uint
#define LONG long
#define ULONG ulong
#define GLOBAL __global
#define LOCAL __local
#define FUNCTION static
// As opencl.py launches them.
#define KERNEL(name) __kernel __attribute__((reqd_work_group_size(64, 1, 1))) void name
#define GROUP_KERNEL(name, width, height)                                                                    \
    __kernel __attribute__((reqd_work_group_size(width, height, 1))) void name
#define WORK_ITEM ((long)get_global_id(0))
#define GROUP ((long)get_group_id(0))
#define LOCAL_X ((int)get_local_id(0))
#define LOCAL_Y ((int)get_local_id(1))
#define ITEMS
#define PHASE barrier(CLK_LOCAL_MEM_FENCE);
#define PRIVATE(type, name) type name
#define MINE(name) name
#define ATOMIC_MAX(pointer, value) atomic_max(pointer, value)
#define ATOMIC_ADD(pointer, value) add_atomically(pointer, value)
#define ATOMIC_EXCHANGE(pointer, value) atomic_xchg(pointer, value)

// OpenCL 1.2 has no atomic addition of floats.
static void add_atomically(volatile __global float *pointer, float value) {
    volatile __global int *bits = (volatile __global int *)pointer;
    int seen = *bits;
    for (;;) {
        const int found = atomic_cmpxchg(bits, seen, as_int(as_float(seen) + value));
        if (found == seen)
            return;
        seen = found;
    }
}

#elif defined(__CUDACC__)

#define BYTE unsigned char
#define UINT unsigned int
#define LONG long long
#define ULONG unsigned long long
#define GLOBAL
#define LOCAL __shared__
#define FUNCTION static __device__ __forceinline__
#define KERNEL(name) extern "C" __global__ void name
#define GROUP_KERNEL(name, width, height)                                                                    \
    extern "C" __global__ void __launch_bounds__((width) * (height)) name
#define WORK_ITEM ((long long)blockIdx.x * blockDim.x + threadIdx.x)
#define GROUP ((long long)blockIdx.x)
#define LOCAL_X ((int)threadIdx.x)
#define LOCAL_Y ((int)threadIdx.y)
#define ITEMS
#define PHASE __syncthreads();
#define PRIVATE(type, name) type name
#define MINE(name) name
#define ATOMIC_MAX(pointer, value) atomicMax(pointer, value)
#define ATOMIC_ADD(pointer, value) atomicAdd(pointer, value)
#define ATOMIC_EXCHANGE(pointer, value) atomicExch(pointer, value)
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

#else

#include <utility>

#define BYTE unsigned char
#define UINT unsigned int
#define LONG long long
#define ULONG unsigned long long
#define GLOBAL
#define LOCAL
#define FUNCTION [[maybe_unused]] static inline
#define KERNEL(name) static void name
#define GROUP_KERNEL(name, width, height) static void name
#define WORK_ITEM host_item
#define GROUP host_group
#define LOCAL_X host_x
#define LOCAL_Y host_y
#define ITEMS                                                                                                \
    for (int host_y = 0; host_y < host_items[1]; ++host_y)                                                   \
        for (int host_x = 0; host_x < host_items[0]; ++host_x)
#define PHASE ITEMS
#define PRIVATE(type, name) type name[256]
#define MINE(name) name[host_y * host_items[0] + host_x]
#define ATOMIC_MAX(pointer, value) (*(pointer) = *(pointer) < (value) ? (value) : *(pointer))
#define ATOMIC_ADD(pointer, value) (*(pointer) += (value))
#define ATOMIC_EXCHANGE(pointer, value) std::exchange(*(pointer), value)

// Where the launch is that this thread runs.
static thread_local long long host_item, host_group;
static thread_local int host_items[2];

#define HOST_MATH(name)                                                                                      \
    [[maybe_unused]] static inline float name(float x) { return __builtin_##name##f(x); }                    \
    [[maybe_unused]] static inline double name(double x) { return __builtin_##name(x); }
HOST_MATH(ceil)
HOST_MATH(cos)
HOST_MATH(erf)
HOST_MATH(exp)
HOST_MATH(expm1)
HOST_MATH(fabs)
HOST_MATH(floor)
HOST_MATH(log)
HOST_MATH(log1p)
HOST_MATH(rint)
HOST_MATH(sin)
HOST_MATH(sqrt)
HOST_MATH(tanh)
[[maybe_unused]] static inline float pow(float x, float y) { return __builtin_powf(x, y); }
[[maybe_unused]] static inline double pow(double x, double y) { return __builtin_pow(x, y); }
[[maybe_unused]] static inline float fmod(float x, float y) { return __builtin_fmodf(x, y); }
[[maybe_unused]] static inline double fmod(double x, double y) { return __builtin_fmod(x, y); }
#define isfinite(x) __builtin_isfinite(x)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

#endif

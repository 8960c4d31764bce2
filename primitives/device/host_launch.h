// Calls kernels of host C++, after their source: `launch` for one of HOST_KERNELS, which lists
// HOST_KERNEL(name) and HOST_GROUP_KERNEL(name) by position.

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

// Numbers below the smallest normal one count as 0 where the kernels were built so.
struct HostMode {
#if HOST_FLUSHES_SUBNORMALS && defined(__x86_64__)
    unsigned before = _mm_getcsr();
    HostMode() { _mm_setcsr(before | 0x8040); }
    ~HostMode() { _mm_setcsr(before); }
#elif HOST_FLUSHES_SUBNORMALS && defined(__aarch64__)
    unsigned long before;
    HostMode() {
        asm volatile("mrs %0, fpcr" : "=r"(before));
        asm volatile("msr fpcr, %0" ::"r"(before | 1ul << 24) : "memory");
    }
    ~HostMode() { asm volatile("msr fpcr, %0" ::"r"(before) : "memory"); }
#endif
};

template <class... A, std::size_t... I>
static inline void host_call(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A *>(arguments[I])...);
}

template <class... A>
static inline void host_run(void (*kernel)(A...), const long long *count, void **arguments) {
    for (host_item = 0; host_item < *count; ++host_item)
        host_call(kernel, arguments, std::index_sequence_for<A...>());
}

template <class... A>
static inline void host_run_groups(void (*kernel)(A...), const long long *count, void **arguments) {
    for (int axis = 0; axis < 2; ++axis)
        host_items[axis] = static_cast<int>(count[1 + axis]);
    for (host_group = 0; host_group < *count; ++host_group)
        host_call(kernel, arguments, std::index_sequence_for<A...>());
}

// count: the work items of a KERNEL; of a GROUP_KERNEL the groups, and the items of a group along x and y.
// arguments: the address of each.
extern "C" void launch(int number, const long long *count, void **arguments) {
    const HostMode mode;
    (void)mode;
    switch (number) {
#define HOST_KERNEL(number, name)                                                                            \
    case number:                                                                                             \
        return host_run(name, count, arguments);
#define HOST_GROUP_KERNEL(number, name)                                                                      \
    case number:                                                                                             \
        return host_run_groups(name, count, arguments);
        HOST_KERNELS
    }
}

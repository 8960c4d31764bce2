#include "sum_tree/native/kernels.hpp"

namespace placerl::sum_tree {

template <typename Real>
const Kernels<Real> *kernels(const std::string &name) {
    const Kernels<Real> *candidates[] = {nullptr, nullptr, portable_kernels<Real>()};
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        candidates[0] = avx512_kernels<Real>();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        candidates[1] = avx2_kernels<Real>();
#endif
    for (const Kernels<Real> *candidate : candidates)
        if (candidate && (name.empty() || name == candidate->name))
            return candidate;
    return nullptr;
}

template const Kernels<float> *kernels<float>(const std::string &);
template const Kernels<double> *kernels<double>(const std::string &);

} // namespace placerl::sum_tree

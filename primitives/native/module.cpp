// The extension module `primitives._native`: each primitive's bindings register a submodule here.
#include <nanobind/nanobind.h>

#include "environments/native/bindings.hpp"
#include "learner/fused/bindings.hpp"
#include "learner/native/bindings.hpp"
#include "learner/relaxed/bindings.hpp"
#include "quantization/native/bindings.hpp"
#include "replay/native/bindings.hpp"
#include "sum_tree/native/bindings.hpp"
#include "training/native/bindings.hpp"

namespace nb = nanobind;

namespace {

// The widest vector instruction set of the processor that runs this, of those that kernels are built for.
const char *simd_level() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "avx2";
#endif
    return "portable";
}

} // namespace

NB_MODULE(_native, m) {
    m.doc() = "Native C++ primitives";
    m.def("simd_level", &simd_level, "Widest usable instruction set: 'avx512', 'avx2' or 'portable'.");
    placerl::sum_tree::bind_sum_tree(m);
    placerl::replay::bind_replay(m);
    placerl::learner::bind_learner(m);
    placerl::fused::bind_fused(m);
    placerl::environments::bind_environments(m);
    placerl::relaxed::bind_relaxed(m);
    placerl::quantization::bind_quantization(m);
    placerl::training::bind_training(m);
}

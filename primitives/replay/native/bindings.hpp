#pragma once

#include <atomic>
#include <cstdint>

#include <nanobind/nanobind.h>

namespace placerl::replay {

class ConcurrentReplay;

// What is inside a Python replay, for code that works on it without Python; valid while `replay` lives.
struct Parts {
    ConcurrentReplay *replay;
    std::atomic<int64_t> *samples_drawn;
    double priority_max;
};
Parts parts_of(nanobind::handle replay);

// Adds the submodule `replay` to the extension.
void bind_replay(nanobind::module_ &parent);

} // namespace placerl::replay

// Fixed-point operations: those of quantization/native, which count what does not fit its format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "quantization/native/operation.hpp"

namespace placerl::learner {

struct FixedPoint {
    std::shared_ptr<quantization::Operation> operation;
    std::vector<std::int64_t *> counts; // where each of what it counts is added to; the program's

    void run() const { operation->run(); }

    // Adds up what the last run counted; not by several threads at once.
    void count() const {
        for (std::size_t i = 0; i < counts.size(); ++i)
            *counts[i] += operation->saturated[i];
    }

    // See `quantization::Operation::stages`.
    std::vector<std::vector<FixedPoint>> stages(int threads, double part_ns) const {
        std::vector<std::vector<FixedPoint>> made;
        for (quantization::Parts &parts : operation->stages(threads, part_ns)) {
            std::vector<FixedPoint> &stage = made.emplace_back();
            for (auto &part : parts)
                stage.push_back({std::move(part), counts});
        }
        return made;
    }

    bool is_idle() const { return operation->is_idle(); }
};

} // namespace placerl::learner

// Nodes of fixed-point step graphs as objects that are made once and run at every step. The executor of step
// graphs (learner/native/program.hpp) holds them, in parts where several threads share one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace placerl::quantization {

class Operation;
// Parts of an operation that may run side by side.
using Parts = std::vector<std::shared_ptr<Operation>>;

class Operation {
  public:
    explicit Operation(size_t counted) : saturated(counted) {}
    virtual ~Operation() = default;

    virtual void run() = 0;

    // About how long it takes on one core.
    virtual double cost_ns() const { return 0; }

    // Stages, one after the other, that together do the work, each in parts; the counts of all parts add up
    // to the whole's. A part is worth some `part_ns` at least. None where the operation stays whole.
    virtual std::vector<Parts> stages(int threads, double part_ns) {
        Parts parts = split(worthwhile(cost_ns(), threads, part_ns));
        return parts.size() < 2 ? std::vector<Parts>{} : std::vector<Parts>{std::move(parts)};
    }

    // Whether there is nothing to do for this part of a stage, and so for the others.
    virtual bool is_idle() const { return false; }

    // How many numbers did not fit in the last run, by what they are.
    std::vector<int64_t> saturated;

  protected:
    Operation(const Operation &) = default;
    Operation &operator=(const Operation &) = delete;

    // The operation in at most so many parts; none where it cannot be cut.
    virtual Parts split(int) const { return {}; }

    static int worthwhile(double cost_ns, int threads, double part_ns) {
        int parts = threads;
        while (parts > 1 && cost_ns < parts * part_ns)
            --parts;
        return parts;
    }
};

} // namespace placerl::quantization

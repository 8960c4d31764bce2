// Nodes of fixed-point step graphs as objects that are made once and run at every step, one after another.
#pragma once

#include <cstdint>
#include <vector>

namespace placerl::quantization {

class Operation {
  public:
    explicit Operation(size_t counted) : saturated(counted) {}
    virtual ~Operation() = default;
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;

    // Whether it ran; where it did not, nothing changed, and only the definition can.
    virtual bool run() = 0;

    // How many numbers did not fit in the last run, by what they are.
    std::vector<int64_t> saturated;
};

class Sequence {
  public:
    explicit Sequence(int labels) : counts(static_cast<size_t>(labels)) {}

    // `labels` has an index into `counts` for each of the operation's `saturated`. Whoever adds an operation
    // keeps it.
    void add(Operation *operation, std::vector<int> labels) {
        entries_.push_back({operation, std::move(labels)});
    }

    // From operation `first` on: the number of the first that did not run, or of all.
    int run(int first) {
        const int size = static_cast<int>(entries_.size());
        for (int i = first; i < size; ++i) {
            const Entry &entry = entries_[static_cast<size_t>(i)];
            if (!entry.operation->run())
                return i;
            for (size_t k = 0; k < entry.labels.size(); ++k)
                counts[static_cast<size_t>(entry.labels[k])] += entry.operation->saturated[k];
        }
        return size;
    }

    std::vector<int64_t> counts; // of what did not fit so far

  private:
    struct Entry {
        Operation *operation;
        std::vector<int> labels;
    };
    std::vector<Entry> entries_;
};

} // namespace placerl::quantization

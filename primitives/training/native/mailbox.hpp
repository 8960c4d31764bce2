// The newest weights, from a learner to the actors' own copies.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace placerl::training {

// A matrix of float32 with its strides, in elements; a vector has one row.
struct Block {
    float *data;
    int64_t rows, columns, row_stride, column_stride;

    int64_t size() const { return rows * columns; }
    bool dense() const {
        return (column_stride == 1 && (row_stride == columns || rows == 1)) ||
               (row_stride == 1 && (column_stride == rows || columns == 1));
    }
};

inline void copy(const Block &from, const Block &to) {
    if (from.row_stride == to.row_stride && from.column_stride == to.column_stride && from.dense()) {
        std::memcpy(to.data, from.data, size_t(from.size()) * sizeof(float));
        return;
    }
    for (int64_t r = 0; r < from.rows; ++r)
        for (int64_t c = 0; c < from.columns; ++c)
            to.data[r * to.row_stride + c * to.column_stride] =
                from.data[r * from.row_stride + c * from.column_stride];
}

class Mailbox {
  public:
    // `like`: the weights of the learner that publishes, in its layout.
    explicit Mailbox(const std::vector<Block> &like) : held_(like) {
        size_t size = 0;
        for (const Block &block : like) {
            if (!block.dense())
                throw std::invalid_argument("weights: allowed: dense matrices and vectors");
            size += size_t(block.size());
        }
        memory_.resize(size);
        float *at = memory_.data();
        for (Block &block : held_) {
            block.data = at;
            at += block.size();
        }
    }

    void publish(const std::vector<Block> &from) {
        const std::lock_guard lock(mutex_);
        for (size_t i = 0; i < held_.size(); ++i)
            copy(from[i], held_[i]);
        version_.fetch_add(1, std::memory_order_release);
    }

    // Copies the weights if they are newer than version `seen`, which it then updates.
    void take(uint64_t &seen, const std::vector<Block> &to) {
        if (version_.load(std::memory_order_acquire) == seen)
            return;
        const std::lock_guard lock(mutex_);
        for (size_t i = 0; i < held_.size(); ++i)
            copy(held_[i], to[i]);
        seen = version_.load(std::memory_order_relaxed);
    }

  private:
    std::vector<Block> held_;
    std::vector<float> memory_;
    std::mutex mutex_;
    std::atomic<uint64_t> version_{0};
};

} // namespace placerl::training

// Probes of a machine's memory and threads, for its card: what one load, one copied byte and one hand-over
// cost.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace placerl::machines {

constexpr std::size_t LINE_BYTES = 64;

// Loads, each of which needs the result of the one before: a random cycle through all lines of a footprint,
// so that no prefetcher knows the next line.
class PointerChase {
  public:
    explicit PointerChase(std::size_t footprint_bytes) : next_(footprint_bytes / LINE_BYTES) {
        if (next_.size() < 2)
            throw std::invalid_argument("footprint_bytes: allowed: at least two lines of 64 bytes");
        for (std::size_t i = 0; i < next_.size(); ++i)
            next_[i].to = i;
        std::mt19937_64 random(0);
        for (std::size_t i = next_.size() - 1; i > 0; --i) // Sattolo's algorithm: one cycle
            std::swap(next_[i].to, next_[random() % i].to);
    }

    std::size_t lines() const { return next_.size(); }

    // The line reached after some loads from where the last call ended.
    std::size_t run(std::int64_t loads) {
        std::size_t at = at_;
        for (std::int64_t i = 0; i < loads; ++i)
            at = next_[at].to;
        return at_ = at;
    }

  private:
    struct alignas(LINE_BYTES) Line {
        std::size_t to;
    };

    std::vector<Line> next_;
    std::size_t at_ = 0;
};

// Copies between the halves of a footprint, to and fro, by the C library.
class Copies {
  public:
    explicit Copies(std::size_t footprint_bytes) : memory_(footprint_bytes / 2 * 2) {
        if (memory_.empty())
            throw std::invalid_argument("footprint_bytes: allowed: at least 2");
        for (std::size_t i = 0; i < half(); ++i)
            memory_[i] = static_cast<unsigned char>(i * 31 + 7);
    }

    void run(std::int64_t copies) {
        unsigned char *from = memory_.data(), *to = from + half();
        for (std::int64_t i = 0; i < copies; ++i) {
            std::memcpy(to, from, half());
            std::swap(from, to);
        }
    }
    bool halves_are_equal() const {
        return std::memcmp(memory_.data(), memory_.data() + half(), half()) == 0;
    }

  private:
    std::size_t half() const { return memory_.size() / 2; }

    std::vector<unsigned char> memory_;
};

// Turns that two threads take, each asleep until the other wakes it; returns how many turns the other one
// took.
inline std::int64_t hand_over(std::int64_t turns) {
    std::atomic<std::int64_t> turn{0};
    std::int64_t taken = 0;
    std::thread other([&] {
        for (std::int64_t i = 1; i < 2 * turns; i += 2, ++taken) {
            for (std::int64_t seen; (seen = turn.load()) != i;)
                turn.wait(seen);
            turn.store(i + 1);
            turn.notify_one();
        }
    });
    for (std::int64_t i = 0; i < 2 * turns; i += 2) {
        turn.store(i + 1);
        turn.notify_one();
        for (std::int64_t seen; (seen = turn.load()) != i + 2;)
            turn.wait(seen);
    }
    other.join();
    return taken;
}

} // namespace placerl::machines

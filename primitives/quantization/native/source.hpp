// An operand of matrix products, line by line along its own memory, and what products read of it. The forward
// and both backward products of a layer read the same numbers: those that come after the first take over what
// that one made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "quantization/native/digit_plan.hpp"
#include "quantization/native/kernels.hpp"

namespace placerl::quantization {

// How an operand is read: as it is, or as centred codes of an n-bit rule.
struct Reading {
    bool coded = false;
    double factor = 0, lowest = 0, highest = 0;
    bool operator==(const Reading &) const = default;
};

// In how many digits of how many bits, less what offset.
struct Cut {
    int count = 0, bits = 0;
    int32_t offset = 0;
    bool operator==(const Cut &) const = default;
};

class Source {
  public:
    // `lines` of `length` integers, `stride` apart, those of a line `step` apart.
    Source(const Kernels *kernels, const int32_t *data, long lines, long length, long stride, long step)
        : kernels_(kernels), data_(data), lines_(lines), length_(length), stride_(stride), step_(step),
          padded_((length + 31) & ~31L) {}

    // Read from now on so. What was made is forgotten where the numbers are `fresh`, or read otherwise.
    void read(const Reading &reading, bool fresh) {
        if (!fresh && reading == reading_)
            return;
        reading_ = reading;
        extremes_.reset(), cut_.reset(), whole_.reset();
    }

    // What the range of the integers is that products read.
    Extremes extremes() {
        if (reading_.coded) // codes' extremes are their rule's
            return {std::min(0, static_cast<int32_t>(reading_.lowest)),
                    std::max(0, static_cast<int32_t>(reading_.highest))};
        if (!extremes_) {
            Extremes found;
            if (step_ == 1 && stride_ == length_)
                kernels_->extremes(data_, lines_ * length_, &found.low, &found.high);
            else
                for (long i = 0; i < lines_; ++i)
                    kernels_->extremes(line(i), length_, &found.low, &found.high);
            extremes_ = found;
        }
        return *extremes_;
    }

    // In digits, valid until the next call; adds the codes that saturate.
    Digits digits(const Cut &cut, bool along_depth, int64_t &saturated) {
        const long plane = (lines_ + 1) * padded_;
        if (cut_ != cut) {
            split(cut, plane);
            cut_ = cut;
            sums_of_ = 0;
        }
        saturated += saturated_;
        return {planes_.data(), plane, padded_, cut.count, cut.bits, along_depth, cut.offset};
    }

    // The largest sums of magnitudes over spans of the depth, of an operand of one digit; see `Kernels`.
    const std::vector<int64_t> &magnitude_sums(const Digits &digits) {
        if (const int wanted = digits.along_depth ? 1 : 2; sums_of_ != wanted) {
            const long depth = digits.along_depth ? length_ : lines_;
            sums_.resize(static_cast<size_t>((depth + SPAN - 1) / SPAN));
            kernels_->magnitude_sums(digits, lines_, length_, sums_.data());
            sums_of_ = wanted;
        }
        return sums_;
    }

    // As integers of 32 bits, `length` apart, valid until the next call; null where the data are that
    // themselves.
    const int32_t *whole(int64_t &saturated) {
        if (!reading_.coded)
            return nullptr;
        if (!whole_) {
            codes_.resize(static_cast<size_t>(lines_ * length_));
            whole_ = 0;
            for (long i = 0; i < lines_; ++i)
                *whole_ += kernels_->codes(line(i), codes_.data() + i * length_, length_, reading_.factor,
                                           reading_.lowest, reading_.highest);
        }
        saturated += *whole_;
        return codes_.data();
    }

  private:
    void split(const Cut &cut, long plane) {
        if (const auto size = static_cast<size_t>(plane) * static_cast<size_t>(cut.count);
            planes_.size() < size)
            planes_.resize(size); // zeros: what is behind the ends of lines stays so
        saturated_ = 0;
        for (long i = 0; i < lines_; ++i) {
            int16_t *target = planes_.data() + i * padded_;
            if (reading_.coded && cut.count == 1) {
                saturated_ += kernels_->short_codes(line(i), target, length_, reading_.factor,
                                                    static_cast<int32_t>(reading_.lowest),
                                                    static_cast<int32_t>(reading_.highest), cut.offset);
                continue;
            }
            const int32_t *x = line(i);
            if (reading_.coded) {
                line_codes_.resize(static_cast<size_t>(length_));
                saturated_ += kernels_->codes(x, line_codes_.data(), length_, reading_.factor,
                                              reading_.lowest, reading_.highest);
                x = line_codes_.data();
            }
            kernels_->split(x, length_, cut.offset, cut.count, cut.bits, target, plane);
        }
    }

    const int32_t *line(long i) {
        const int32_t *x = data_ + i * stride_;
        if (step_ == 1 || length_ == 1)
            return x;
        line_.resize(static_cast<size_t>(length_));
        for (long j = 0; j < length_; ++j)
            line_[static_cast<size_t>(j)] = x[j * step_];
        return line_.data();
    }

    const Kernels *kernels_;
    const int32_t *data_;
    long lines_, length_, stride_, step_, padded_;
    Reading reading_;
    std::optional<Extremes> extremes_;
    std::optional<Cut> cut_;       // of the planes
    std::optional<int64_t> whole_; // how many of the codes saturated
    int64_t saturated_ = 0;        // of the planes' codes
    int sums_of_ = 0;              // 1 along lines, 2 across them
    std::vector<int64_t> sums_;
    std::vector<int16_t> planes_;
    std::vector<int32_t> codes_, line_codes_, line_;
};

} // namespace placerl::quantization

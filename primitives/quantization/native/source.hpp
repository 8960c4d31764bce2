// An operand of matrix products, line by line along its own memory, and what products read of it. The forward
// and both backward products of a layer read the same numbers: those that come after the first take over what
// that one made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
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
    // Where a line is put together that does not lie so; one for each thread.
    struct Scratch {
        std::vector<int32_t> line, codes;
    };

    // `lines` of `length` integers, `stride` apart, those of a line `step` apart.
    Source(const Kernels *kernels, const int32_t *data, long lines, long length, long stride, long step)
        : kernels_(kernels), data_(data), lines_(lines), length_(length), stride_(stride), step_(step),
          padded_((length + 31) & ~31L) {}

    long lines() const { return lines_; }
    long length() const { return length_; }

    // Read from now on so. What was made is forgotten where the numbers are `fresh`, or read otherwise.
    void read(const Reading &reading, bool fresh) {
        if (!fresh && reading == reading_)
            return;
        reading_ = reading;
        extremes_.reset(), cut_.reset(), whole_.reset();
    }

    // What the range of the integers is that products read, which has to be looked for in some lines after
    // the other where it is not `known`.
    bool is_known() const { return reading_.coded || extremes_; }
    Extremes extremes() const {
        if (reading_.coded) // codes' extremes are their rule's
            return {std::min(0, static_cast<int32_t>(reading_.lowest)),
                    std::max(0, static_cast<int32_t>(reading_.highest))};
        return *extremes_;
    }
    Extremes look(long first, long count, Scratch &scratch) const {
        Extremes found;
        if (step_ == 1 && stride_ == length_)
            kernels_->extremes(data_ + first * stride_, count * length_, &found.low, &found.high);
        else
            for (long i = first; i < first + count; ++i)
                kernels_->extremes(line(i, scratch.line), length_, &found.low, &found.high);
        return found;
    }
    void know(const Extremes &found) { extremes_ = found; }

    // In digits, valid until the next cut: `begin_cut` says whether there is anything to do, for all lines,
    // by `cut_lines`, which returns how many codes saturate; `end_cut` has the sum of that.
    bool begin_cut(const Cut &cut) {
        if (cut_ == cut)
            return false;
        cut_ = cut, sums_of_ = 0;
        // A vector more, which parts of lines may read past the end.
        if (const auto size = static_cast<size_t>(plane()) * static_cast<size_t>(cut.count) + 32;
            planes_.size() < size)
            planes_.resize(size); // zeros: what is behind the ends of lines stays so
        return true;
    }
    int64_t cut_lines(long first, long count, Scratch &scratch) {
        const Cut &cut = *cut_;
        int64_t saturated = 0;
        for (long i = first; i < first + count; ++i) {
            int16_t *target = planes_.data() + i * padded_;
            const int32_t *x = line(i, scratch.line);
            if (reading_.coded && cut.count == 1) {
                saturated += kernels_->short_codes(x, target, length_, reading_.factor,
                                                   static_cast<int32_t>(reading_.lowest),
                                                   static_cast<int32_t>(reading_.highest), cut.offset);
                continue;
            }
            if (reading_.coded) {
                scratch.codes.resize(static_cast<size_t>(length_));
                saturated += kernels_->codes(x, scratch.codes.data(), length_, reading_.factor,
                                             reading_.lowest, reading_.highest);
                x = scratch.codes.data();
            }
            kernels_->split(x, length_, cut.offset, cut.count, cut.bits, target, plane());
        }
        return saturated;
    }
    void end_cut(int64_t saturated) { saturated_ = saturated; }
    // Adds the codes that saturated.
    Digits digits(bool along_depth, int64_t &saturated) const {
        saturated += saturated_;
        return {planes_.data(), plane(), padded_, cut_->count, cut_->bits, along_depth, cut_->offset};
    }

    // The largest sums of magnitudes over spans of the depth, of an operand of one digit; see `Kernels`.
    // Lines across the depth come in whole spans.
    bool has_sums(bool along_depth) const { return sums_of_ == (along_depth ? 1 : 2); }
    long spans(bool along_depth) const { return ((along_depth ? length_ : lines_) + SPAN - 1) / SPAN; }
    void add_sums(bool along_depth, long first, long count, std::vector<int64_t> &sums) const {
        int64_t none = 0;
        Digits some = digits(along_depth, none);
        some.planes += first * padded_;
        if (along_depth) {
            sums.resize(static_cast<size_t>(spans(true)));
            kernels_->magnitude_sums(some, count, length_, sums.data());
        } else {
            sums.assign(static_cast<size_t>(spans(false)), 0);
            kernels_->magnitude_sums(some, count, length_, sums.data() + first / SPAN);
        }
    }
    void set_sums(bool along_depth, std::vector<int64_t> sums) {
        sums_ = std::move(sums), sums_of_ = along_depth ? 1 : 2;
    }
    const std::vector<int64_t> &sums() const { return sums_; }

    // As integers of 32 bits, `length` apart, valid until the next call; null where the data are that
    // themselves. As for digits: `begin_whole`, `code_lines`, `end_whole`.
    bool begin_whole() {
        if (!reading_.coded || whole_)
            return false;
        codes_.resize(static_cast<size_t>(lines_ * length_));
        return true;
    }
    int64_t code_lines(long first, long count, Scratch &scratch) {
        int64_t saturated = 0;
        for (long i = first; i < first + count; ++i)
            saturated += kernels_->codes(line(i, scratch.line), codes_.data() + i * length_, length_,
                                         reading_.factor, reading_.lowest, reading_.highest);
        return saturated;
    }
    void end_whole(int64_t saturated) { whole_ = saturated; }
    const int32_t *whole(int64_t &saturated) const {
        if (!reading_.coded)
            return nullptr;
        saturated += *whole_;
        return codes_.data();
    }

  private:
    long plane() const { return (lines_ + 1) * padded_; }

    const int32_t *line(long i, std::vector<int32_t> &scratch) const {
        const int32_t *x = data_ + i * stride_;
        if (step_ == 1 || length_ == 1)
            return x;
        scratch.resize(static_cast<size_t>(length_));
        for (long j = 0; j < length_; ++j)
            scratch[static_cast<size_t>(j)] = x[j * step_];
        return scratch.data();
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
    std::vector<int32_t> codes_;
};

} // namespace placerl::quantization

// Nodes of fixed-point step graphs that move numbers, and add up those that meet, as whole numbers of 64
// bits.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "learner/native/ranges.hpp"
#include "quantization/native/numbers.hpp"
#include "quantization/native/operation.hpp"

namespace placerl::quantization {

constexpr double MOVED_NS = 4; // about, for an element that is looked up

inline long looked_up(const Numbers &index, long offset, long limit) {
    const int64_t i = index.whole(offset);
    if (i < 0 || i >= limit)
        throw std::out_of_range("index: found " + std::to_string(i) + "; allowed: 0 .. " +
                                std::to_string(limit - 1));
    return static_cast<long>(i);
}

// y at each index of `shape` = x at that index, but along one axis at what the index array says.
class Gather : public Operation {
  public:
    // x: strides along `shape`, 0 along the axis, where they are `axis_stride` and there are `limit` numbers.
    Gather(std::vector<long> shape, Numbers x, long axis_stride, long limit, Numbers index, Numbers y,
           Conversion as)
        : Operation(1), shape_(std::move(shape)), x_(std::move(x)), index_(std::move(index)),
          y_(std::move(y)), axis_stride_(axis_stride), limit_(limit), as_(as) {}

    void run() override {
        int64_t out_of_format = 0;
        for_indices<3>(shape_, {&x_.strides, &index_.strides, &y_.strides}, [&](const auto &offsets) {
            const long from = offsets[0] + looked_up(index_, offsets[1], limit_) * axis_stride_;
            out_of_format += is_float(x_.kind) ? as_.store(y_, offsets[2], x_.real(from))
                                               : as_.store(y_, offsets[2], x_.whole(from));
        });
        saturated[0] = out_of_format;
    }

    double cost_ns() const override { return static_cast<double>(product_of(shape_)) * MOVED_NS; }

  protected:
    Parts split(int parts) const override {
        Parts made;
        if (shape_.empty())
            return made;
        for (const auto &[first, size] : learner::ranges(shape_[0], 1, parts)) {
            auto part = std::make_shared<Gather>(*this);
            part->shape_[0] = size;
            for (Numbers *numbers : {&part->x_, &part->index_, &part->y_})
                numbers->data = numbers->at(first * numbers->strides[0]);
            made.push_back(std::move(part));
        }
        return made;
    }

  private:
    std::vector<long> shape_;
    Numbers x_, index_, y_;
    long axis_stride_, limit_;
    Conversion as_;
};

// y = x, and what the index array says added to along one axis.
class ScatterAdd : public Operation {
  public:
    // x and y: of `shape`. source and index: of `index_shape`, along which `sums_strides` lead through a
    // dense array of `shape`, 0 along the axis, where they are `axis_stride` and there are `limit` numbers.
    ScatterAdd(std::vector<long> shape, Numbers x, Numbers y, std::vector<long> index_shape, Numbers source,
               Numbers index, std::vector<long> sums_strides, long axis_stride, long limit, Conversion as)
        : Operation(1), shape_(std::move(shape)), index_shape_(std::move(index_shape)), x_(std::move(x)),
          y_(std::move(y)), source_(std::move(source)), index_(std::move(index)),
          sums_strides_(std::move(sums_strides)), axis_stride_(axis_stride), limit_(limit), as_(as),
          sums_(static_cast<size_t>(product_of(shape_))) {}

    void run() override {
        int64_t *sum = sums_.data();
        for_indices<1>(shape_, {&x_.strides}, [&](const auto &offsets) { *sum++ = x_.whole(offsets[0]); });
        for_indices<3>(
            index_shape_, {&source_.strides, &index_.strides, &sums_strides_}, [&](const auto &offsets) {
                const long i = looked_up(index_, offsets[1], limit_);
                sums_[static_cast<size_t>(offsets[2] + i * axis_stride_)] += source_.whole(offsets[0]);
            });
        int64_t out_of_format = 0;
        sum = sums_.data();
        for_indices<1>(shape_, {&y_.strides},
                       [&](const auto &offsets) { out_of_format += as_.store(y_, offsets[0], *sum++); });
        saturated[0] = out_of_format;
    }

  private:
    std::vector<long> shape_, index_shape_;
    Numbers x_, y_, source_, index_;
    std::vector<long> sums_strides_;
    long axis_stride_, limit_;
    Conversion as_;
    std::vector<int64_t> sums_;
};

// Sizes of a convolution's patches.
struct Window {
    long batch, channels, height, width;
    long out_height, out_width, kernel_height, kernel_width;
    long stride_height, stride_width, padding_height, padding_width;

    long patch_size() const { return channels * kernel_height * kernel_width; }
    long image_size() const { return channels * height * width; }
};

// The values under the kernel at each place of an image, one row per place; zeros outside it.
class Patches : public Operation {
  public:
    // image: fixed-point (batch, channels, height, width). patches: dense.
    Patches(Window window, Numbers image, Numbers patches, Conversion as)
        : Operation(1), window_(window), image_(std::move(image)), patches_(std::move(patches)), as_(as) {}

    void run() override {
        const Window &w = window_;
        int64_t out_of_format = 0;
        long to = 0;
        for (long b = 0; b < w.batch; ++b)
            for (long i = 0; i < w.out_height; ++i)
                for (long j = 0; j < w.out_width; ++j)
                    for (long c = 0; c < w.channels; ++c)
                        for (long k = 0; k < w.kernel_height; ++k, to += w.kernel_width)
                            out_of_format += line(b, c, i * w.stride_height - w.padding_height + k,
                                                  j * w.stride_width - w.padding_width, to);
        saturated[0] = out_of_format;
    }

    double cost_ns() const override {
        const Window &w = window_;
        return static_cast<double>(w.batch * w.out_height * w.out_width * w.patch_size());
    }

  protected:
    Parts split(int parts) const override {
        Parts made;
        for (const auto &[first, size] : learner::ranges(window_.batch, 1, parts)) {
            auto part = std::make_shared<Patches>(*this);
            part->window_.batch = size;
            part->image_.data = image_.at(first * image_.strides[0]);
            part->patches_.data =
                patches_.at(first * window_.out_height * window_.out_width * window_.patch_size());
            made.push_back(std::move(part));
        }
        return made;
    }

  private:
    // A line of the kernel, from `left` on.
    int64_t line(long b, long c, long row, long left, long to) {
        const Window &w = window_;
        const long step = image_.strides[3];
        const bool inside = row >= 0 && row < w.height;
        const long first = inside ? std::clamp(-left, 0L, w.kernel_width) : w.kernel_width;
        const long last = inside ? std::clamp(w.width - left, first, w.kernel_width) : w.kernel_width;
        const long from =
            b * image_.strides[0] + c * image_.strides[1] + row * image_.strides[2] + left * step;
        int64_t out_of_format = 0;
        for (long l = 0; l < first; ++l)
            as_.store(patches_, to + l, int64_t(0));
        if (as_.copies) {
            const auto *x = reinterpret_cast<const int32_t *>(image_.data);
            auto *y = reinterpret_cast<int32_t *>(patches_.data) + to;
            for (long l = first; l < last; ++l)
                y[l] = x[from + l * step];
        } else {
            for (long l = first; l < last; ++l)
                out_of_format += as_.store(patches_, to + l, image_.whole(from + l * step));
        }
        for (long l = last; l < w.kernel_width; ++l)
            as_.store(patches_, to + l, int64_t(0));
        return out_of_format;
    }

    Window window_;
    Numbers image_, patches_;
    Conversion as_;
};

// The adjoint of `Patches`: each number of the image is the sum of the patches' over it.
class Overlaps : public Operation {
  public:
    Overlaps(Window window, Numbers patches, Numbers image, Conversion as)
        : Operation(1), window_(window), image_(std::move(image)), patches_(std::move(patches)), as_(as),
          sums_(static_cast<size_t>(window.image_size())) {}

    void run() override {
        const Window &w = window_;
        int64_t out_of_format = 0;
        for (long b = 0; b < w.batch; ++b) {
            std::fill(sums_.begin(), sums_.end(), 0);
            add(b);
            const int64_t *sum = sums_.data();
            for (long c = 0; c < w.channels; ++c)
                for (long i = 0; i < w.height; ++i)
                    for (long j = 0; j < w.width; ++j)
                        out_of_format += as_.store(image_,
                                                   b * image_.strides[0] + c * image_.strides[1] +
                                                       i * image_.strides[2] + j * image_.strides[3],
                                                   *sum++);
        }
        saturated[0] = out_of_format;
    }

    double cost_ns() const override {
        const Window &w = window_;
        return static_cast<double>(w.batch * (w.out_height * w.out_width * w.patch_size() + w.image_size()));
    }

  protected:
    Parts split(int parts) const override {
        Parts made;
        for (const auto &[first, size] : learner::ranges(window_.batch, 1, parts)) {
            auto part = std::make_shared<Overlaps>(*this);
            part->window_.batch = size;
            part->image_.data = image_.at(first * image_.strides[0]);
            part->patches_.data = patches_.at(first * patches_.strides[0]);
            made.push_back(std::move(part));
        }
        return made;
    }

  private:
    void add(long b) {
        const Window &w = window_;
        const std::vector<long> &s = patches_.strides;
        for (long i = 0; i < w.out_height; ++i)
            for (long j = 0; j < w.out_width; ++j)
                for (long c = 0; c < w.channels; ++c)
                    for (long k = 0; k < w.kernel_height; ++k) {
                        const long row = i * w.stride_height - w.padding_height + k;
                        const long left = j * w.stride_width - w.padding_width;
                        if (row < 0 || row >= w.height)
                            continue;
                        const long from = b * s[0] + i * s[1] + j * s[2] + c * s[3] + k * s[4];
                        int64_t *to = sums_.data() + (c * w.height + row) * w.width + left;
                        const long last = std::clamp(w.width - left, 0L, w.kernel_width);
                        for (long l = std::clamp(-left, 0L, w.kernel_width); l < last; ++l)
                            to[l] += patches_.whole(from + l * s[5]);
                    }
    }

    Window window_;
    Numbers image_, patches_;
    Conversion as_;
    std::vector<int64_t> sums_; // of one image
};

} // namespace placerl::quantization

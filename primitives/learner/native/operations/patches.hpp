// Convolutions as matrix products: the values under the kernel at each place, one row per place.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "learner/native/ranges.hpp"

namespace placerl::learner {

// Patches of an image as rows of a matrix, or their adjoint.
struct Patches {
    bool adjoint;
    long batch, channels, height, width;
    long out_height, out_width, kernel_height, kernel_width;
    long stride_height, stride_width, padding_height, padding_width;
    float *image; // (batch, channels, height, width) at these strides
    long image_strides[4];
    float *patches; // (batch, out_height, out_width, channels, kernel_height, kernel_width), dense

    void run() const {
        if (adjoint)
            for (long b = 0; b < batch; ++b)
                for (long c = 0; c < channels; ++c)
                    for (long i = 0; i < height; ++i)
                        for (long j = 0; j < width; ++j)
                            image[b * image_strides[0] + c * image_strides[1] + i * image_strides[2] +
                                  j * image_strides[3]] = 0;
        const bool inside = padding_height == 0 && padding_width == 0;
        float *patch = patches;
        const long size = patch_size();
        for (long b = 0; b < batch; ++b)
            for (long i = 0; i < out_height; ++i)
                for (long j = 0; j < out_width; ++j, patch += size) {
                    const long top = i * stride_height - padding_height;
                    const long left = j * stride_width - padding_width;
                    float *plane = image + b * image_strides[0];
                    if (!inside)
                        padded_patch(plane, top, left, patch);
                    else if (adjoint)
                        add_patch(plane + top * image_strides[2] + left * image_strides[3], patch);
                    else
                        copy_patch(plane + top * image_strides[2] + left * image_strides[3], patch);
                }
    }

    // About how long it takes on one core.
    double cost_ns() const {
        constexpr double ELEMENT_NS = 0.3;
        return static_cast<double>(batch * out_height * out_width * patch_size()) * ELEMENT_NS;
    }

    // The operation in at most so many parts of whole images.
    std::vector<Patches> split(int parts) const {
        std::vector<Patches> made;
        for (const auto &[first, size] : ranges(batch, 1, parts)) {
            Patches part = *this;
            part.batch = size;
            part.image += first * image_strides[0];
            part.patches += first * out_height * out_width * patch_size();
            made.push_back(part);
        }
        return made;
    }

  private:
    long patch_size() const { return channels * kernel_height * kernel_width; }

    // The patch whose first element is at `corner`, all of it inside the image.
    void copy_patch(const float *corner, float *patch) const {
        const long area = kernel_height * kernel_width;
        if (image_strides[3] == 1) {
            for (long c = 0; c < channels; ++c)
                for (long k = 0; k < kernel_height; ++k, patch += kernel_width) {
                    const float *line = corner + c * image_strides[1] + k * image_strides[2];
                    switch (kernel_width) { // sizes that the compiler knows need no call
                    case 3:
                        std::memcpy(patch, line, 3 * sizeof(float));
                        break;
                    case 4:
                        std::memcpy(patch, line, 4 * sizeof(float));
                        break;
                    case 8:
                        std::memcpy(patch, line, 8 * sizeof(float));
                        break;
                    default:
                        std::memcpy(patch, line, static_cast<std::size_t>(kernel_width) * sizeof(float));
                    }
                }
            return;
        }
        // Along the channels, which lie side by side in what a product wrote.
        for (long k = 0; k < kernel_height; ++k)
            for (long l = 0; l < kernel_width; ++l) {
                const float *pixel = corner + k * image_strides[2] + l * image_strides[3];
                float *target = patch + k * kernel_width + l;
                for (long c = 0; c < channels; ++c)
                    target[c * area] = pixel[c * image_strides[1]];
            }
    }

    void add_patch(float *corner, const float *patch) const {
        for (long c = 0; c < channels; ++c)
            for (long k = 0; k < kernel_height; ++k, patch += kernel_width) {
                float *line = corner + c * image_strides[1] + k * image_strides[2];
                for (long l = 0; l < kernel_width; ++l)
                    line[l * image_strides[3]] += patch[l];
            }
    }

    void padded_patch(float *plane, long top, long left, float *patch) const {
        const long first = std::clamp(-left, 0L, kernel_width);
        const long last = std::clamp(width - left, first, kernel_width);
        for (long c = 0; c < channels; ++c)
            for (long k = 0; k < kernel_height; ++k, patch += kernel_width) {
                const bool inside_rows = top + k >= 0 && top + k < height;
                float *line = plane + c * image_strides[1] + (top + k) * image_strides[2];
                if (!adjoint)
                    for (long l = 0; l < kernel_width; ++l)
                        patch[l] = inside_rows && l >= first && l < last ? line[(left + l) * image_strides[3]]
                                                                         : 0.0f;
                else if (inside_rows)
                    for (long l = first; l < last; ++l)
                        line[(left + l) * image_strides[3]] += patch[l];
            }
    }
};

} // namespace placerl::learner

// Executes step graphs that the Python side has lowered: a flat list of operations on one arena. Nothing is
// allocated while a program runs. Header-only, so that other primitives can run steps in a call of their own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "learner/native/kernels.hpp"

namespace placerl::learner {

constexpr int MAXIMUM_DIMENSIONS = 6;

enum class Type : int { float32, int32, int64, boolean, uint8 };

inline std::size_t item_bytes(Type type) {
    switch (type) {
    case Type::int64:
        return 8;
    case Type::boolean:
    case Type::uint8:
        return 1;
    default:
        return 4;
    }
}

// A strided window on the arena; strides in elements.
struct StridedView {
    std::byte *data = nullptr;
    Type type = Type::float32;
    std::vector<long> strides;
};

// Sixty-four byte aligned memory that starts at zero, on large pages where the system has them.
class Arena {
  public:
    explicit Arena(std::size_t bytes) : bytes_((bytes + PAGE - 1) / PAGE * PAGE) {
        data_ = static_cast<std::byte *>(std::aligned_alloc(PAGE, bytes_));
        if (!data_)
            throw std::bad_alloc();
        std::memset(data_, 0, bytes_);
    }
    ~Arena() { std::free(data_); }
    Arena(const Arena &) = delete;
    Arena &operator=(const Arena &) = delete;
    std::byte *at(std::size_t offset) const { return data_ + offset; }

  private:
    static constexpr std::size_t PAGE = 4096;
    std::size_t bytes_;
    std::byte *data_;
};

inline float read_element(const std::byte *p, Type type) {
    switch (type) {
    case Type::float32: {
        float x;
        std::memcpy(&x, p, 4);
        return x;
    }
    case Type::int32: {
        std::int32_t x;
        std::memcpy(&x, p, 4);
        return static_cast<float>(x);
    }
    case Type::int64: {
        std::int64_t x;
        std::memcpy(&x, p, 8);
        return static_cast<float>(x);
    }
    default:
        return static_cast<float>(static_cast<std::uint8_t>(*p));
    }
}

inline void write_element(std::byte *p, Type type, float x) {
    switch (type) {
    case Type::float32:
        std::memcpy(p, &x, 4);
        break;
    case Type::int32: {
        const auto i = static_cast<std::int32_t>(x);
        std::memcpy(p, &i, 4);
        break;
    }
    case Type::int64: {
        const auto i = static_cast<std::int64_t>(x);
        std::memcpy(p, &i, 8);
        break;
    }
    case Type::boolean:
        *p = static_cast<std::byte>(x != 0);
        break;
    default:
        *p = static_cast<std::byte>(static_cast<std::uint8_t>(x));
    }
}

// Calls visit(position, size, offset...) for runs along the last dimension of `shape` that together cover the
// elements start .. start + count in row-major order; one offset, in elements, for each of the strides given.
template <typename Visit>
inline void for_runs(const std::vector<long> &shape, const std::vector<long> &strides, long start, long count,
                     Visit visit) {
    const int dimensions = static_cast<int>(shape.size());
    if (dimensions == 0) {
        visit(0L, 1L, 0L);
        return;
    }
    long index[MAXIMUM_DIMENSIONS];
    long offset = 0, rest = start;
    for (int i = dimensions - 1; i >= 0; --i) {
        index[i] = rest % shape[i];
        rest /= shape[i];
        offset += index[i] * strides[i];
    }
    const int last = dimensions - 1;
    for (long done = 0; done < count;) {
        const long run = std::min(shape[last] - index[last], count - done);
        visit(done, run, offset);
        done += run;
        index[last] += run;
        offset += run * strides[last];
        for (int i = last; i > 0 && index[i] == shape[i]; --i) {
            offset += strides[i - 1] - shape[i] * strides[i];
            index[i] = 0;
            ++index[i - 1];
        }
    }
}

// A fused group: for each block of elements, load what does not lie ready, run the instructions, store the
// rest.
struct Elementwise {
    // An argument is base + step * (first element of the block); step is 0 for registers.
    struct Argument {
        float *base = nullptr;
        long step = 0;
    };
    struct Instruction {
        ElementwiseFunction function;
        Argument target, a, b, c;
    };
    struct Transfer {
        StridedView view;
        float *block;
        bool once; // the same for every block
    };
    std::vector<long> shape;
    long count = 0;
    long block = 0;
    std::vector<Transfer> loads, stores;
    std::vector<Instruction> instructions;

    void load(const Transfer &t, long start, long size) const {
        const StridedView &view = t.view;
        const long stride = shape.empty() ? 0 : view.strides.back();
        const std::size_t bytes = item_bytes(view.type);
        for_runs(shape, view.strides, start, size, [&](long position, long run, long offset) {
            const std::byte *source = view.data + offset * static_cast<long>(bytes);
            float *target = t.block + position;
            if (view.type != Type::float32) {
                for (long i = 0; i < run; ++i)
                    target[i] = read_element(source + i * stride * static_cast<long>(bytes), view.type);
                return;
            }
            const auto *floats = reinterpret_cast<const float *>(source);
            if (stride == 1)
                for (long i = 0; i < run; ++i)
                    target[i] = floats[i];
            else if (stride == 0)
                std::fill(target, target + run, *floats);
            else
                for (long i = 0; i < run; ++i)
                    target[i] = floats[i * stride];
        });
    }

    void store(const Transfer &t, long start, long size) const {
        const StridedView &view = t.view;
        const long stride = shape.empty() ? 0 : view.strides.back();
        const long bytes = static_cast<long>(item_bytes(view.type));
        for_runs(shape, view.strides, start, size, [&](long position, long run, long offset) {
            std::byte *target = view.data + offset * bytes;
            const float *source = t.block + position;
            if (view.type == Type::float32) {
                auto *floats = reinterpret_cast<float *>(target);
                for (long i = 0; i < run; ++i)
                    floats[i * stride] = source[i];
            } else {
                for (long i = 0; i < run; ++i)
                    write_element(target + i * stride * bytes, view.type, source[i]);
            }
        });
    }

    void run() const {
        for (const Transfer &t : loads)
            if (t.once)
                load(t, 0, std::min(block, count));
        for (long start = 0; start < count; start += block) {
            const long size = std::min(block, count - start);
            for (const Transfer &t : loads)
                if (!t.once)
                    load(t, start, size);
            for (const Instruction &i : instructions)
                i.function(i.target.base + i.target.step * start, i.a.base + i.a.step * start,
                           i.b.base + i.b.step * start, i.c.base + i.c.step * start, static_cast<int>(size));
            for (const Transfer &t : stores)
                store(t, start, size);
        }
    }
};

struct Product {
    MatrixProduct product;
    long batch = 1; // matrices that follow each other at these strides
    long a_batch = 0, b_batch = 0, c_batch = 0;

    void run(const Kernels &kernels, float *workspace) const {
        MatrixProduct p = product;
        for (long i = 0; i < batch; ++i) {
            kernels.multiply(p, workspace);
            p.a += a_batch, p.b += b_batch, p.c += c_batch;
        }
    }
};

enum class Reduction : int { sum, max, min };

// y = reduction of x over the dimensions `over`; `shape` are the ones that stay.
struct Reduce {
    Reduction reduction;
    const float *x;
    float *y;
    std::vector<long> shape, x_strides, y_strides;
    std::vector<long> over, over_strides;
    enum class Form { rows, all, general } form;

    void choose_form() {
        const bool contiguous = over.size() == 1 && over_strides[0] == 1;
        const bool columns = !shape.empty() && x_strides.back() == 1 && y_strides.back() == 1;
        form = over.size() == 1 && columns ? Form::rows : contiguous ? Form::all : Form::general;
    }

    void run(const Kernels &kernels) const {
        const int which = static_cast<int>(reduction);
        if (form == Form::rows) {
            const ReduceRowsFunction functions[] = {kernels.sum_rows, kernels.max_rows, kernels.min_rows};
            const std::vector<long> outer(shape.begin(), shape.end() - 1);
            walk(outer.size(), [&](long from, long to) {
                functions[which](x + from, over_strides[0], static_cast<int>(over[0]),
                                 static_cast<int>(shape.back()), y + to);
            });
            return;
        }
        const ReduceFunction functions[] = {kernels.sum, kernels.max, kernels.min};
        if (form == Form::all) {
            walk(shape.size(), [&](long from, long to) { y[to] = functions[which](x + from, over[0]); });
            return;
        }
        long total = 1;
        for (const long size : over)
            total *= size;
        walk(shape.size(), [&](long from, long to) {
            float result = which == 0 ? 0.0f : which == 1 ? -HUGE_VALF : HUGE_VALF;
            for_runs(over, over_strides, 0, total, [&](long, long run, long offset) {
                for (long i = 0; i < run; ++i) {
                    const float value = x[from + offset + i * over_strides.back()];
                    if (which == 0)
                        result += value;
                    else if (value != value || (which == 1 ? value > result : value < result))
                        result = value; // a NaN stays: no comparison with it is true
                }
            });
            y[to] = result;
        });
    }

  private:
    // visit(offset in x, offset in y) for every index of the first `dimensions` that stay.
    template <typename Visit>
    void walk(std::size_t dimensions, Visit visit) const {
        long index[MAXIMUM_DIMENSIONS] = {};
        long from = 0, to = 0;
        for (;;) {
            visit(from, to);
            int i = static_cast<int>(dimensions) - 1;
            for (; i >= 0; --i) {
                from += x_strides[i], to += y_strides[i];
                if (++index[i] < shape[i])
                    break;
                from -= shape[i] * x_strides[i], to -= shape[i] * y_strides[i];
                index[i] = 0;
            }
            if (i < 0)
                return;
        }
    }
};

// Operations that move or pick elements; all walk the index space of `shape` element by element.
struct Pick {
    enum class Kind : int { gather, scatter_add, take, argmax, argmin } kind;
    std::vector<long> shape;
    int axis;
    long limit; // of the index along the axis, or how many elements an argument reduction looks at
    StridedView x, index, y;

    void run() const {
        const auto *from = reinterpret_cast<const float *>(x.data);
        long total = 1;
        for (const long size : shape)
            total *= size;
        auto each = [&](auto visit) {
            long position[MAXIMUM_DIMENSIONS] = {};
            for (long n = 0; n < total; ++n) {
                visit(position);
                for (int i = static_cast<int>(shape.size()) - 1; i >= 0; --i) {
                    if (++position[i] < shape[i])
                        break;
                    position[i] = 0;
                }
            }
        };
        auto offset = [&](const StridedView &view, const long *position) {
            long at = 0;
            for (std::size_t i = 0; i < view.strides.size(); ++i)
                at += position[i] * view.strides[i];
            return at;
        };
        auto looked_up = [&](long at) {
            const std::byte *p = index.data + at * static_cast<long>(item_bytes(index.type));
            long i = 0;
            if (index.type == Type::int64) {
                std::int64_t wide;
                std::memcpy(&wide, p, 8);
                i = wide;
            } else {
                i = static_cast<long>(read_element(p, index.type));
            }
            if (i < 0 || i >= limit)
                throw std::out_of_range("index: found " + std::to_string(i) + "; allowed: 0 .. " +
                                        std::to_string(limit - 1));
            return i;
        };
        auto *floats = reinterpret_cast<float *>(y.data);
        switch (kind) {
        case Kind::gather:
            each([&](long *position) {
                const long to = offset(y, position), i = looked_up(offset(index, position));
                floats[to] = from[offset(x, position) + (i - position[axis]) * x.strides[axis]];
            });
            return;
        case Kind::scatter_add: // x is the source here, y already holds what is added to
            each([&](long *position) {
                const long i = looked_up(offset(index, position));
                floats[offset(y, position) + (i - position[axis]) * y.strides[axis]] +=
                    from[offset(x, position)];
            });
            return;
        case Kind::take:
            each([&](long *position) {
                const long i = looked_up(position[axis] * index.strides[0]);
                floats[offset(y, position)] =
                    from[offset(x, position) + (i - position[axis]) * x.strides[axis]];
            });
            return;
        case Kind::argmax:
        case Kind::argmin: // `shape` has size 1 along the axis
            each([&](long *position) {
                const long start = offset(x, position);
                long best = 0;
                for (long i = 1; i < limit; ++i) {
                    const float value = from[start + i * x.strides[axis]];
                    const float record = from[start + best * x.strides[axis]];
                    if (record == record &&
                        (value != value || (kind == Kind::argmax ? value > record : value < record)))
                        best = i;
                }
                const std::int64_t result = best;
                std::memcpy(y.data + offset(y, position) * 8, &result, 8);
            });
        }
    }
};

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
        const long patch_size = channels * kernel_height * kernel_width;
        for (long b = 0; b < batch; ++b)
            for (long i = 0; i < out_height; ++i)
                for (long j = 0; j < out_width; ++j, patch += patch_size) {
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

  private:
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

using Operation = std::variant<Elementwise, Product, Reduce, Pick, Patches>;

struct Transfer {
    std::byte *place;
    std::size_t bytes;
    Type type;
};

// The programs of a learner's variants, on one arena.
class Executor {
  public:
    Executor(std::size_t arena_bytes, const Kernels *kernels) : arena_(arena_bytes), kernels_(kernels) {
        workspace_ = std::make_unique<Arena>(MULTIPLY_WORKSPACE * sizeof(float));
    }

    struct Program {
        std::vector<Operation> operations;
        std::vector<Transfer> inputs, outputs;
    };

    const Kernels &kernels() const { return *kernels_; }
    std::byte *at(std::size_t offset) const { return arena_.at(offset); }
    int add_program() {
        programs_.emplace_back();
        return static_cast<int>(programs_.size()) - 1;
    }
    Program &program(int i) { return programs_.at(static_cast<std::size_t>(i)); }

    // One step of the program on what its inputs hold.
    void run(const Program &program) const {
        for (const Operation &operation : program.operations)
            run(operation);
    }

    // Seconds of each operation, mean over `steps` steps; the clock's own time is in them.
    std::vector<double> profile(const Program &program, int steps) const {
        using Clock = std::chrono::steady_clock;
        std::vector<double> seconds(program.operations.size(), 0.0);
        for (int s = 0; s < steps; ++s) {
            auto before = Clock::now();
            for (std::size_t i = 0; i < program.operations.size(); ++i) {
                run(program.operations[i]);
                const auto after = Clock::now();
                seconds[i] += std::chrono::duration<double>(after - before).count() / steps;
                before = after;
            }
        }
        return seconds;
    }

  private:
    void run(const Operation &operation) const {
        switch (operation.index()) {
        case 0:
            std::get_if<Elementwise>(&operation)->run();
            break;
        case 1:
            std::get_if<Product>(&operation)->run(*kernels_, reinterpret_cast<float *>(workspace_->at(0)));
            break;
        case 2:
            std::get_if<Reduce>(&operation)->run(*kernels_);
            break;
        case 3:
            std::get_if<Pick>(&operation)->run();
            break;
        default:
            std::get_if<Patches>(&operation)->run();
        }
    }

    Arena arena_;
    std::unique_ptr<Arena> workspace_;
    const Kernels *kernels_;
    std::vector<Program> programs_;
};

} // namespace placerl::learner

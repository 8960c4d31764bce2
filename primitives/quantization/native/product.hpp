// A matrix product of a fixed-point step graph, and what follows it on its result. Arrays are given by their
// address, strides in elements; whoever makes an object keeps its arrays and sources where they are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "learner/native/ranges.hpp"
#include "quantization/native/digit_plan.hpp"
#include "quantization/native/kernels.hpp"
#include "quantization/native/layer_operations.hpp"
#include "quantization/native/long_product.hpp"
#include "quantization/native/operation.hpp"
#include "quantization/native/source.hpp"

namespace placerl::quantization {

// One operand.
struct Matrix {
    const int32_t *data = nullptr;
    int rows = 0, columns = 0;
    long row = 0, column = 0;
    bool by_rows = true; // how its source's lines run
    Source *source = nullptr;
    bool fresh = true; // no product before this one read the same numbers

    // A contiguous copy, lines as the source has them.
    Matrix over(const int32_t *copy) const {
        if (!copy)
            return *this;
        Matrix m = *this;
        m.data = copy, m.row = by_rows ? columns : 1, m.column = by_rows ? 1 : rows;
        return m;
    }
};

// In stages, each of which can be shared by threads, whose parts are lines of the operands, or rows or
// columns of C: look for the operands' extremes; plan; cut the operands into digits or make codes of them;
// multiply.
class Product : public Operation {
  public:
    Product(const Kernels *kernels, Matrix a, Matrix b, Rounding target)
        : Operation(3), kernels_(kernels), sides_{a, b}, target_(target), workers_(1) {}

    // How operands are read from now on; the result is the sum x factor, which is 2^-places where it is not
    // `scaled`.
    void read(const Reading &a, const Reading &b, bool scaled, int places, double factor) {
        readings_[0] = a, readings_[1] = b;
        target_.scaled = scaled, target_.places = places, target_.factor = factor;
    }

    // What follows on the result, whose rows are dense: bias and ReLU, or ReLU's derivative by another
    // matrix.
    void then_rectify(const int32_t *bias, int places) { bias_.emplace(bias, columns(), places); }
    void then_mask(const int32_t *mask) { then_.mask = mask; }

    // Counts codes of A, codes of B, and results.
    void run() override {
        begin();
        look(0, 1);
        decide(1);
        cut(0, 1);
        agree(1);
        saturated[2] = multiply(0, 1);
    }

    double cost_ns() const override {
        constexpr double TERM_NS = 0.02;
        return TERM_NS * rows() * double(depth()) * columns();
    }

    std::vector<Parts> stages(int threads, double part_ns) override;

    Extremes extremes[2];                           // of A and B as products read them, in the last run
    Extremes widest[2];                             // the same of all runs since `forget_widest`
    DigitPlan plan;                                 // of the last run
    int64_t narrow_products = 0, wide_products = 0; // so far, and what they took
    int64_t narrow_multiply_accumulates = 0, wide_multiply_accumulates = 0;

    void forget_widest() { widest[0] = widest[1] = {}; }

  private:
    friend class ProductPart;

    // What a thread works with, and what it found.
    struct Worker {
        Source::Scratch scratch;
        Extremes found[2];
        int64_t saturated[2] = {};
        std::vector<int64_t> sums;
        DigitProduct digits;
        std::vector<int32_t> workspace;
    };

    int rows() const { return sides_[0].rows; }
    int depth() const { return sides_[0].columns; }
    int columns() const { return sides_[1].columns; }
    // Whether the lines of a side lie along the depth.
    bool along_depth(int side) const { return sides_[side].by_rows == (side == 0); }

    void begin() {
        saturated.assign(3, 0);
        for (int s = 0; s < 2; ++s)
            sides_[s].source->read(readings_[s], sides_[s].fresh);
    }

    bool has_to_look() const { return !sides_[0].source->is_known() || !sides_[1].source->is_known(); }

    void look(size_t part, int parts) {
        Worker &worker = workers_[part];
        for (int s = 0; s < 2; ++s) {
            const Source &source = *sides_[s].source;
            if (source.is_known())
                continue;
            const auto [first, count] = lines(source, part, parts);
            worker.found[s] = source.look(first, count, worker.scratch);
        }
    }

    // After `look`, by so many parts.
    void decide(int parts) {
        for (int s = 0; s < 2; ++s) {
            Source &source = *sides_[s].source;
            if (!source.is_known()) {
                Extremes found;
                for (int part = 0; part < parts; ++part)
                    found.widen(workers_[static_cast<size_t>(part)].found[s]);
                source.know(found);
            }
            extremes[s] = source.extremes();
            widest[s].widen(extremes[s]);
        }
        const Extremes &a = extremes[0], &b = extremes[1];
        largest_ = double(a.magnitude()) * double(b.magnitude()) * depth();
        const bool near = target_.scaled || (target_.places >= -31 && target_.places <= 62);
        plan = near ? plan_digits(a, b, depth()) : DigitPlan{};
        long_ = !near || largest_ > 9.2e18;
        if (bias_)
            then_.bias = bias_->rounded();
        const int64_t terms = int64_t(rows()) * depth() * columns();
        if (plan.a)
            narrow_products += 1, narrow_multiply_accumulates += plan.a * plan.b * terms;
        else
            wide_products += 1, wide_multiply_accumulates += terms;
        for (int s = 0; s < 2; ++s) {
            Source &source = *sides_[s].source;
            const int count = s ? plan.b : plan.a, bits = s ? plan.b_bits : plan.a_bits;
            cuts_[s] = count ? source.begin_cut({count, bits, count == 1 ? extremes[s].offset() : 0})
                             : source.begin_whole();
        }
        // Sums of magnitudes tell most of the operand with the larger ones.
        summed_ = plan.a == 1 && (plan.b > 1 || a.magnitude() >= b.magnitude()) ? 0 : 1;
        sums_ = false;
        for (int i = 0; i < plan.a; ++i)
            for (int j = 0; j < plan.b; ++j)
                sums_ |= plan.block[i][j] < depth() && (plan.a == 1 || plan.b == 1);
        adds_sums_ = sums_ && (cuts_[summed_] || !sides_[summed_].source->has_sums(along_depth(summed_)));
    }

    bool has_to_cut() const { return cuts_[0] || cuts_[1] || adds_sums_; }

    void cut(size_t part, int parts) {
        Worker &worker = workers_[part];
        for (int s = 0; s < 2; ++s) {
            Source &source = *sides_[s].source;
            const auto [first, count] = lines(source, part, parts);
            worker.saturated[s] = !cuts_[s] ? 0
                                  : plan.a  ? source.cut_lines(first, count, worker.scratch)
                                            : source.code_lines(first, count, worker.scratch);
            if (adds_sums_ && s == summed_)
                source.add_sums(along_depth(s), first, count, worker.sums);
        }
    }

    // After `cut`, by so many parts.
    void agree(int parts) {
        for (int s = 0; s < 2; ++s) {
            Source &source = *sides_[s].source;
            int64_t total = 0;
            for (int part = 0; part < parts; ++part)
                total += workers_[static_cast<size_t>(part)].saturated[s];
            if (cuts_[s] && plan.a)
                source.end_cut(total);
            else if (cuts_[s])
                source.end_whole(total);
        }
        if (adds_sums_) {
            std::vector<int64_t> sums = workers_[0].sums;
            for (int part = 1; part < parts; ++part)
                for (size_t i = 0; i < sums.size(); ++i)
                    sums[i] = std::max(sums[i], workers_[static_cast<size_t>(part)].sums[i]);
            sides_[summed_].source->set_sums(along_depth(summed_), std::move(sums));
        }
        if (plan.a)
            plan_digit_product();
        else
            for (int s = 0; s < 2; ++s)
                whole_[s] = sides_[s].over(sides_[s].source->whole(saturated[static_cast<size_t>(s)]));
    }

    void plan_digit_product() {
        DigitProduct &p = digits_;
        p.rows = rows(), p.columns = columns(), p.depth = depth();
        p.a = sides_[0].source->digits(along_depth(0), saturated[0]);
        p.b = sides_[1].source->digits(along_depth(1), saturated[1]);
        static const std::vector<int64_t> none;
        for (int i = 0; i < plan.a; ++i)
            for (int j = 0; j < plan.b; ++j) {
                const bool known = plan.block[i][j] < p.depth && (plan.a == 1 || plan.b == 1);
                const int64_t other = summed_ == 0 ? extremes[1].digit(plan.b, plan.b_bits, j)
                                                   : extremes[0].digit(plan.a, plan.a_bits, i);
                plan_blocks(p.ends[i][j], p.depth, plan.block[i][j],
                            known ? sides_[summed_].source->sums() : none, other);
            }
        constexpr int64_t HALF = 1 << 30;
        const double limit = double(std::min<int64_t>(target_.highest, HALF));
        p.within = largest_ * target_.factor + 1 < limit && !(bias_ && bias_->magnitude() > HALF);
    }

    // Rows or columns of C; returns how many results saturated.
    int64_t multiply(size_t part, int parts) {
        const bool by_rows = parts == 1 || rows() >= columns();
        const auto [first, count] = range(by_rows ? rows() : columns(), by_rows ? 1 : 32, part, parts);
        if (count == 0)
            return 0;
        const long row = by_rows ? first : 0, column = by_rows ? 0 : first;
        Rounding target = target_;
        target.c += row * target.c_row + column * target.c_column;
        Epilogue then = then_;
        if (then.bias)
            then.bias += column;
        if (then.mask)
            then.mask += row * target.c_row + column;
        Worker &worker = workers_[part];
        const int sized[2] = {static_cast<int>(by_rows ? count : rows()),
                              static_cast<int>(by_rows ? columns() : count)};
        if (plan.a) {
            // The blocks are the whole product's.
            const DigitProduct *p = &digits_;
            if (parts > 1) {
                worker.digits = digits_;
                worker.digits.rows = sized[0], worker.digits.columns = sized[1];
                worker.digits.a.planes += row * (digits_.a.along_depth ? digits_.a.line : 1);
                worker.digits.b.planes += column * (digits_.b.along_depth ? digits_.b.line : 1);
                p = &worker.digits;
            }
            return kernels_->multiply_digits(*p, target, then, workspace(worker, digit_workspace(*p)));
        }
        const Matrix &a = whole_[0], &b = whole_[1];
        const MatrixProduct p{
            sized[0], sized[1], depth(), a.data + row * a.row, a.row, a.column, b.data + column * b.column,
            b.row,    b.column};
        return long_ ? multiply_long(*kernels_, p, target, then)
                     : kernels_->multiply_wide(p, target, then, workspace(worker, wide_workspace(p)));
    }

    static int32_t *workspace(Worker &worker, long size) {
        if (worker.workspace.size() < static_cast<size_t>(size))
            worker.workspace.resize(static_cast<size_t>(size));
        return worker.workspace.data();
    }

    static learner::Range range(long count, long unit, size_t part, int parts) {
        if (parts == 1)
            return {0, count};
        const auto all = learner::ranges(count, unit, parts);
        return part < all.size() ? all[part] : learner::Range{0, 0};
    }
    // Whole spans of the depth where the lines lie across it.
    static learner::Range lines(const Source &source, size_t part, int parts) {
        return range(source.lines(), SPAN, part, parts);
    }

    const Kernels *kernels_;
    Matrix sides_[2], whole_[2];
    Reading readings_[2];
    Rounding target_;
    Epilogue then_;
    std::optional<Bias> bias_;
    bool long_ = false;      // sums of 128 bits
    bool cuts_[2] = {};      // whether a side has to be cut, or made codes of
    bool sums_ = false;      // whether blocks are planned by sums of magnitudes
    bool adds_sums_ = false; // and these have to be added up
    int summed_ = 0;         // of which side
    double largest_ = 0;     // what a sum may reach
    DigitProduct digits_;
    std::vector<Worker> workers_; // by part
};

// A part of one stage of a product.
class ProductPart : public Operation {
  public:
    enum class Stage { begin, look, decide, cut, agree, multiply };

    ProductPart(Product &product, Stage stage, size_t part, int parts)
        : Operation(3), product_(product), stage_(stage), part_(part), parts_(parts) {}

    void run() override {
        switch (stage_) {
        case Stage::begin:
            return product_.begin();
        case Stage::look:
            return product_.look(part_, parts_);
        case Stage::decide:
            return product_.decide(parts_);
        case Stage::cut:
            return product_.cut(part_, parts_);
        case Stage::agree:
            product_.agree(parts_);
            saturated = product_.saturated;
            return;
        default:
            saturated[2] = product_.multiply(part_, parts_);
        }
    }

    bool is_idle() const override {
        return (stage_ == Stage::look && !product_.has_to_look()) ||
               (stage_ == Stage::cut && !product_.has_to_cut());
    }

  private:
    Product &product_;
    Stage stage_;
    size_t part_;
    int parts_;
};

// All parts read and write what is the product's own: it outlives them.
inline std::vector<Parts> Product::stages(int threads, double part_ns) {
    const int parts = worthwhile(cost_ns(), threads, part_ns);
    if (parts < 2)
        return {};
    workers_.resize(static_cast<size_t>(parts));
    std::vector<Parts> made;
    const auto add = [&](ProductPart::Stage stage, int cut, int of) {
        Parts stage_parts;
        for (int part = 0; part < cut; ++part)
            stage_parts.push_back(std::make_shared<ProductPart>(*this, stage, static_cast<size_t>(part), of));
        made.push_back(std::move(stage_parts));
    };
    constexpr double LOOK_NS = 0.06, CUT_NS = 0.12;
    const double numbers = double(depth()) * (rows() + columns());
    const int looks = worthwhile(LOOK_NS * numbers, parts, part_ns);
    const int cuts = worthwhile(CUT_NS * numbers, parts, part_ns);
    add(ProductPart::Stage::begin, 1, 1);
    add(ProductPart::Stage::look, looks, looks);
    add(ProductPart::Stage::decide, 1, looks);
    add(ProductPart::Stage::cut, cuts, cuts);
    add(ProductPart::Stage::agree, 1, cuts);
    add(ProductPart::Stage::multiply, parts, parts);
    return made;
}

} // namespace placerl::quantization

// Python's side of the fixed-point kernels.
#include <algorithm>
#include <chrono>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "quantization/native/bindings.hpp"
#include "quantization/native/elementwise.hpp"
#include "quantization/native/layer_operations.hpp"
#include "quantization/native/moves.hpp"
#include "quantization/native/product.hpp"
#include "quantization/native/reductions.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace placerl::quantization {
namespace {

using Address = uintptr_t;
using SideArguments =
    std::tuple<Address, int, int, long, long, bool>;                 // address, rows, columns, strides, fresh
using TargetArguments = std::tuple<Address, long, int64_t, int64_t>; // address, stride, lowest, highest
using ReadingArguments = std::tuple<bool, double, double, double>;   // coded, factor, lowest, highest

int32_t *raw(Address address) { return reinterpret_cast<int32_t *>(address); }

const Kernels *kernels(const std::string &simd) {
#if defined(__x86_64__)
    __builtin_cpu_init();
#endif
    const Kernels *available[] = {avx512vnni_kernels(), avx512_kernels(), avx2_kernels(), portable_kernels()};
    for (const Kernels *k : available)
        if (k && (simd.empty() || simd == k->name))
            return k;
    throw nb::value_error(("simd: found '" + simd + "', which this processor or build lacks").c_str());
}

// Whether a matrix's source has its rows as lines, not its columns.
bool by_rows(const SideArguments &m) {
    const auto &[address, rows, columns, row, column, fresh] = m;
    return column == 1 || (columns == 1 && row != 1);
}

Matrix matrix(Source *source, const SideArguments &m) {
    const auto &[address, rows, columns, row, column, fresh] = m;
    return {raw(address), rows, columns, row, column, by_rows(m), source, fresh};
}

Reading reading(const ReadingArguments &r) {
    return {std::get<0>(r), std::get<1>(r), std::get<2>(r), std::get<3>(r)};
}

Place place(Address address, int kind, double scale, double lowest, double highest, std::vector<long> strides,
            int slot) {
    return {reinterpret_cast<char *>(address),
            static_cast<Kind>(kind),
            scale,
            lowest,
            highest,
            std::move(strides),
            slot};
}

std::tuple<std::tuple<int32_t, int32_t>, std::tuple<int32_t, int32_t>> both(const Extremes (&sides)[2]) {
    return {{sides[0].low, sides[0].high}, {sides[1].low, sides[1].high}};
}

// address, kind, strides
using NumbersArguments = std::tuple<Address, int, std::vector<long>>;
// whether the source is fixed-point, and copied; places, step, scale, lowest, highest
using ConversionArguments = std::tuple<bool, bool, int, double, double, int64_t, int64_t>;

Numbers numbers(const NumbersArguments &n) {
    const auto &[address, kind, strides] = n;
    if (strides.size() > MOST_DIMENSIONS)
        throw nb::value_error("dimensions: found too many");
    return {reinterpret_cast<char *>(address), static_cast<Kind>(kind), strides};
}

Conversion conversion(const ConversionArguments &c) {
    const auto &[fixed, copies, places, step, scale, lowest, highest] = c;
    return {fixed, copies, places, step, scale, lowest, highest};
}

Window window(const std::vector<long> &sizes) {
    if (sizes.size() != 12)
        throw nb::value_error("window: found another number of sizes than 12");
    return {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],  sizes[5],
            sizes[6], sizes[7], sizes[8], sizes[9], sizes[10], sizes[11]};
}

// Multiply-accumulates a second, 10^9: the best of many short blocks.
double peak_gmacs(bool narrow, double seconds, const std::string &simd) {
    const Kernels *k = kernels(simd);
    const nb::gil_scoped_release released;
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    int64_t result = 0;
    double best = 0;
    do {
        const auto start = Clock::now();
        const double done = narrow ? k->narrow_block(&result) : k->wide_block(&result);
        const double took_s = std::chrono::duration<double>(Clock::now() - start).count();
        best = std::max(best, done / took_s / 1e9);
    } while (Clock::now() < until);
    return result < 0 ? 0 : best;
}

} // namespace

void bind_quantization(nb::module_ &parent) {
    nb::module_ m = parent.def_submodule("quantization", "Fixed-point products and element-wise programs");
    m.attr("OPERATIONS") = COMMON_NAMES;
    m.def(
        "simd", [](const std::string &simd) { return std::string(kernels(simd)->name); }, "simd"_a,
        "The instruction set that a name, or none, chooses.");
    m.def("peak_gmacs", &peak_gmacs, "narrow"_a, "seconds"_a = 0.2, "simd"_a = "",
          "What one core does at most, 16 or 32 bits, in 10^9 a second.");
    m.def(
        "write_floats",
        [](Address target, Address values, long n, double scale, double lowest, double highest,
           const std::string &simd) {
            return kernels(simd)->store_from_floats(raw(target), reinterpret_cast<const float *>(values), n,
                                                    scale, lowest, highest);
        },
        "target"_a, "values"_a, "n"_a, "scale"_a, "lowest"_a, "highest"_a, "simd"_a,
        "Floats x scale, rounded into dense fixed-point numbers; returns how many saturated.");
    m.def("by_rows", &by_rows, "side"_a,
          "Whether the source of a matrix has its rows as lines, not its columns.");
    nb::class_<Operation>(m, "Operation")
        .def("run",
             [](Operation &operation) {
                 const nb::gil_scoped_release released;
                 operation.run();
             })
        .def_ro("saturated", &Operation::saturated);
    nb::class_<AddRectify, Operation>(m, "AddRectify")
        .def(
            "__init__",
            [](AddRectify *self, const std::string &simd, Address y, Address x, Address bias, long rows,
               long columns, int places, int32_t highest) {
                new (self)
                    AddRectify(kernels(simd), raw(y), raw(x), raw(bias), rows, columns, places, highest);
            },
            "simd"_a, "y"_a, "x"_a, "bias"_a, "rows"_a, "columns"_a, "places"_a, "highest"_a);
    nb::class_<Mask, Operation>(m, "Mask").def(
        "__init__",
        [](Mask *self, const std::string &simd, Address y, Address x, Address bias, Address g, long rows,
           long columns, int places) {
            new (self) Mask(kernels(simd), raw(y), raw(x), raw(bias), raw(g), rows, columns, places);
        },
        "simd"_a, "y"_a, "x"_a, "bias"_a, "g"_a, "rows"_a, "columns"_a, "places"_a);
    nb::class_<SumRows, Operation>(m, "SumRows")
        .def(
            "__init__",
            [](SumRows *self, const std::string &simd, Address x, long row, long rows, long columns,
               const TargetArguments &y, int places) {
                const auto &[address, stride, lowest, highest] = y;
                new (self) SumRows(kernels(simd), raw(x), row, rows, columns,
                                   {raw(address), 0, stride, false, places, 0, lowest, highest});
            },
            "simd"_a, "x"_a, "row"_a, "rows"_a, "columns"_a, "y"_a, "places"_a);
    nb::class_<Gather, Operation>(m, "Gather")
        .def(
            "__init__",
            [](Gather *self, std::vector<long> shape, const NumbersArguments &x, long axis_stride, long limit,
               const NumbersArguments &index, const NumbersArguments &y, const ConversionArguments &as) {
                new (self) Gather(std::move(shape), numbers(x), axis_stride, limit, numbers(index),
                                  numbers(y), conversion(as));
            },
            "shape"_a, "x"_a, "axis_stride"_a, "limit"_a, "index"_a, "y"_a, "as_"_a);
    nb::class_<ScatterAdd, Operation>(m, "ScatterAdd")
        .def(
            "__init__",
            [](ScatterAdd *self, std::vector<long> shape, const NumbersArguments &x,
               const NumbersArguments &y, std::vector<long> index_shape, const NumbersArguments &source,
               const NumbersArguments &index, std::vector<long> sums_strides, long axis_stride, long limit,
               const ConversionArguments &as) {
                new (self) ScatterAdd(std::move(shape), numbers(x), numbers(y), std::move(index_shape),
                                      numbers(source), numbers(index), std::move(sums_strides), axis_stride,
                                      limit, conversion(as));
            },
            "shape"_a, "x"_a, "y"_a, "index_shape"_a, "source"_a, "index"_a, "sums_strides"_a,
            "axis_stride"_a, "limit"_a, "as_"_a);
    nb::class_<Patches, Operation>(m, "Patches")
        .def(
            "__init__",
            [](Patches *self, const std::vector<long> &sizes, const NumbersArguments &image,
               const NumbersArguments &patches, const ConversionArguments &as) {
                new (self) Patches(window(sizes), numbers(image), numbers(patches), conversion(as));
            },
            "sizes"_a, "image"_a, "patches"_a, "as_"_a);
    nb::class_<Overlaps, Operation>(m, "Overlaps")
        .def(
            "__init__",
            [](Overlaps *self, const std::vector<long> &sizes, const NumbersArguments &patches,
               const NumbersArguments &image, const ConversionArguments &as) {
                new (self) Overlaps(window(sizes), numbers(patches), numbers(image), conversion(as));
            },
            "sizes"_a, "patches"_a, "image"_a, "as_"_a);
    nb::class_<Reduce, Operation>(m, "Reduce")
        .def(
            "__init__",
            [](Reduce *self, int reduction, std::vector<long> shape, const NumbersArguments &x,
               const NumbersArguments &y, std::vector<long> over, std::vector<long> over_strides,
               const ConversionArguments &as) {
                new (self) Reduce(static_cast<Reduction>(reduction), std::move(shape), numbers(x), numbers(y),
                                  std::move(over), std::move(over_strides), conversion(as));
            },
            "reduction"_a, "shape"_a, "x"_a, "y"_a, "over"_a, "over_strides"_a, "as_"_a);
    nb::class_<ArgumentReduce, Operation>(m, "ArgumentReduce")
        .def(
            "__init__",
            [](ArgumentReduce *self, bool largest, std::vector<long> shape, const NumbersArguments &x,
               long count, long step, const NumbersArguments &y) {
                new (self) ArgumentReduce(largest, std::move(shape), numbers(x), count, step, numbers(y));
            },
            "largest"_a, "shape"_a, "x"_a, "count"_a, "step"_a, "y"_a);
    nb::class_<SumWhole, Operation>(m, "SumWhole")
        .def(
            "__init__",
            [](SumWhole *self, Address y, Address x, long n, double step) {
                new (self) SumWhole(reinterpret_cast<double *>(y), raw(x), n, step);
            },
            "y"_a, "x"_a, "n"_a, "step"_a);
    nb::class_<SumExactly, Operation>(m, "SumExactly")
        .def(
            "__init__",
            [](SumExactly *self, Address y, Address x, long n) {
                new (self) SumExactly(reinterpret_cast<double *>(y), reinterpret_cast<const double *>(x), n);
            },
            "y"_a, "x"_a, "n"_a);
    nb::class_<Adam, Operation>(m, "Adam").def(
        "__init__",
        [](Adam *self, const std::string &simd, const std::vector<Address> &places, long n,
           const std::vector<double> &formats, const std::vector<double> &constants) {
            if (places.size() != 7 || formats.size() != 5 || constants.size() != 6)
                throw nb::value_error("Adam: found another number of arguments");
            const auto number = [&](size_t i) { return reinterpret_cast<const double *>(places[i]); };
            const auto floats = [&](size_t i) { return reinterpret_cast<float *>(places[i]); };
            const AdamUpdate update{
                raw(places[0]), raw(places[1]), raw(places[2]), floats(3),    floats(4),    number(5),
                number(6),      formats[0],     formats[1],     formats[2],   formats[3],   formats[4],
                constants[0],   constants[1],   constants[2],   constants[3], constants[4], constants[5]};
            new (self) Adam(kernels(simd), update, n);
        },
        "simd"_a, "places"_a, "n"_a, "formats"_a, "constants"_a,
        "places: parameter, target or 0, gradient, mean, square, rate, root correction. formats: step of "
        "weights, "
        "of gradients, scale of weights, their lowest and highest. constants: mean and square, kept and "
        "taken, "
        "epsilon, tau.");
    nb::class_<Source>(m, "Source")
        .def(
            "__init__",
            [](Source *self, const std::string &simd, const SideArguments &m) {
                const auto &[address, rows, columns, row, column, fresh] = m;
                if (by_rows(m))
                    new (self) Source(kernels(simd), raw(address), rows, columns, row, column);
                else
                    new (self) Source(kernels(simd), raw(address), columns, rows, column, row);
            },
            "simd"_a, "side"_a);
    nb::class_<Product, Operation>(m, "Product")
        .def(
            "__init__",
            [](Product *self, const std::string &simd, Source *a_source, const SideArguments &a,
               Source *b_source, const SideArguments &b, const SideArguments &c, int64_t lowest,
               int64_t highest) {
                const auto &[address, rows, columns, row, column, fresh] = c;
                const Rounding r{raw(address), row, column, false, 0, 0, lowest, highest};
                new (self) Product(kernels(simd), matrix(a_source, a), matrix(b_source, b), r);
            },
            "simd"_a, "a_source"_a, "a"_a, "b_source"_a, "b"_a, "c"_a, "lowest"_a, "highest"_a,
            nb::keep_alive<1, 3>(), nb::keep_alive<1, 5>())
        .def(
            "read",
            [](Product &self, const ReadingArguments &a, const ReadingArguments &b, bool scaled, int places,
               double factor) { self.read(reading(a), reading(b), scaled, places, factor); },
            "a"_a, "b"_a, "scaled"_a, "places"_a, "factor"_a)
        .def(
            "then_rectify",
            [](Product &self, Address bias, int places) { self.then_rectify(raw(bias), places); }, "bias"_a,
            "places"_a)
        .def(
            "then_mask", [](Product &self, Address mask) { self.then_mask(raw(mask)); }, "mask"_a)
        .def_prop_ro("digits", [](const Product &self) { return std::make_tuple(self.plan.a, self.plan.b); })
        .def_prop_ro("extremes", [](const Product &self) { return both(self.extremes); })
        .def_prop_ro("widest", [](const Product &self) { return both(self.widest); })
        .def("forget_widest", &Product::forget_widest)
        .def_ro("narrow_products", &Product::narrow_products)
        .def_ro("wide_products", &Product::wide_products)
        .def_ro("narrow_multiply_accumulates", &Product::narrow_multiply_accumulates)
        .def_ro("wide_multiply_accumulates", &Product::wide_multiply_accumulates);
    nb::class_<Elementwise, Operation>(m, "Elementwise")
        .def(
            "__init__",
            [](Elementwise *self, const std::string &simd, std::vector<long> shape, int slots) {
                new (self) Elementwise(kernels(simd), std::move(shape), slots);
            },
            "simd"_a, "shape"_a, "slots"_a)
        .def("add_constant", &Elementwise::add_constant)
        .def("add_input",
             [](Elementwise &self, Address address, int kind, double scale, std::vector<long> strides,
                int slot) { self.add_input(place(address, kind, scale, 0, 0, std::move(strides), slot)); })
        .def("add_instruction", [](Elementwise &self, int op, int target, int a, int b,
                                   int c) { self.add_instruction({static_cast<Op>(op), target, a, b, c}); })
        .def("add_output", [](Elementwise &self, Address address, int kind, double scale, double lowest,
                              double highest, std::vector<long> strides, int slot) {
            self.add_output(place(address, kind, scale, lowest, highest, std::move(strides), slot));
        });
}

} // namespace placerl::quantization

// Python's side of the fixed-point kernels.
#include <algorithm>
#include <chrono>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "quantization/native/bindings.hpp"
#include "quantization/native/elementwise.hpp"
#include "quantization/native/exact_sum.hpp"
#include "quantization/native/product.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace placerl::quantization {
namespace {

using Address = uintptr_t;
using MatrixArguments = std::tuple<Address, int, int, long, long>;   // address, rows, columns, strides
using TargetArguments = std::tuple<Address, long, int64_t, int64_t>; // address, stride, lowest, highest
using ReadingArguments = std::tuple<bool, double, double, double>;   // coded, factor, lowest, highest

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

Matrix matrix(const MatrixArguments &m) {
    return {reinterpret_cast<const int32_t *>(std::get<0>(m)), std::get<1>(m), std::get<2>(m), std::get<3>(m),
            std::get<4>(m)};
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

// Multiply-accumulates a second, 10^9: the best of many short blocks.
double peak_gmacs(bool narrow, double seconds, const std::string &simd) {
    const Kernels *k = kernels(simd);
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
          nb::call_guard<nb::gil_scoped_release>(),
          "What one core does at most, 16 or 32 bits, in 10^9 a second.");
    m.def("sum_exactly", &sum_exactly, "x"_a, "n"_a,
          "The correctly rounded sum of n binary64 numbers at an address; NaN where it is not finite.");
    m.def(
        "sum_rows",
        [](Address x, long row, long rows, long columns, const TargetArguments &y, int places,
           const std::string &simd) {
            const Rounding r{reinterpret_cast<int32_t *>(std::get<0>(y)),
                             0,
                             std::get<1>(y),
                             false,
                             places,
                             0,
                             std::get<2>(y),
                             std::get<3>(y)};
            return kernels(simd)->sum_rows(reinterpret_cast<const int32_t *>(x), row, rows, columns, r);
        },
        "x"_a, "row"_a, "rows"_a, "columns"_a, "y"_a, "places"_a, "simd"_a,
        "Sums over the rows, over 2^places, rounded; returns how many saturated.");
    m.def(
        "add_rectify",
        [](Address y, Address x, Address bias, long rows, long columns, int places, int32_t highest,
           const std::string &simd) {
            const Kernels *k = kernels(simd);
            const auto *from = reinterpret_cast<const int32_t *>(bias);
            std::vector<int32_t> rounded(static_cast<size_t>(columns)); // x has no places for the rest
            for (size_t i = 0; i < rounded.size(); ++i)
                rounded[i] = places ? (from[i] >> places) + (from[i] >> (places - 1) & 1) : from[i];
            int64_t saturated = 0;
            for (long i = 0; i < rows; ++i)
                saturated += k->add_rectify(reinterpret_cast<int32_t *>(y) + i * columns,
                                            reinterpret_cast<const int32_t *>(x) + i * columns,
                                            rounded.data(), columns, highest);
            return saturated;
        },
        "y"_a, "x"_a, "bias"_a, "rows"_a, "columns"_a, "places"_a, "highest"_a, "simd"_a,
        "Bias and ReLU of dense rows; returns how many saturated.");
    m.def(
        "mask",
        [](Address y, Address x, Address bias, Address g, long rows, long columns, int places,
           const std::string &simd) {
            const Kernels *k = kernels(simd);
            const long step = bias ? columns : rows * columns; // without a bias, one row of all
            for (long i = 0; i < rows * columns; i += step)
                k->mask(reinterpret_cast<int32_t *>(y) + i, reinterpret_cast<const int32_t *>(x) + i,
                        reinterpret_cast<const int32_t *>(bias), reinterpret_cast<const int32_t *>(g) + i,
                        step, places);
            return 0;
        },
        "y"_a, "x"_a, "bias"_a, "g"_a, "rows"_a, "columns"_a, "places"_a, "simd"_a,
        "ReLU's derivative of dense rows: g where x + bias is positive, else 0; nothing saturates.");
    nb::class_<Product>(m, "Product")
        .def(
            "__init__",
            [](Product *self, const std::string &simd, const MatrixArguments &a, const MatrixArguments &b,
               const MatrixArguments &c, int64_t lowest, int64_t highest) {
                Rounding r{reinterpret_cast<int32_t *>(std::get<0>(c)),
                           std::get<3>(c),
                           std::get<4>(c),
                           false,
                           0,
                           0,
                           lowest,
                           highest};
                new (self) Product(kernels(simd), matrix(a), matrix(b), r);
            },
            "simd"_a, "a"_a, "b"_a, "c"_a, "lowest"_a, "highest"_a)
        .def(
            "run",
            [](Product &self, const ReadingArguments &a, const ReadingArguments &b, bool scaled, int places,
               double factor) {
                nb::gil_scoped_release release;
                return self.run(reading(a), reading(b), scaled, places, factor);
            },
            "a"_a, "b"_a, "scaled"_a, "places"_a, "factor"_a)
        .def_prop_ro("digits", [](const Product &self) { return std::make_tuple(self.plan.a, self.plan.b); })
        .def_prop_ro("extremes",
                     [](const Product &self) {
                         const auto &[a, b] = self.extremes;
                         return std::make_tuple(std::make_tuple(a.low, a.high),
                                                std::make_tuple(b.low, b.high));
                     })
        .def_prop_ro("saturated", [](const Product &self) {
            return std::make_tuple(self.saturated[0], self.saturated[1], self.saturated[2]);
        });
    nb::class_<Elementwise>(m, "Elementwise")
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
        .def("add_output",
             [](Elementwise &self, Address address, int kind, double scale, double lowest, double highest,
                std::vector<long> strides, int slot) {
                 self.add_output(place(address, kind, scale, lowest, highest, std::move(strides), slot));
             })
        .def("run", &Elementwise::run, nb::call_guard<nb::gil_scoped_release>())
        .def_ro("saturated", &Elementwise::saturated);
}

} // namespace placerl::quantization

// Python's view of the executor of step graphs: `primitives.learner.native.executable` lowers a graph to
// these calls.
#include "native/numpy.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "learner/native/bfloat16.hpp"
#include "learner/native/bindings.hpp"
#include "learner/native/program.hpp"
#include "learner/native/step_call.hpp"

namespace nb = nanobind;

namespace placerl::learner {
namespace {

using Offset = long; // bytes in the arena; negative for nothing

Type type_of(const std::string &name) {
    if (name == "float32")
        return Type::float32;
    if (name == "float64")
        return Type::float64;
    if (name == "int32")
        return Type::int32;
    if (name == "int64")
        return Type::int64;
    if (name == "bool")
        return Type::boolean;
    if (name == "uint8")
        return Type::uint8;
    throw nb::value_error(
        ("dtype: found " + name + "; allowed: float32, float64, int32, int64, bool, uint8").c_str());
}

const Kernels *kernels_of(const std::string &simd) {
    const Kernels *all[] = {avx512_kernels(), avx2_kernels(), portable_kernels()};
    for (const Kernels *kernels : all)
        if (kernels && (simd.empty() || simd == kernels->name))
            return kernels;
    throw nb::value_error(
        ("simd: found '" + simd + "', which this processor or build does not have").c_str());
}

// How products are computed: "float32"; "bfloat16", by the widest of what follows that this processor has:
// "amx", "avx512bf16", or "emulated" in float32's instructions.
Multiplier multiplier_of(const std::string &products, const Kernels *kernels) {
    if (products == "float32")
        return {"float32", MULTIPLY_WORKSPACE, kernels->multiply, kernels->multiply_add_block};
    const bool any = products == "bfloat16", wide = kernels == avx512_kernels();
    for (const Multiplier *one : {amx_multiplier(), avx512bf16_multiplier()})
        if (one && (any ? wide : products == one->name))
            return *one;
    if (any || products == "emulated")
        return {"emulated", MULTIPLY_WORKSPACE, kernels->multiply_bfloat16, kernels->multiply_add_block};
    throw nb::value_error(
        ("products: found '" + products + "', which this processor or build does not have").c_str());
}

// Each a number: 1 where A is packed, 2 where B is, 4 for broad tiles, added; [layout][size].
using BlockingArguments = std::vector<int>;

Blockings blockings_of(const BlockingArguments &numbers) {
    Blockings made;
    if (!numbers.empty() && numbers.size() != made.ways.size())
        throw nb::value_error(("blockings: found " + std::to_string(numbers.size()) +
                               " numbers; allowed: none or " + std::to_string(made.ways.size()))
                                  .c_str());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        if (numbers[i] < 0 || numbers[i] > 7)
            throw nb::value_error(
                ("blockings: found " + std::to_string(numbers[i]) + "; allowed: 0 to 7").c_str());
        made.ways[i] = {(numbers[i] & 1) != 0, (numbers[i] & 2) != 0, (numbers[i] & 4) != 0};
    }
    return made;
}

BlockingArguments measured(const std::string &simd, double seconds) {
    const Kernels *const kernels = kernels_of(simd);
    nb::gil_scoped_release released;
    BlockingArguments numbers;
    for (const Blocking &way : measured_blockings(*kernels, seconds).ways)
        numbers.push_back(way.pack_a + 2 * way.pack_b + 4 * way.broad);
    return numbers;
}

// offset, dtype, strides
using ViewArguments = std::tuple<Offset, std::string, std::vector<long>>;

StridedView view_of(const Executor &executor, const ViewArguments &v) {
    return {executor.at(static_cast<std::size_t>(std::get<0>(v))), type_of(std::get<1>(v)), std::get<2>(v)};
}

float *floats(const Executor &executor, Offset offset) {
    return offset < 0 ? nullptr : reinterpret_cast<float *>(executor.at(static_cast<std::size_t>(offset)));
}

// (offset, step) of an argument; (operation, bits of scalar arguments, arguments: target first)
using ArgumentArguments = std::tuple<Offset, long>;
using InstructionArguments = std::tuple<int, int, std::vector<ArgumentArguments>>;
// (view, offset of the block, whether one load does for all blocks)
using TransferArguments = std::tuple<ViewArguments, Offset, bool>;

// `registers`: of the threads, one after the other: where the first one's begin, and bytes of each.
// `searched`: results that become the state.
void add_elementwise(Executor &executor, int program, std::vector<long> shape, long block,
                     const std::vector<TransferArguments> &loads,
                     const std::vector<InstructionArguments> &instructions,
                     const std::vector<TransferArguments> &stores, std::tuple<Offset, long> registers,
                     const std::vector<ArgumentArguments> &searched) {
    Elementwise group;
    group.count = 1;
    for (const long size : shape)
        group.count *= size;
    group.shape = std::move(shape);
    group.block = block;
    group.registers = floats(executor, std::get<0>(registers));
    group.registers_size = std::get<1>(registers) / static_cast<long>(sizeof(float));
    auto transfers = [&](const std::vector<TransferArguments> &given) {
        std::vector<Elementwise::Transfer> made;
        for (const auto &[view, offset, once] : given) {
            made.push_back({view_of(executor, view), floats(executor, offset), once});
            group.element_ns += once ? 0 : made.back().view.type == Type::float32 ? 0.2 : 1;
        }
        return made;
    };
    for (const auto &[offset, step] : searched)
        group.searched.push_back({floats(executor, offset), step});
    group.loads = transfers(loads);
    group.stores = transfers(stores);
    for (const auto &[op, scalars, arguments] : instructions) {
        const ElementwiseLoop function = executor.kernels().elementwise[op][scalars];
        if (!function)
            throw nb::value_error("instructions: every argument is one number");
        Elementwise::Argument made[4];
        for (std::size_t i = 0; i < 4; ++i) {
            const auto &[offset, step] = arguments[std::min(i, arguments.size() - 1)];
            made[i] = {floats(executor, offset), step};
            group.element_ns += i < arguments.size() && step ? 0.04 : 0;
        }
        group.instructions.push_back({function, made[0], made[1], made[2], made[3]});
        group.element_ns += operation_ns(static_cast<Op>(op));
    }
    executor.add(program, std::move(group));
}

void add_product(Executor &executor, int program, std::tuple<int, int, int> sizes,
                 std::tuple<Offset, long, long> a, std::tuple<Offset, long, long> b,
                 std::tuple<Offset, long> c, Offset column_bias, Offset row_bias, bool rectify, Offset mask,
                 std::tuple<long, long, long, long> batch) {
    Product made;
    MatrixProduct &p = made.product;
    std::tie(p.rows, p.columns, p.depth) = sizes;
    p.a = floats(executor, std::get<0>(a)), p.a_row = std::get<1>(a), p.a_column = std::get<2>(a);
    p.b = floats(executor, std::get<0>(b)), p.b_row = std::get<1>(b), p.b_column = std::get<2>(b);
    p.c = floats(executor, std::get<0>(c)), p.c_row = std::get<1>(c);
    p.column_bias = floats(executor, column_bias);
    p.row_bias = floats(executor, row_bias);
    p.rectify = rectify;
    p.mask = floats(executor, mask);
    std::tie(made.batch, made.a_batch, made.b_batch, made.c_batch) = batch;
    executor.add(program, made);
}

void add_reduce(Executor &executor, int program, int reduction, const ViewArguments &x,
                const ViewArguments &y, std::vector<long> shape, std::vector<long> over,
                std::vector<long> over_strides) {
    Reduce made{};
    made.reduction = static_cast<Reduction>(reduction);
    made.x = view_of(executor, x);
    made.y = view_of(executor, y);
    made.shape = std::move(shape);
    made.over = std::move(over);
    made.over_strides = std::move(over_strides);
    made.choose_form();
    executor.add(program, std::move(made));
}

void add_pick(Executor &executor, int program, const std::string &kind, std::vector<long> shape, int axis,
              long limit, const ViewArguments &x, const ViewArguments &index, const ViewArguments &y) {
    const char *names[] = {"gather", "scatter_add", "take", "argmax", "argmin"};
    for (int i = 0; i < 5; ++i)
        if (kind == names[i]) {
            executor.add(program, Pick{static_cast<Pick::Kind>(i), std::move(shape), axis, limit,
                                       view_of(executor, x), view_of(executor, index), view_of(executor, y)});
            return;
        }
    throw nb::value_error(("kind: found " + kind).c_str());
}

void add_patches(Executor &executor, int program, bool adjoint, const std::vector<long> &sizes, Offset image,
                 const std::vector<long> &image_strides, Offset patches) {
    Patches made{};
    made.adjoint = adjoint;
    long *fields[] = {&made.batch,         &made.channels,     &made.height,         &made.width,
                      &made.out_height,    &made.out_width,    &made.kernel_height,  &made.kernel_width,
                      &made.stride_height, &made.stride_width, &made.padding_height, &made.padding_width};
    for (std::size_t i = 0; i < 12; ++i)
        *fields[i] = sizes.at(i);
    made.image = floats(executor, image);
    made.patches = floats(executor, patches);
    for (std::size_t i = 0; i < 4; ++i)
        made.image_strides[i] = image_strides.at(i);
    executor.add(program, made);
}

// `labels`: an index into the program's counts for each of what the operation counts.
void add_fixed_point(Executor &executor, int program, std::shared_ptr<quantization::Operation> operation,
                     const std::vector<std::size_t> &labels) {
    if (labels.size() != operation->saturated.size())
        throw nb::value_error(("labels: found " + std::to_string(labels.size()) +
                               "; allowed: " + std::to_string(operation->saturated.size()))
                                  .c_str());
    auto &counts = executor.program(program).counts;
    FixedPoint made{std::move(operation), {}};
    for (const std::size_t label : labels) {
        if (counts.size() <= label)
            counts.resize(label + 1);
        made.counts.push_back(&counts[label]);
    }
    executor.add(program, std::move(made));
}

void set_transfers(Executor &executor, int program,
                   const std::vector<std::tuple<Offset, std::size_t, std::string>> &inputs,
                   const std::vector<std::tuple<Offset, std::size_t, std::string>> &outputs) {
    auto made = [&](const auto &given) {
        std::vector<Transfer> transfers;
        for (const auto &[offset, bytes, dtype] : given)
            transfers.push_back({executor.at(static_cast<std::size_t>(offset)), bytes, type_of(dtype)});
        return transfers;
    };
    executor.program(program).inputs = made(inputs);
    executor.program(program).outputs = made(outputs);
}

// `names`: of the program's outputs, in order; empty for one that may be any number.
void name_results(Executor &executor, int program, std::vector<std::string> names) {
    Executor::Program &named = executor.program(program);
    if (names.size() != named.outputs.size())
        throw nb::value_error("names: allowed: one for each output");
    named.results = std::move(names);
}

// `leaves`: name, offset and number of floats of each.
void name_state(Executor &executor, const std::vector<std::tuple<std::string, Offset, std::size_t>> &leaves) {
    std::vector<Executor::StateLeaf> made;
    for (const auto &[name, offset, count] : leaves)
        made.push_back({name, floats(executor, offset), count});
    executor.name_state(std::move(made));
}

// Steps one after the other; each input and output holds `programs.size()` values, one after the other.
// Returns the position of the first input that is not finite, with nothing done, or -1.
int run(Executor &executor, const std::vector<int> &programs, nb::sequence inputs, nb::sequence outputs) {
    const Executor::Claim claim(executor);
    const std::size_t steps = programs.size();
    if (steps == 0)
        return -1;
    const auto &first = executor.program(programs[0]);
    std::vector<std::byte *> from, to;
    for (std::size_t i = 0; i < first.inputs.size(); ++i) {
        const Transfer &t = first.inputs[i];
        PyArrayObject *array = checked_array(inputs[i], t.bytes * steps, i, "input");
        from.push_back(static_cast<std::byte *>(PyArray_DATA(array)));
        if (t.type == Type::float32 &&
            !executor.kernels().all_finite(reinterpret_cast<const float *>(from.back()),
                                           static_cast<long>(t.bytes * steps / 4)))
            return static_cast<int>(i);
    }
    for (std::size_t i = 0; i < first.outputs.size(); ++i)
        to.push_back(static_cast<std::byte *>(
            PyArray_DATA(checked_array(outputs[i], first.outputs[i].bytes * steps, i, "output"))));
    nb::gil_scoped_release released;
    for (std::size_t s = 0; s < steps; ++s) {
        const auto &program = executor.program(programs[s]);
        for (std::size_t i = 0; i < from.size(); ++i)
            std::memcpy(program.inputs[i].place, from[i] + s * program.inputs[i].bytes,
                        program.inputs[i].bytes);
        executor.run(program);
        for (std::size_t i = 0; i < to.size(); ++i)
            std::memcpy(to[i] + s * program.outputs[i].bytes, program.outputs[i].place,
                        program.outputs[i].bytes);
    }
    return -1;
}

// (name, dtype, shape, may be bool, check, limit)
using StepRule = std::tuple<std::string, std::string, std::vector<npy_intp>, bool, int, std::int64_t>;

void make_step_call(StepCall *self, Executor &executor, int program, const std::vector<StepRule> &rules,
                    const std::vector<StepCall::OutputArguments> &outputs, nb::object outcome) {
    std::vector<StepCall::RuleArguments> made;
    for (const auto &[name, dtype, shape, may_be_bool, check, limit] : rules)
        made.emplace_back(name, type_of(dtype), shape, may_be_bool, static_cast<StepCall::Check>(check),
                          limit);
    new (self) StepCall(executor, program, made, outputs, std::move(outcome));
}

// The core's peak in GFLOP/s: the fastest of the blocks that fit into `seconds`.
double peak_gflops(double seconds, const std::string &simd, const std::string &products) {
    using Clock = std::chrono::steady_clock;
    const Multiplier multiplier = multiplier_of(products, kernels_of(simd));
    const nb::gil_scoped_release free; // so that every core can be measured at the same time
    const auto since = [](Clock::time_point start) {
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    double best = 0;
    const auto begin = Clock::now();
    do {
        float result[3] = {0.999f, 1e-3f, 0.0f};
        const auto start = Clock::now();
        const double operations = multiplier.multiply_add_block(result);
        best = std::max(best, operations / since(start) * 1e-9);
    } while (since(begin) < seconds);
    return best;
}

// A view of the arena as a NumPy array that keeps the executor alive.
nb::object array(nb::object self, Offset offset, const std::vector<long> &shape,
                 const std::vector<long> &strides, const std::string &dtype) {
    auto &executor = nb::cast<Executor &>(self);
    const Type type = type_of(dtype);
    std::vector<npy_intp> sizes(shape.begin(), shape.end()), steps;
    for (const long stride : strides)
        steps.push_back(stride * static_cast<npy_intp>(item_bytes(type)));
    PyObject *made = PyArray_New(
        &PyArray_Type, static_cast<int>(sizes.size()), sizes.data(), numpy_type_of(type), steps.data(),
        executor.at(static_cast<std::size_t>(offset)), 0, NPY_ARRAY_WRITEABLE, nullptr);
    if (!made)
        nb::raise_python_error();
    if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject *>(made), self.inc_ref().ptr()) < 0)
        nb::raise_python_error();
    return nb::steal(made);
}

} // namespace

void bind_learner(nb::module_ &parent) {
    numpy::import_numpy();
    nb::module_ m = parent.def_submodule("learner", "Executor of step graphs");
    // Also of the steps that other submodules take with an executor.
    nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
        try {
            std::rethrow_exception(thrown);
        } catch (const NotFinite &error) {
            PyErr_SetString(PyExc_FloatingPointError, error.what());
        }
    });
    m.attr("OP_NAMES") = OPERATION_NAMES;
    m.attr("MAXIMUM_THREADS") = MAXIMUM_THREADS;
    m.def("peak_gflops", &peak_gflops, nb::arg("seconds") = 0.2, nb::arg("simd") = "",
          nb::arg("products") = "float32");
    m.def("measured_blockings", &measured, nb::arg("simd"), nb::arg("seconds"),
          "The fastest way of each kind of product on this processor");
    nb::class_<Executor>(m, "Executor")
        .def(
            "__init__",
            [](Executor *self, std::size_t arena_bytes, const std::string &simd, int threads, double part_ns,
               const std::string &products, const BlockingArguments &blockings) {
                if (threads < 1 || threads > MAXIMUM_THREADS)
                    throw nb::value_error(("threads: found " + std::to_string(threads) + "; allowed: 1 to " +
                                           std::to_string(MAXIMUM_THREADS))
                                              .c_str());
                const Kernels *const kernels = kernels_of(simd);
                const Multiplier multiplier = multiplier_of(products, kernels);
                new (self)
                    Executor(arena_bytes, kernels, threads, part_ns, &multiplier, blockings_of(blockings));
            },
            nb::arg("arena_bytes"), nb::arg("simd") = "", nb::arg("threads") = 1, nb::arg("part_ns") = 0.0,
            nb::arg("products") = "float32", nb::arg("blockings") = BlockingArguments())
        .def_prop_ro("products", [](const Executor &e) { return std::string(e.multiplier().name); })
        .def_prop_ro("simd", [](const Executor &e) { return std::string(e.kernels().name); })
        .def_prop_ro("threads", &Executor::threads)
        .def(
            "parts",
            [](Executor &e, int program) {
                std::vector<std::size_t> parts;
                for (const auto &stages : e.program(program).stages) {
                    std::size_t most = 1;
                    for (const auto &stage : stages)
                        most = std::max(most, stage.size());
                    parts.push_back(most);
                }
                return parts;
            },
            "How many threads share each operation")
        .def("add_program", &Executor::add_program)
        .def("add_elementwise", &add_elementwise)
        .def("add_product", &add_product)
        .def("add_reduce", &add_reduce)
        .def("add_pick", &add_pick)
        .def("add_patches", &add_patches)
        .def("add_fixed_point", &add_fixed_point)
        .def(
            "take_counts",
            [](Executor &e, int program) {
                auto &counts = e.program(program).counts;
                std::vector<std::int64_t> taken(counts.begin(), counts.end());
                std::fill(counts.begin(), counts.end(), 0);
                return taken;
            },
            "What did not fit its format since the last call, by label")
        .def("set_transfers", &set_transfers)
        .def("name_results", &name_results)
        .def("name_state", &name_state)
        .def("take_overflowed", &Executor::take_overflowed)
        .def("run", &run)
        .def("profile",
             [](Executor &e, int program, int steps) {
                 const Executor::Claim claim(e);
                 return e.profile(e.program(program), steps);
             })
        .def("array", &array);
    nb::class_<StepCall>(m, "StepCall")
        .def("__init__", &make_step_call, nb::keep_alive<1, 2>())
        .def("step", &StepCall::step, nb::arg(), nb::arg().none(), nb::arg().none());
}

} // namespace placerl::learner

// The extension module `harness._experiments`: C++ that only experiments use, built on the headers of
// `primitives`. Each header is stored next to the experiment that uses it.
#include "native/numpy.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "harness/cli/bench/native/bare_mujoco.hpp"
#include "harness/compare/native/memory_floor.hpp"
#include "harness/machines/native/probes.hpp"
#include "harness/papers/map/native/atomic_tree.hpp"
#include "harness/papers/pal/native/contention.hpp"
#include "harness/papers/pal/native/lock_orders.hpp"
#include "harness/papers/pal/native/scalar_tree.hpp"
#include "sum_tree/native/plain_tree_bindings.hpp"

namespace nb = nanobind;

namespace placerl {
namespace {

using namespace numpy;

// Turns of C++ threads on one replay, for the benchmark of PAL Fig. 9.
class Contended {
  public:
    Contended(const std::string &sharing, int64_t capacity, const std::vector<int64_t> &row_bytes, int fanout)
        : contention_(sharing, capacity, {row_bytes.begin(), row_bytes.end()}, fanout) {}

    int64_t size() const { return contention_.size(); }
    nb::tuple run(int threads, int64_t batch_size, int64_t inserted, double duration_s, uint64_t seed,
                  bool verify) {
        replay::TurnResult result{};
        {
            nb::gil_scoped_release free;
            result = contention_.run({threads, batch_size, inserted, duration_s, seed, verify});
        }
        return nb::make_tuple(result.wall_s, result.rounds, result.torn);
    }

  private:
    replay::Contention contention_;
};

// The memory floor of descents in a native tree of its own, laid out as the backend `native` lays out its
// default.
class MemoryFloor {
  public:
    MemoryFloor(int64_t capacity, int fanout) : tree_(capacity, fanout) {}

    double load_paths(nb::handle indices, bool dependent) const {
        PyArrayObject *leaves = vector_of(indices, NPY_INT64);
        if (!leaves || !in_range(data<int64_t>(leaves), PyArray_SIZE(leaves), tree_.capacity()))
            throw nb::value_error("indices: allowed: a contiguous vector of int64, each a leaf");
        const auto load = dependent ? sum_tree::load_paths<true, float> : sum_tree::load_paths<false, float>;
        return double(load(tree_.view(), data<int64_t>(leaves), PyArray_SIZE(leaves)));
    }

  private:
    sum_tree::KaryTree<float> tree_;
};

using bare_mujoco::BareMujoco;
template <typename Number>
using Array = nb::ndarray<const Number, nb::c_contig, nb::device::cpu>;

// `functions` are the addresses of mj_step, mj_forward and mj_resetData, those of a simulation data, qpos,
// qvel, ctrl.
void make_bare(BareMujoco *made, const std::array<uintptr_t, 3> &functions, uintptr_t model,
               const std::array<int, 4> &sizes, const std::vector<std::array<uintptr_t, 4>> &simulations) {
    const auto function = [&](int k) { return reinterpret_cast<bare_mujoco::Function>(functions[k]); };
    const auto numbers = [](uintptr_t address) { return reinterpret_cast<double *>(address); };
    std::vector<bare_mujoco::Simulation> found;
    for (const auto &at : simulations)
        found.push_back({reinterpret_cast<void *>(at[0]), numbers(at[1]), numbers(at[2]), numbers(at[3])});
    new (made) BareMujoco(function(0), function(1), function(2), reinterpret_cast<const void *>(model),
                          {sizes[0], sizes[1], sizes[2], sizes[3]}, std::move(found));
}

void begin_bare(BareMujoco &bare, Array<double> states) {
    if (int64_t(states.size()) != bare.count() * bare.state_width())
        throw nb::value_error("states: allowed: a state of each simulation");
    for (int64_t i = 0; i < bare.count(); ++i)
        bare.begin(i, states.data() + i * bare.state_width());
}

int64_t run_bare(BareMujoco &bare, Array<float> actions, Array<bool> over, Array<double> starts) {
    const int64_t steps = int64_t(over.size()) / bare.count();
    const int64_t ends = std::count(over.data(), over.data() + over.size(), true);
    if (int64_t(over.size()) != steps * bare.count() ||
        int64_t(actions.size()) != steps * bare.count() * bare.sizes().controls ||
        int64_t(starts.size()) < ends * bare.state_width())
        throw nb::value_error("actions, over, starts: allowed: (T, N, controls), (T, N), a row for each end");
    nb::gil_scoped_release free;
    return bare.run(actions.data(), over.data(), starts.data(), steps);
}

// PAL's tree: with a call that holds nothing but a batch's sampling and its update.
class PalTree : public sum_tree::PlainTree<float, sum_tree::ScalarTree> {
  public:
    using PlainTree::PlainTree;

    size_t group_offset_bytes() const { return tree_.group_offset_bytes(); }
    nb::object sample_and_update(nb::handle uniform, nb::handle indices, nb::handle priorities) {
        PyArrayObject *draws = checked(uniform, NPY_DOUBLE);
        PyArrayObject *leaves = checked(indices, NPY_INT64);
        PyArrayObject *values = checked(priorities, NPY_DOUBLE);
        const npy_intp count = PyArray_SIZE(draws);
        if (PyArray_SIZE(leaves) != count || PyArray_SIZE(values) != count ||
            !in_range(data<int64_t>(leaves), count, tree_.capacity()) || !(tree_.total() > 0))
            throw nb::value_error(
                "indices, priorities: allowed: as many as draws, of leaves of a tree that is not empty");
        nb::object found = new_vector(count, NPY_INT64);
        tree_.sample(data<double>(draws), data<int64_t>(found), count);
        tree_.update(data<int64_t>(leaves), data<double>(values), count);
        return found;
    }
};

} // namespace

NB_MODULE(_experiments, m) {
    m.doc() = "C++ that only experiments use";
    import_numpy();
    nb::class_<Contended>(m, "Contention")
        .def(nb::init<std::string, int64_t, std::vector<int64_t>, int>(), nb::arg("sharing"),
             nb::arg("capacity"), nb::arg("row_bytes"), nb::arg("fanout"))
        .def_prop_ro("size", &Contended::size)
        .def("run", &Contended::run, nb::arg("threads"), nb::arg("batch_size"), nb::arg("inserted"),
             nb::arg("duration_s"), nb::arg("seed"), nb::arg("verify"));
    sum_tree::bind_plain_tree<double, sum_tree::AtomicTree>(m, "AtomicTree")
        .def(nb::init<int64_t, int, int>(), nb::arg("capacity"), nb::arg("fanout"), nb::arg("threads"));
    nb::class_<BareMujoco>(m, "BareMujoco")
        .def("__init__", &make_bare, nb::arg("functions"), nb::arg("model"), nb::arg("sizes"),
             nb::arg("simulations"))
        .def("begin", &begin_bare, nb::arg("states"))
        .def("run", &run_bare, nb::arg("actions"), nb::arg("over"), nb::arg("starts"));
    nb::class_<machines::Copies>(m, "Copies")
        .def(nb::init<std::size_t>(), nb::arg("footprint_bytes"))
        .def_prop_ro("halves_are_equal", &machines::Copies::halves_are_equal)
        .def(
            "run",
            [](machines::Copies &memory, int64_t copies) {
                const nb::gil_scoped_release free;
                memory.run(copies);
            },
            nb::arg("copies"));
    m.def(
        "hand_over",
        [](int64_t turns) {
            const nb::gil_scoped_release free;
            return machines::hand_over(turns);
        },
        nb::arg("turns"));
    nb::class_<sum_tree::LockOrders>(m, "LockOrders")
        .def(nb::init<std::string, int64_t, int>(), nb::arg("order"), nb::arg("capacity"), nb::arg("fanout"))
        .def_prop_ro("total", &sum_tree::LockOrders::total)
        .def_prop_ro("leaves_total", &sum_tree::LockOrders::leaves_total)
        .def(
            "run",
            [](sum_tree::LockOrders &orders, int threads, int64_t batch_size, int64_t rounds, uint64_t seed) {
                const nb::gil_scoped_release free;
                return orders.run(threads, batch_size, rounds, seed);
            },
            nb::arg("threads"), nb::arg("batch_size"), nb::arg("rounds"), nb::arg("seed"));
    sum_tree::bind_plain_tree<float, sum_tree::ScalarTree, PalTree>(m, "ScalarTree")
        .def(nb::init<int64_t, int, bool>(), nb::arg("capacity"), nb::arg("fanout"), nb::arg("aligned"))
        .def_prop_ro("group_offset_bytes", &PalTree::group_offset_bytes)
        .def("sample_and_update", &PalTree::sample_and_update);
    nb::class_<machines::PointerChase>(m, "PointerChase")
        .def(nb::init<std::size_t>(), nb::arg("footprint_bytes"))
        .def_prop_ro("lines", &machines::PointerChase::lines)
        .def("run", &machines::PointerChase::run, nb::arg("loads"));
    nb::class_<MemoryFloor>(m, "MemoryFloor")
        .def(nb::init<int64_t, int>(), nb::arg("capacity"), nb::arg("fanout"))
        .def("load_paths", &MemoryFloor::load_paths, nb::arg("indices"), nb::arg("dependent"));
}

} // namespace placerl

// Gradient steps of a relaxed training loop (MAP V-A): the learner, in the caller's thread, trains on batches
// that the replay manager sampled D steps before, while the manager samples and updates.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "learner/fused/steps.hpp"
#include "learner/relaxed/manager.hpp"

namespace placerl::relaxed {

class Steps {
  public:
    using Source = fused::Source;
    using Run = fused::Steps::Run;

    // `ahead`: D, the batches that wait when a step begins, apart from its own. `beside`: as ReplayManager
    // takes it.
    Steps(replay::ConcurrentReplay &replay, learner::Executor &executor, int64_t batch_size,
          double priority_max, std::vector<Source> sources, std::vector<std::size_t> td_outputs,
          std::size_t ahead, bool beside)
        : executor_(executor), ahead_(ahead), sources_(std::move(sources)),
          td_outputs_(std::move(td_outputs)),
          manager_(replay, batch_size, priority_max, taken_columns(replay, executor, sources_),
                   executor.kernels().all_finite, 2 * ahead + 8 + 2 * burst(ahead), burst(ahead), beside) {
        for (std::size_t i = 0; i < ahead + 2 + burst(ahead); ++i)
            slots_.push_back({manager_.batch(), 0});
    }

    // Samples that `steps` steps ask for: the first steps ask for those that will wait, too.
    std::size_t samples_for(std::size_t steps) const { return steps + ahead_ - waiting_; }

    // Gradient steps taken, and seconds of the learner's own work and of its waiting, so far.
    int64_t taken() const { return taken_; }
    double learn_s() const { return learn_s_; }
    double wait_s() const { return wait_s_; }
    ReplayManager &manager() { return manager_; }
    const std::vector<learner::Transfer> &outputs(int program) const {
        return executor_.program(program).outputs;
    }

    // Throws std::domain_error where a batch is not finite or an integer in it is out of range, before the
    // state changes, and std::invalid_argument where there was nothing to sample; the batches that waited
    // with it are then dropped. Throws learner::NotFinite as `fused::Steps::run` does.
    void run(const Run &run, std::atomic<int64_t> &samples_drawn) {
        std::size_t asked = 0;
        for (std::size_t s = 0; s < run.programs.size(); ++s) {
            for (; waiting_ <= ahead_; ++waiting_, ++asked) {
                Slot &slot = slots_[(head_ + waiting_) % slots_.size()];
                manager_.wait_for(slot.call); // the update of the batch that was here before
                slot.call = manager_.sample(slot.batch, run.seeds.at(asked), run.betas.at(asked));
                samples_drawn.fetch_add(1, std::memory_order_relaxed);
            }
            Slot &slot = slots_[head_];
            {
                const Stopwatch watch(wait_s_);
                manager_.wait_for(slot.call);
            }
            manager_.rethrow();
            if (slot.batch.empty) {
                samples_drawn.fetch_sub(int64_t(waiting_), std::memory_order_relaxed);
                manager_.drain();
                waiting_ = 0;
                throw replay::empty_replay();
            }
            head_ = (head_ + 1) % slots_.size();
            --waiting_;
            if (!slot.batch.wrong.empty())
                throw std::domain_error(slot.batch.wrong);
            learn(run, s, slot.batch);
            slot.call = manager_.update(slot.batch);
        }
        manager_.wake(); // the caller does other work now
    }

    // Copies `count` rows of each column and posts their insertion; waits if two insertions are on their way.
    void insert(const std::vector<const char *> &columns, const std::vector<std::size_t> &row_bytes,
                int64_t count, std::vector<double> priorities) {
        Pending &pending = pending_[next_pending_];
        next_pending_ = (next_pending_ + 1) % pending_.size();
        manager_.wait_for(pending.call);
        pending.insertion.columns.resize(columns.size());
        for (std::size_t c = 0; c < columns.size(); ++c)
            pending.insertion.columns[c].assign(columns[c], columns[c] + std::size_t(count) * row_bytes[c]);
        pending.insertion.priorities = std::move(priorities);
        pending.insertion.count = count;
        pending.call = manager_.insert(pending.insertion);
    }

  private:
    // Calls after which the manager is woken. A step makes two, and its batch is needed D steps later. A
    // manager that spun for each call would take a core from the actors where there are only two.
    static std::size_t burst(std::size_t ahead) { return std::max<std::size_t>(1, ahead); }

    struct Slot {
        Batch batch;
        uint64_t call; // the last call about it
    };
    struct Pending {
        Insertion insertion;
        uint64_t call = 0;
    };

    static std::vector<TakenColumn> taken_columns(const replay::ConcurrentReplay &replay,
                                                  learner::Executor &executor,
                                                  const std::vector<Source> &sources) {
        std::vector<TakenColumn> columns(replay.columns().size(), TakenColumn{"", false, false, 0});
        const auto &program = executor.program(0);
        for (std::size_t i = 0; i < sources.size(); ++i)
            if (sources[i].kind == Source::Kind::column) {
                const auto c = std::size_t(sources[i].index);
                const bool is_float = program.inputs[i].type == learner::Type::float32;
                const bool is_bool = replay.columns()[c].row_bytes == 1;
                columns[c] = {sources[i].name, is_float && is_bool, is_float && !is_bool, sources[i].limit};
            }
        return columns;
    }

    void learn(const Run &run, std::size_t step, Batch &batch) {
        const Stopwatch watch(learn_s_);
        const auto &program = executor_.program(run.programs[step]);
        for (std::size_t i = 0; i < sources_.size(); ++i) {
            const learner::Transfer &input = program.inputs[i];
            const auto index = std::size_t(sources_[i].index);
            const void *from = nullptr;
            switch (sources_[i].kind) {
            case Source::Kind::column:
                from = batch.columns[index].data();
                break;
            case Source::Kind::weight:
                from = batch.weights.data();
                break;
            case Source::Kind::draw:
                from = run.draws[index] + step * input.bytes;
                break;
            }
            std::memcpy(input.place, from, input.bytes);
        }
        executor_.run(program);
        ++taken_;
        executor_.require_finite(program);
        const learner::Transfer &td_errors =
            program.outputs.at(td_outputs_.at(std::size_t(run.programs[step])));
        std::memcpy(batch.td_errors.data(), td_errors.place, td_errors.bytes);
    }

    learner::Executor &executor_;
    const std::size_t ahead_;
    const std::vector<Source> sources_;
    const std::vector<std::size_t> td_outputs_;
    // A ring: `waiting_` slots from `head_` on hold sampled batches, or ones that are asked for.
    std::vector<Slot> slots_;
    std::size_t head_ = 0, waiting_ = 0;
    std::vector<Pending> pending_{2};
    std::size_t next_pending_ = 0;
    int64_t taken_ = 0;
    double learn_s_ = 0, wait_s_ = 0;
    ReplayManager manager_; // last: its thread ends before what it uses
};

} // namespace placerl::relaxed

// Gradient steps of a relaxed training loop (MAP V-A): the learner, in the caller's thread, trains on batches
// that the replay manager sampled D steps before, while the manager samples and updates.
#pragma once

#include <cstring>
#include <stdexcept>
#include <vector>

#include "learner/fused/steps.hpp"
#include "learner/relaxed/presampled.hpp"

namespace placerl::relaxed {

class Steps {
  public:
    using Source = fused::Source;
    using Run = fused::Steps::Run;

    // `ahead`, `beside`: as Presampled takes them.
    Steps(replay::ConcurrentReplay &replay, learner::Executor &executor, int64_t batch_size,
          double priority_max, std::vector<Source> sources, std::vector<std::size_t> td_outputs,
          std::size_t ahead, bool beside)
        : executor_(executor), sources_(std::move(sources)), td_outputs_(std::move(td_outputs)),
          batches_(replay, batch_size, priority_max, taken_columns(replay, executor, sources_),
                   executor.kernels().all_finite, ahead, beside) {}

    // Samples that `steps` steps ask for: the first steps ask for those that will wait, too.
    std::size_t samples_for(std::size_t steps) const { return steps + batches_.missing() - 1; }

    // Gradient steps taken, and seconds of the learner's own work and of its waiting, so far.
    int64_t taken() const { return taken_; }
    double learn_s() const { return learn_s_; }
    Presampled &batches() { return batches_; }
    const std::vector<learner::Transfer> &outputs(int program) const {
        return executor_.program(program).outputs;
    }

    // Throws std::domain_error where a batch is not finite or an integer in it is out of range, before the
    // state changes, and std::invalid_argument where there was nothing to sample; the batches that waited
    // with it are then dropped. Throws learner::NotFinite as `fused::Steps::run` does.
    void run(const Run &run, std::atomic<int64_t> &samples_drawn) {
        std::size_t asked = 0;
        for (std::size_t s = 0; s < run.programs.size(); ++s) {
            for (; batches_.missing(); ++asked) {
                batches_.ask(run.seeds.at(asked), run.betas.at(asked));
                samples_drawn.fetch_add(1, std::memory_order_relaxed);
            }
            const std::size_t waiting = batches_.waiting();
            Batch *const batch = batches_.take();
            if (!batch) {
                samples_drawn.fetch_sub(int64_t(waiting), std::memory_order_relaxed);
                throw replay::empty_replay();
            }
            learn(run, s, *batch);
            batches_.give_back();
        }
        batches_.manager().wake(); // the caller does other work now
    }

  private:
    static std::vector<TakenColumn> taken_columns(const replay::ConcurrentReplay &replay,
                                                  learner::Executor &executor,
                                                  const std::vector<Source> &sources) {
        std::vector<TakenColumn> columns(replay.columns().size());
        const auto &program = executor.program(0);
        for (std::size_t i = 0; i < sources.size(); ++i)
            if (sources[i].kind == Source::Kind::column) {
                const auto c = std::size_t(sources[i].index);
                columns[c] = {sources[i].name, program.inputs[i].type, replay.columns()[c].row_bytes == 1,
                              sources[i].limit};
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
    const std::vector<Source> sources_;
    const std::vector<std::size_t> td_outputs_;
    int64_t taken_ = 0;
    double learn_s_ = 0;
    Presampled batches_; // last: its thread ends before what it uses
};

} // namespace placerl::relaxed

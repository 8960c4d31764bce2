// Gradient steps without Python in between: sample, gather,
// train and update the priorities, n times in a call.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "learner/native/program.hpp"
#include "replay/native/concurrent_replay.hpp"

namespace placerl::fused {

// What each of the executor's inputs is filled with.
struct Source {
    enum class Kind : int { column, weight, draw } kind;
    int index; // of the replay's column, or of the draw; unused for the weight
    std::string name;
    int64_t limit; // as of `learner::in_range`
};

class Steps {
  public:
    // Step s of a run trains program programs[s]; seeds and betas are those of the samples that the run asks
    // for, of which `samples_for` says the number; draws[d] holds the d-th draw of all steps, one after the
    // other. All are the caller's and outlive the run.
    struct Run {
        std::vector<int> programs;
        std::vector<sum_tree::Seed> seeds;
        std::vector<double> betas;
        std::vector<const std::byte *> draws;
    };

    // `sources`: one for each input of a program, the same for all. `td_outputs`: by program, which of its
    // outputs the TD errors are.
    Steps(replay::ConcurrentReplay &replay, learner::Executor &executor, int64_t batch_size,
          double priority_max, std::vector<Source> sources, std::vector<std::size_t> td_outputs)
        : replay_(replay), executor_(executor), batch_size_(batch_size), priority_max_(priority_max),
          sources_(std::move(sources)), td_outputs_(std::move(td_outputs)), indices_(std::size_t(batch_size)),
          priorities_(std::size_t(batch_size)), weights_(std::size_t(batch_size)),
          outputs_(replay.columns().size()), converted_(replay.columns().size()) {
        for (std::size_t c = 0; c < replay.columns().size(); ++c)
            converted_[c].resize(std::size_t(batch_size) * replay.columns()[c].row_bytes);
    }

    // Throws std::domain_error where a batch is not finite, or an integer in it is out of range: before the
    // state changes. Throws std::invalid_argument where there is nothing to sample, or a priority is too
    // large; learner::NotFinite after a step whose TD errors or state are not finite: it gives no
    // priorities.
    void run(const Run &run, std::atomic<int64_t> &samples_drawn) {
        take(run, 0, run.programs.size(), samples_drawn);
    }

    // Samples that `steps` steps ask for.
    std::size_t samples_for(std::size_t steps) const { return steps; }
    // Gradient steps taken so far.
    int64_t taken() const { return taken_; }

    // The outputs of the last step, as they lie in the arena.
    const std::vector<learner::Transfer> &outputs(int program) const {
        return executor_.program(program).outputs;
    }

  protected:
    replay::ConcurrentReplay &replay() { return replay_; }
    learner::Executor &executor() { return executor_; }

    // Takes the steps from `first` on and before `last` of a run.
    void take(const Run &run, std::size_t first, std::size_t last, std::atomic<int64_t> &samples_drawn) {
        for (std::size_t s = first; s < last; ++s) {
            const auto &program = executor_.program(run.programs[s]);
            sample(program, run.seeds[s], run.betas[s]);
            samples_drawn.fetch_add(1, std::memory_order_relaxed);
            for (std::size_t i = 0; i < sources_.size(); ++i)
                if (sources_[i].kind == Source::Kind::draw)
                    std::memcpy(program.inputs[i].place,
                                run.draws[std::size_t(sources_[i].index)] + s * program.inputs[i].bytes,
                                program.inputs[i].bytes);
            check(program);
            executor_.run(program);
            ++taken_;
            executor_.require_finite(program);
            update(program, td_outputs_.at(std::size_t(run.programs[s])));
        }
    }

  private:
    using Program = learner::Executor::Program;

    // Straight into the program's inputs, but for booleans that the program takes as floats.
    void sample(const Program &program, sum_tree::Seed seed, double beta) {
        float *weights = weights_.data();
        for (std::size_t i = 0; i < sources_.size(); ++i) {
            const learner::Transfer &input = program.inputs[i];
            if (sources_[i].kind == Source::Kind::weight)
                weights = reinterpret_cast<float *>(input.place);
            else if (sources_[i].kind == Source::Kind::column)
                outputs_[std::size_t(sources_[i].index)] =
                    is_converted(i, input) ? converted_[std::size_t(sources_[i].index)].data()
                                           : reinterpret_cast<char *>(input.place);
        }
        for (std::size_t c = 0; c < outputs_.size(); ++c)
            if (!outputs_[c])
                outputs_[c] = converted_[c].data(); // a column that the algorithm does not read
        if (!replay_.sample(seed, false, batch_size_, beta, indices_.data(), weights, outputs_.data(),
                            &claimed_))
            throw replay::empty_replay();
        for (std::size_t i = 0; i < sources_.size(); ++i)
            if (is_converted(i, program.inputs[i])) {
                const char *from = converted_[std::size_t(sources_[i].index)].data();
                auto *to = reinterpret_cast<float *>(program.inputs[i].place);
                for (std::size_t b = 0; b < std::size_t(batch_size_); ++b)
                    to[b] = from[b] ? 1.0f : 0.0f;
            }
    }

    bool is_converted(std::size_t i, const learner::Transfer &input) const {
        return sources_[i].kind == Source::Kind::column && input.type == learner::Type::float32 &&
               replay_.columns()[std::size_t(sources_[i].index)].row_bytes == 1;
    }

    void check(const Program &program) const {
        for (std::size_t i = 0; i < program.inputs.size(); ++i) {
            const learner::Transfer &input = program.inputs[i];
            const Source &source = sources_[i];
            if (input.type == learner::Type::float32 &&
                !executor_.kernels().all_finite(reinterpret_cast<const float *>(input.place),
                                                static_cast<long>(input.bytes / sizeof(float))))
                throw std::domain_error(source.name + ": found NaN or infinity; allowed: finite numbers");
            if (!learner::in_range(input.place, input.type, input.bytes, source.limit))
                throw std::domain_error(learner::out_of_range(source.name, input.type, source.limit));
        }
    }

    // A row that another thread has given to a new item since the sample keeps that item's priority.
    void update(const Program &program, std::size_t td_output) {
        const auto *td_errors = reinterpret_cast<const float *>(program.outputs.at(td_output).place);
        for (std::size_t b = 0; b < priorities_.size(); ++b) {
            priorities_[b] = replay_.priority_of(double(td_errors[b]));
            if (!(priorities_[b] <= priority_max_))
                throw std::invalid_argument("td_errors: found a priority above the largest, " +
                                            std::to_string(priority_max_));
        }
        replay_.update(indices_.data(), priorities_.data(), batch_size_, claimed_);
    }

    replay::ConcurrentReplay &replay_;
    learner::Executor &executor_;
    int64_t batch_size_;
    double priority_max_;
    std::vector<Source> sources_;
    std::vector<std::size_t> td_outputs_;
    int64_t taken_ = 0;
    std::vector<int64_t> indices_;
    int64_t claimed_ = 0; // as of `ConcurrentReplay::sample`
    std::vector<double> priorities_;
    std::vector<float> weights_; // of an algorithm that reads none
    std::vector<char *> outputs_;
    std::vector<std::vector<char>> converted_; // a column's batch where it cannot go into an input as it is
};

} // namespace placerl::fused

// Training by threads that share one replay (PAL IV-D and V): actors that collect, learners that each
// differentiate a batch of their own and average their gradients in memory. No thread needs Python.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "native/own_threads.hpp"
#include "training/native/actor.hpp"
#include "training/native/meeting.hpp"

namespace placerl::training {

// Kinds of gradient step, which repeat: step n is variants[n % size].
using Variants = std::vector<int>;

class ParallelTraining {
  public:
    struct Schedule {
        int64_t starts, interval, lead; // as `Pace` takes them
        BetaSchedule beta;
        Variants variants;
        uint64_t seed;
        // One actor and one learner without a lead, on one thread: no bit of the training changes.
        bool in_turns = false;
    };

    ParallelTraining(replay::ConcurrentReplay &replay, std::vector<std::unique_ptr<Actor>> actors,
                     std::vector<GradientStep *> learners, const std::vector<Block> &weights,
                     Schedule schedule)
        : replay_(replay), actors_(std::move(actors)), learners_(std::move(learners)), mailbox_(weights),
          pace_(schedule.starts, schedule.interval, schedule.lead), beta_(schedule.beta),
          variants_(std::move(schedule.variants)), meeting_(int(learners_.size())),
          in_turns_(schedule.in_turns) {
        if (in_turns_ && (actors_.size() != 1 || learners_.size() != 1 || schedule.lead))
            throw std::invalid_argument("in_turns: allowed: one actor and one learner, without a lead");
        Random seeds(schedule.seed);
        for (size_t rank = 0; rank < learners_.size(); ++rank)
            random_.emplace_back(seeds.next());
        spent_.resize(learners_.size());
        int64_t envs = 0;
        for (const auto &actor : actors_)
            envs += actor->count();
        // Weights are sent once for each vector step of any actor: of envs / actors environments.
        publish_every_ = std::max<int64_t>(1, envs / (schedule.interval * int64_t(actors_.size())));
    }
    ParallelTraining(const ParallelTraining &) = delete;
    ParallelTraining &operator=(const ParallelTraining &) = delete;
    ~ParallelTraining() { stop(); }

    int64_t environment_steps() const { return pace_.environment_steps(); }
    int64_t gradient_steps() const { return pace_.gradient_steps(); }
    bool filled() const { return pace_.filled(); }

    // From the next start on each learner's and each actor's thread runs on a core of its own, one of each;
    // none are bound where none are given.
    void place(std::vector<int> learners, std::vector<int> actors) {
        if ((learners.size() != learners_.size() && !learners.empty()) ||
            (actors.size() != actors_.size() && !actors.empty()))
            throw std::invalid_argument("cores: allowed: one for each thread, or none");
        learner_cores_ = std::move(learners), actor_cores_ = std::move(actors);
    }

    // Starts the threads: until `steps` more gradient steps are taken, or, with actors alone, environment
    // steps; where the replay is not filled yet, until it is, at random and without learning.
    // None of them works where one cannot be created, or bound to its core, which is thrown.
    void start(int64_t steps, Working working = Working::both) {
        const bool fill = !pace_.filled();
        const bool acting = fill || working != Working::learners;
        const bool learning = !fill && working != Working::actors;
        pace_.begin(working, working == Working::actors ? steps : 0);
        learners_[0]->publish(mailbox_);
        until_ = pace_.gradient_steps() + steps;
        learning_ = learning ? int(learners_.size()) : 0;
        running_ = in_turns_ ? 1 : (acting ? int(actors_.size()) : 0) + learning_;
        admission_.store(Admission::awaited);
        try {
            if (in_turns_)
                begin(learner_cores_, 0, [=, this] { take_turns(acting, learning, fill); });
            for (size_t i = 0; acting && !in_turns_ && i < actors_.size(); ++i)
                begin(actor_cores_, i, [=, this] { actors_[i]->run(pace_, mailbox_, replay_, fill); });
            for (size_t rank = 0; learning && !in_turns_ && rank < learners_.size(); ++rank)
                begin(learner_cores_, rank, [this, rank] { learn(rank); });
        } catch (...) {
            admit(Admission::refused);
            threads_.join();
            running_ = 0;
            pace_.stop();
            throw;
        }
        admit(Admission::granted);
    }
    // Whether all threads have ended; waits up to `seconds` for it.
    bool wait_for(double seconds) {
        std::unique_lock lock(mutex_);
        return ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return !running_; });
    }
    // Ends the threads after the step that each is at.
    void stop() { pace_.stop(); }
    // Waits for the end; throws what the first thread that failed threw.
    void join() {
        threads_.join();
        for (GradientStep *learner : learners_) {
            try {
                learner->settle();
            } catch (...) {
                fail(std::current_exception());
            }
        }
        if (const std::exception_ptr failure = std::exchange(failure_, nullptr))
            std::rethrow_exception(failure);
    }
    void restore(int64_t environment_steps, int64_t gradient_steps) {
        pace_.restore(environment_steps, gradient_steps);
    }

    std::vector<Episode> take_episodes() {
        std::vector<Episode> all;
        for (const auto &actor : actors_)
            for (const Episode &episode : actor->take_episodes())
                all.push_back(episode);
        std::stable_sort(all.begin(), all.end(), [](const Episode &a, const Episode &b) {
            return a.environment_step < b.environment_step;
        });
        return all;
    }
    // Of all threads together; between runs.
    Spent spent() const {
        Spent total;
        for (const auto &actor : actors_)
            total.add(actor->spent());
        for (const Spent &one : spent_)
            total.add(one);
        return total;
    }

  private:
    // Learners meet all others, so that the threads begin to work when all are there.
    enum class Admission : int { awaited, granted, refused };

    template <typename Work>
    void begin(const std::vector<int> &cores, size_t thread, Work work) {
        std::thread &started = threads_.start([this, work] {
            admission_.wait(Admission::awaited);
            if (admission_.load() == Admission::refused)
                return;
            try {
                work();
            } catch (...) {
                fail(std::current_exception());
            }
            const std::lock_guard lock(mutex_);
            if (!--running_)
                ended_.notify_all();
        });
        if (!cores.empty())
            bind_to(started.native_handle(), cores[thread]);
    }
    void admit(Admission admission) {
        admission_.store(admission);
        admission_.notify_all();
    }

    void fail(std::exception_ptr error) {
        {
            const std::lock_guard lock(mutex_);
            if (!failure_)
                failure_ = std::move(error);
        }
        pace_.stop();
    }

    // Exactly one of the two may go on at any time, as with two threads.
    void take_turns(bool acting, bool learning, bool fill) {
        Laps laps;
        for (int64_t step = pace_.gradient_steps(); !learning || step < until_; ++step) {
            while (acting && actors_[0]->take_turn(pace_, mailbox_, replay_, fill, laps, false))
                ;
            if (!learning || !take_step(0, step, laps))
                return;
        }
    }

    void learn(size_t rank) {
        Laps laps;
        for (int64_t step = pace_.gradient_steps(); step < until_; ++step)
            if (!take_step(rank, step, laps))
                break;
        if (learning_.fetch_sub(1) == 1)
            pace_.stop(); // the actors have nothing to wait for
    }

    // False where the learners agreed to stop: before the second phase, when the step has changed nothing, or
    // after one of them failed.
    bool take_step(size_t rank, int64_t number, Laps &laps) {
        GradientStep &step = *learners_[rank];
        Spent &spent = spent_[rank];
        const int variant = variants_[size_t(number) % variants_.size()], phases = step.phases(variant);
        bool go_on = pace_.may_learn(number);
        laps.lap(spent.learner_wait);
        if (go_on) {
            try {
                step.sample(variant, number, beta_, random_[rank]);
                laps.lap(spent.sample);
                step.run(variant, 0);
                laps.lap(spent.learner);
            } catch (...) {
                fail(std::current_exception());
                go_on = false;
            }
        }
        if (learners_.size() == 1 && !go_on)
            return false;
        // A learner that fails keeps every appointment, so that no other waits for it for ever.
        for (int phase = 1; phase < phases; ++phase) {
            if (!meeting_.meet(go_on))
                return false; // all of them do
            try {
                step.average(variant, phase - 1, learners_);
                laps.lap(spent.aggregate);
                step.run(variant, phase);
                laps.lap(spent.learner);
            } catch (...) {
                fail(std::current_exception());
                go_on = false;
            }
        }
        // Nobody overwrites the gradients of the only phase while another reads them.
        if (phases == 2 && !meeting_.meet(go_on))
            return false;
        if (!go_on)
            return true; // failed in the last phase: at the next step all agree to stop
        laps.lap(spent.aggregate);
        try {
            step.update(variant);
        } catch (...) {
            fail(std::current_exception()); // at the next step all agree to stop
            go_on = false;
        }
        laps.lap(spent.update);
        // After the update, which throws where a TD error or the new state is not finite.
        if (go_on && rank == 0 && (number + 1) % publish_every_ == 0)
            step.publish(mailbox_);
        laps.lap(spent.aggregate);
        if (rank == 0)
            pace_.learnt();
        return true;
    }

    replay::ConcurrentReplay &replay_;
    std::vector<std::unique_ptr<Actor>> actors_;
    std::vector<GradientStep *> learners_;
    Mailbox mailbox_;
    Pace pace_;
    const BetaSchedule beta_;
    const Variants variants_;
    Meeting meeting_;
    const bool in_turns_;
    std::vector<Random> random_;
    std::vector<Spent> spent_;
    std::vector<int> learner_cores_, actor_cores_;
    int64_t until_ = 0, publish_every_ = 1;
    std::atomic<int> learning_{0};
    std::atomic<Admission> admission_{Admission::awaited};
    std::mutex mutex_;
    std::condition_variable ended_;
    int running_ = 0;
    std::exception_ptr failure_;
    OwnThreads threads_; // last: they end before what they use
};

} // namespace placerl::training

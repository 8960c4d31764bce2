// Batches that a replay manager samples ahead of the learner that trains on them (MAP V-A): a ring of bounded
// size. The learner asks for batches, takes the oldest, and gives its TD errors back.
#pragma once

#include <algorithm>
#include <vector>

#include "learner/relaxed/manager.hpp"

namespace placerl::relaxed {

class Presampled {
  public:
    // `ahead`: D, the batches that wait when a step begins, apart from its own. Others as ReplayManager takes
    // them.
    Presampled(replay::ConcurrentReplay &replay, int64_t batch_size, double priority_max,
               std::vector<TakenColumn> columns, ReplayManager::AllFinite all_finite, std::size_t ahead,
               bool beside)
        : ahead_(ahead), manager_(replay, batch_size, priority_max, std::move(columns), all_finite,
                                  2 * ahead + 8 + 2 * burst(ahead), burst(ahead), beside) {
        for (std::size_t i = 0; i < ahead + 2 + burst(ahead); ++i)
            slots_.push_back({manager_.batch(), 0});
    }

    // Batches that were asked for and not taken.
    std::size_t waiting() const { return waiting_; }
    // Batches to ask for before the next one is taken.
    std::size_t missing() const { return ahead_ + 1 - waiting_; }
    void ask(sum_tree::Seed seed, double beta) {
        Slot &slot = slots_[(head_ + waiting_++) % slots_.size()];
        manager_.wait_for(slot.call); // the update of the batch that was here before
        slot.call = manager_.sample(slot.batch, seed, beta);
    }
    // The oldest batch, which stays until `give_back`. Null where there was nothing to sample: the batches
    // that waited with it are then dropped. Throws what a call of the manager threw, and std::domain_error
    // where the batch cannot be trained on; it is then dropped.
    Batch *take() {
        Slot &slot = slots_[head_];
        {
            const Stopwatch watch(wait_s_);
            manager_.wait_for(slot.call);
        }
        manager_.rethrow();
        if (slot.batch.empty) {
            manager_.drain();
            waiting_ = 0;
            return nullptr;
        }
        head_ = (head_ + 1) % slots_.size();
        --waiting_;
        if (!slot.batch.wrong.empty())
            throw std::domain_error(slot.batch.wrong);
        return &slot.batch;
    }
    // The places of batches: what is at a place stays there. And that of the batch that was taken last.
    std::size_t places() const { return slots_.size(); }
    Batch &at(std::size_t place) { return slots_[place].batch; }
    std::size_t last() const { return (head_ + slots_.size() - 1) % slots_.size(); }
    // The batch that was taken last now has its TD errors.
    void give_back() {
        Slot &slot = slots_[last()];
        slot.call = manager_.update(slot.batch);
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
    // Waits until every call is done, and drops the batches that wait. Throws the first error of a call,
    // once.
    void drop() {
        waiting_ = 0;
        try {
            manager_.drain();
        } catch (...) {
            manager_.recover();
            throw;
        }
    }

    // Seconds that `take` waited so far.
    double wait_s() const { return wait_s_; }
    ReplayManager &manager() { return manager_; }

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

    const std::size_t ahead_;
    // A ring: `waiting_` slots from `head_` on hold sampled batches, or ones that are asked for.
    std::vector<Slot> slots_;
    std::size_t head_ = 0, waiting_ = 0;
    std::vector<Pending> pending_{2};
    std::size_t next_pending_ = 0;
    double wait_s_ = 0;
    ReplayManager manager_; // last: its thread ends before what it uses
};

} // namespace placerl::relaxed

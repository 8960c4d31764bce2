// Gradient steps of RLtools without its environment: `gradient_step.py` compiles it as RLtools compiles its own
// interface, with ALGORITHM_TD3, ALGORITHM_SAC or ALGORITHM_PPO, and a `loop_core_config.h` made of RLtools' template.
// In RLtools' own order, which decides which of its overloads are found.
#include <rl_tools/operations/cpu_mux.h>

#include "environment.h"

#include <rl_tools/nn/optimizers/adam/instance/operations_generic.h>
#include <rl_tools/nn/operations_cpu_mux.h>
#include <rl_tools/nn/layers/sample_and_squash/operations_generic.h>
#include <rl_tools/nn/layers/standardize/operations_generic.h>
#include <rl_tools/nn/layers/td3_sampling/operations_generic.h>
#include <rl_tools/nn_models/mlp_unconditional_stddev/operations_generic.h>
#include <rl_tools/nn_models/mlp/operations_generic.h>
#include <rl_tools/nn_models/sequential/operations_generic.h>
#include <rl_tools/nn/optimizers/adam/operations_generic.h>

#include "loop_core_config.h"

#include <chrono>
#include <pybind11/pybind11.h>

namespace RL_TOOLS_MODULE_NAME {

namespace rlt = rl_tools;

using DEVICE = rlt::devices::DEVICE_FACTORY<>;
static_assert(DEVICE::DEVICE_ID == rlt::devices::DeviceId::CPU_OPENBLAS, "without a BLAS it is no match");
using RNG = DEVICE::SPEC::RANDOM::ENGINE<>;
using TI = typename DEVICE::index_t;
using T = float;
using CONFIG = LOOP_CORE_CONFIG_FACTORY<rlt::numeric_types::Policy<T>, TI, RNG, RandomEnvironment<T, TI>>;
using LOOP = typename CONFIG::template State<CONFIG>;

class Trainer {
  public:
    // Makes the networks, and fills the replay, or the on-policy data set, with `samples` environment steps of a
    // random policy.
    explicit Trainer(TI seed, TI samples) {
        rlt::malloc(device_, loop_);
        rlt::init(device_, loop_, seed);
        for (TI i = 0; i < samples; ++i)
            rlt::step(device_, loop_);
    }
    ~Trainer() { rlt::free(device_, loop_); }
    Trainer(const Trainer &) = delete;

    // Seconds of `count` gradient steps (of PPO: updates, which have many), each on a batch of its own that was
    // gathered before the clock started.
    double train(TI count) {
        double seconds = 0;
        for (TI i = 0; i < count; ++i) {
            gather();
            const auto start = std::chrono::steady_clock::now();
            step();
            seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        }
        return seconds;
    }

    // The sum of the weights of the first layers of the actor and, off policy, of a critic: an actor whose tanh
    // is saturated on every observation learns nothing at first.
    double checksum() {
#ifdef ALGORITHM_PPO // its first layer standardises
        return sum(loop_.ppo.actor.next_module.content, OBSERVATION_SIZE);
#else
        auto &learner = loop_.actor_critic;
        return sum(learner.actor.content, OBSERVATION_SIZE) +
               sum(learner.critics[0].content, OBSERVATION_SIZE + ACTION_SIZE);
#endif
    }

  private:
    template <typename Network>
    double sum(const Network &network, TI inputs) {
        double total = 0;
        for (TI i = 0; i < HIDDEN_SIZE; ++i)
            for (TI j = 0; j < inputs; ++j)
                total += rlt::get(device_, network.input_layer.weights.parameters, i, j);
        return total;
    }

#ifdef ALGORITHM_PPO
    void gather() {}
    void step() {
        rlt::train(device_, loop_.ppo, loop_.on_policy_runner_dataset, loop_.actor_optimizer,
                   loop_.critic_optimizer, loop_.ppo_buffers, loop_.actor_buffers, loop_.critic_buffers,
                   loop_.rng);
    }
#else
    void gather() { rlt::gather_batch(device_, loop_.off_policy_runner, loop_.critic_batch, loop_.rng); }
#endif
#ifdef ALGORITHM_TD3
    void step() {
        using PARAMETERS = CONFIG::CORE_PARAMETERS::TD3_PARAMETERS;
        auto &learner = loop_.actor_critic;
        auto noise = rlt::matrix_view(device_, loop_.critic_training_buffers.target_next_action_noise);
        rlt::target_action_noise(device_, learner, noise, loop_.rng);
        for (int i = 0; i < 2; ++i)
            rlt::train_critic(device_, learner, learner.critics[i], loop_.critic_batch,
                              learner.critic_optimizers[i], loop_.actor_buffers[i],
                              loop_.actor_target_buffers[i], loop_.critic_buffers[i],
                              loop_.critic_target_buffers[i], loop_.critic_training_buffers, loop_.rng);
        if (taken_ % PARAMETERS::CRITIC_TARGET_UPDATE_INTERVAL == 0)
            rlt::update_critic_targets(device_, learner);
        if (taken_ % PARAMETERS::ACTOR_TRAINING_INTERVAL == 0)
            rlt::train_actor(device_, learner, loop_.critic_batch, learner.actor_optimizer,
                             loop_.actor_buffers[0], loop_.critic_buffers[0], loop_.actor_training_buffers,
                             loop_.rng);
        if (taken_ % PARAMETERS::ACTOR_TARGET_UPDATE_INTERVAL == 0)
            rlt::update_actor_target(device_, learner);
        ++taken_;
    }
#endif
#ifdef ALGORITHM_SAC
    void step() {
        auto &learner = loop_.actor_critic;
        rlt::randn(device_, loop_.action_noise_critic, loop_.rng);
        for (int i = 0; i < 2; ++i)
            rlt::train_critic(device_, learner, learner.critics[i], loop_.critic_batch,
                              learner.critic_optimizers[i], loop_.actor_target_buffers[i],
                              loop_.critic_buffers[i], loop_.critic_target_buffers[i],
                              loop_.critic_training_buffers[i], loop_.action_noise_critic, loop_.rng);
        rlt::update_critic_targets(device_, learner);
        rlt::randn(device_, loop_.action_noise_actor, loop_.rng);
        rlt::train_actor(device_, learner, loop_.critic_batch, learner.actor_optimizer,
                         loop_.actor_buffers[0], loop_.critic_buffers[0], loop_.actor_training_buffers,
                         loop_.action_noise_actor, loop_.rng);
    }
#endif

    DEVICE device_;
    LOOP loop_;
    [[maybe_unused]] TI taken_ = 0;
};

} // namespace RL_TOOLS_MODULE_NAME

PYBIND11_MODULE(RL_TOOLS_MODULE_NAME, m) {
    using Trainer = RL_TOOLS_MODULE_NAME::Trainer;
    pybind11::class_<Trainer>(m, "Trainer").def(pybind11::init<std::size_t, std::size_t>())
        .def("train", &Trainer::train)
        .def("checksum", &Trainer::checksum);
}

// Every number is computed in Gymnasium's order and type (gymnasium/envs/box2d/lunar_lander.py): doubles,
// which become Box2D's floats where they are passed to it.
#include "environments/native/lunar_lander.hpp"

#include <stdexcept>

#ifdef PLACERL_BOX2D
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include <Box2D/Box2D.h>

#include "environments/native/stepper.hpp"

namespace placerl::environments {
namespace {

constexpr double fps = 50, scale = 30;
constexpr double main_engine_power = 13, side_engine_power = 0.6;
constexpr double width = 600 / scale, height = 400 / scale; // of the viewport
constexpr int chunks = 11;
constexpr double pad_y = height / 4;
constexpr double leg_away = 20, leg_down = 18;

b2Vec2 vector(double x, double y) { return {float(x), float(y)}; }

// A world with its lander, from the reset of an episode to the next one.
class Flight final : public b2ContactListener {
  public:
    Flight(const LunarLanderOptions &options, Pcg64 &random)
        : options_(options), random_(random), world_(vector(0, options.gravity)) {
        world_.SetContactListener(this);
        build_moon();
        build_lander();
        for (const int side : {-1, 1})
            build_leg(side);
    }
    Flight(const Flight &) = delete;

    // The engines' commands: of the main one in [0, 1], 0 for off; of the side engines in [-1, 1], 0 for off.
    void step(double main, double side) {
        if (options_.enable_wind && !touches_[0] && !touches_[1])
            blow();
        const double angle = lander_->GetAngle();
        const double tip[2] = {std::sin(angle), std::cos(angle)}, across[2] = {-tip[1], tip[0]};
        double dispersion[2];
        for (double &each : dispersion)
            each = random_.uniform(-1, 2) / scale;
        if (main > 0) {
            const double x = tip[0] * (4 / scale + 2 * dispersion[0]) + across[0] * dispersion[1];
            const double y = -tip[1] * (4 / scale + 2 * dispersion[0]) - across[1] * dispersion[1];
            const b2Vec2 &position = lander_->GetPosition();
            lander_->ApplyLinearImpulse(vector(-x * main_engine_power * main, -y * main_engine_power * main),
                                        vector(position.x + x, position.y + y), true);
        }
        if (side != 0) {
            const double direction = side > 0 ? 1 : -1, power = std::abs(side);
            const double away = 3 * dispersion[1] + direction * 12 / scale;
            const double x = tip[0] * dispersion[0] + across[0] * away;
            const double y = -tip[1] * dispersion[0] - across[1] * away;
            const b2Vec2 &position = lander_->GetPosition();
            lander_->ApplyLinearImpulse(
                vector(-x * side_engine_power * power, -y * side_engine_power * power),
                vector(position.x + x - tip[0] * 17 / scale, position.y + y + tip[1] * 14 / scale), true);
        }
        world_.Step(float(1 / fps), 6 * 30, 2 * 30);
    }

    std::array<double, 8> state() const {
        const b2Vec2 &position = lander_->GetPosition(), &velocity = lander_->GetLinearVelocity();
        return {(position.x - width / 2) / (width / 2),
                (position.y - (pad_y + leg_down / scale)) / (height / 2),
                velocity.x * (width / 2) / fps,
                velocity.y * (height / 2) / fps,
                lander_->GetAngle(),
                20.0 * lander_->GetAngularVelocity() / fps,
                touches_[0] ? 1.0 : 0.0,
                touches_[1] ? 1.0 : 0.0};
    }

    bool crashed() const { return crashed_; }
    bool rests() const { return !lander_->IsAwake(); }

    void BeginContact(b2Contact *contact) override {
        crashed_ = crashed_ || touched(*contact, lander_);
        for (int leg = 0; leg < 2; ++leg)
            touches_[leg] = touches_[leg] || touched(*contact, legs_[leg]);
    }

    // As Gymnasium's: a leg that leaves one chunk of the ground is taken to leave the ground.
    void EndContact(b2Contact *contact) override {
        for (int leg = 0; leg < 2; ++leg)
            touches_[leg] = touches_[leg] && !touched(*contact, legs_[leg]);
    }

  private:
    static bool touched(b2Contact &contact, const b2Body *body) {
        return contact.GetFixtureA()->GetBody() == body || contact.GetFixtureB()->GetBody() == body;
    }

    void build_moon() {
        double heights[chunks + 1];
        for (double &each : heights)
            each = random_.uniform(0, height / 2);
        std::fill_n(heights + chunks / 2 - 2, 5, pad_y);
        double smooth[chunks];
        for (int i = 0; i < chunks; ++i)
            smooth[i] = 0.33 * (heights[i ? i - 1 : chunks] + heights[i] + heights[i + 1]);
        const b2BodyDef body;
        b2Body *const moon = world_.CreateBody(&body);
        b2FixtureDef fixture;
        b2EdgeShape edge;
        fixture.shape = &edge;
        edge.Set(vector(0, 0), vector(width, 0));
        moon->CreateFixture(&fixture);
        fixture.friction = 0.1f;
        for (int i = 0; i < chunks - 1; ++i) {
            edge.Set(vector(width / (chunks - 1) * i, smooth[i]),
                     vector(width / (chunks - 1) * (i + 1), smooth[i + 1]));
            moon->CreateFixture(&fixture);
        }
    }

    b2Body *build_body(double x, double angle, const b2FixtureDef &fixture) {
        b2BodyDef definition;
        definition.type = b2_dynamicBody;
        definition.position = vector(x, height);
        definition.angle = float(angle);
        b2Body *const body = world_.CreateBody(&definition);
        body->CreateFixture(&fixture);
        return body;
    }

    void build_lander() {
        constexpr double corners[][2] = {{-14, 17}, {-17, 0}, {-17, -10}, {17, -10}, {17, 0}, {14, 17}};
        b2Vec2 vertices[6];
        for (int k = 0; k < 6; ++k)
            vertices[k] = vector(corners[k][0] / scale, corners[k][1] / scale);
        b2PolygonShape hull;
        hull.Set(vertices, 6);
        b2FixtureDef fixture;
        fixture.shape = &hull;
        fixture.density = 5;
        fixture.friction = 0.1f;
        fixture.filter.categoryBits = 0x0010;
        fixture.filter.maskBits = 0x001; // collides with the ground alone
        lander_ = build_body(width / 2, 0, fixture);
        const double x = random_.uniform(-1000, 2000), y = random_.uniform(-1000, 2000);
        lander_->ApplyForceToCenter(vector(x, y), true);
        if (options_.enable_wind)
            for (int64_t *index : {&wind_, &torque_})
                *index = random_.integer(-9999, 9999);
    }

    void build_leg(int side) {
        b2PolygonShape box;
        box.SetAsBox(float(2 / scale), float(8 / scale));
        b2FixtureDef fixture;
        fixture.shape = &box;
        fixture.density = 1;
        fixture.filter.categoryBits = 0x0020;
        fixture.filter.maskBits = 0x001;
        b2Body *const leg = build_body(width / 2 - side * leg_away / scale, side * 0.05, fixture);
        b2RevoluteJointDef joint;
        joint.bodyA = lander_;
        joint.bodyB = leg;
        joint.referenceAngle = leg->GetAngle(); // set by Box2D's Python package
        joint.localAnchorA = vector(0, 0);
        joint.localAnchorB = vector(side * leg_away / scale, leg_down / scale);
        joint.enableMotor = joint.enableLimit = true;
        joint.maxMotorTorque = 40;
        joint.motorSpeed = float(0.3 * side);
        joint.lowerAngle = float(side < 0 ? 0.9 - 0.5 : -0.9);
        joint.upperAngle = float(side < 0 ? 0.9 : -0.9 + 0.5);
        world_.CreateJoint(&joint);
        legs_[side > 0] = leg;
    }

    // Of wind and turbulence, whose indices count steps of an episode, in [-1, 1].
    static double gust(int64_t index) {
        return std::tanh(std::sin(0.02 * double(index)) + std::sin(std::numbers::pi * 0.01 * double(index)));
    }

    void blow() {
        lander_->ApplyForceToCenter(vector(gust(wind_++) * options_.wind_power, 0), true);
        lander_->ApplyTorque(float(gust(torque_++) * options_.turbulence_power), true);
    }

    const LunarLanderOptions &options_;
    Pcg64 &random_;
    b2World world_;
    b2Body *lander_ = nullptr, *legs_[2] = {};
    bool crashed_ = false, touches_[2] = {};
    int64_t wind_ = 0, torque_ = 0;
};

// Physics of a Stepper.
template <typename Number>
class LunarLander {
  public:
    using Action = Number;

    LunarLander(int64_t count, const LunarLanderOptions &options)
        : options_(options), flights_(count), shapings_(count) {}

    // The flight goes on to draw from `random`, and its first step, without engines, belongs to the reset.
    void reset(int64_t i, Pcg64 &random) {
        flights_[i].emplace(options_, random);
        flights_[i]->step(0, 0);
        shapings_[i] = shaping(flights_[i]->state());
    }

    bool step(int64_t i, const Action *action, double &reward) {
        double main, side;
        if constexpr (std::is_same_v<Action, int64_t>) {
            main = *action == 2;
            side = *action % 2 ? double(*action - 2) : 0;
        } else {
            const double throttle = std::clamp(double(action[0]), -1., 1.);
            const double lateral = std::clamp(double(action[1]), -1., 1.);
            main = throttle > 0 ? (throttle + 1) * 0.5 : 0;
            side = std::abs(lateral) > 0.5 ? lateral : 0;
        }
        Flight &flight = *flights_[i];
        flight.step(main, side);
        const std::array<double, 8> state = flight.state();
        const double before = std::exchange(shapings_[i], shaping(state));
        reward = shapings_[i] - before;
        reward -= main * 0.30;
        reward -= std::abs(side) * 0.03;
        const bool lost = flight.crashed() || std::abs(state[0]) >= 1;
        if (lost)
            reward = -100;
        if (flight.rests())
            reward = 100;
        return lost || flight.rests();
    }

    template <typename Observed>
    void observe(int64_t i, Observed *row) const {
        for (const double each : flights_[i]->state())
            *row++ = Observed(float(each));
    }

    void info(int64_t, double *, bool) const {}

  private:
    static double shaping(const std::array<double, 8> &state) {
        return -100 * std::sqrt(state[0] * state[0] + state[1] * state[1]) -
               100 * std::sqrt(state[2] * state[2] + state[3] * state[3]) - 100 * std::abs(state[4]) +
               10 * state[6] + 10 * state[7];
    }

    LunarLanderOptions options_;
    std::vector<std::optional<Flight>> flights_;
    std::vector<double> shapings_;
};

Spec spec_of(const LunarLanderOptions &options, int64_t episode_steps) {
    Spec spec;
    spec.id = options.continuous ? "LunarLanderContinuous-v3" : "LunarLander-v3";
    spec.observation_width = 8;
    if (options.continuous) {
        spec.action_width = 2;
        spec.action_low = {-1, -1};
        spec.action_high = {1, 1};
    } else {
        spec.action_count = 4;
    }
    spec.observation_high = {2.5, 2.5, 10, 10, float(2 * std::numbers::pi), 10, 1, 1};
    for (const float bound : spec.observation_high)
        spec.observation_low.push_back(-bound);
    spec.observation_low[6] = spec.observation_low[7] = -0.0f;
    spec.episode_steps = episode_steps < 0 ? 1000 : episode_steps;
    return spec;
}

// Fills Box2D's tables, which its first world and contact do without a lock.
void fill_tables() {
    LunarLanderOptions options;
    Pcg64 random;
    Flight flight(options, random);
    while (!flight.crashed())
        flight.step(0, 1);
}

} // namespace

bool has_box2d() { return true; }

std::unique_ptr<VectorEnv> make_lunar_lander(int64_t count, Autoreset autoreset, int64_t episode_steps,
                                             const LunarLanderOptions &options) {
    [[maybe_unused]] static const bool filled = (fill_tables(), true);
    Spec spec = spec_of(options, episode_steps);
    if (options.continuous)
        return std::make_unique<Stepper<LunarLander<float>>>(std::move(spec), count, autoreset, options);
    return std::make_unique<Stepper<LunarLander<int64_t>>>(std::move(spec), count, autoreset, options);
}

} // namespace placerl::environments

#else

namespace placerl::environments {

bool has_box2d() { return false; }

std::unique_ptr<VectorEnv> make_lunar_lander(int64_t, Autoreset, int64_t, const LunarLanderOptions &) {
    throw std::invalid_argument("LunarLander: this build has no Box2D");
}

} // namespace placerl::environments

#endif

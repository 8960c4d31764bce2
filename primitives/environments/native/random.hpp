// NumPy's default generator, so that a seed gives the draws that Gymnasium's environments get from it:
// SeedSequence over one integer, PCG64, and Generator.uniform, integers and standard_normal.
#pragma once

#include <cstdint>

#include <numpy/random/bitgen.h>

// Of NumPy's library for C, which is part of its wheel.
extern "C" double random_standard_normal(bitgen_t *);
extern "C" uint64_t random_bounded_uint64(bitgen_t *, uint64_t low, uint64_t range, uint64_t mask,
                                          bool masked);

namespace placerl::environments {

// PCG XSL RR 128/64 (O'Neill 2014), as numpy.random.PCG64.
class Pcg64 {
  public:
    // As numpy.random.PCG64(numpy.random.SeedSequence(seed)).
    void seed(uint64_t seed) {
        uint64_t words[4];
        expand(seed, words);
        state_ = 0;
        increment_ = (join(words[2], words[3]) << 1) | 1;
        advance();
        state_ += join(words[0], words[1]);
        advance();
        has_half_ = false;
    }

    uint64_t next() {
        advance();
        const uint64_t mixed = uint64_t(state_ >> 64) ^ uint64_t(state_);
        const unsigned turn = unsigned(state_ >> 122);
        return (mixed >> turn) | (mixed << (-turn & 63));
    }

    // In [0, 1), with 53 bits.
    double next_double() { return double(next() >> 11) * (1.0 / 9007199254740992.0); }

    // Generator.uniform(low, high): `range` is high - low.
    double uniform(double low, double range) { return low + range * next_double(); }

    // Generator.integers(low, high): in [low, high).
    int64_t integer(int64_t low, int64_t high) {
        bitgen_t bits = generator();
        return int64_t(random_bounded_uint64(&bits, uint64_t(low), uint64_t(high - low) - 1, 0, false));
    }

    // Generator.standard_normal().
    double normal() {
        bitgen_t bits = generator();
        return random_standard_normal(&bits);
    }

  private:
    using Wide = unsigned __int128;

    static Wide join(uint64_t high, uint64_t low) { return (Wide(high) << 64) | low; }
    void advance() { state_ = state_ * join(2549297995355413924u, 4865540595714422341u) + increment_; }

    bitgen_t generator() { return {this, &next_word, &next_half, &next_unit, &next_word}; }
    static uint64_t next_word(void *self) { return static_cast<Pcg64 *>(self)->next(); }
    // The low half of a word, and then its high half.
    static uint32_t next_half(void *self) {
        Pcg64 &random = *static_cast<Pcg64 *>(self);
        random.has_half_ = !random.has_half_;
        if (!random.has_half_)
            return random.half_;
        const uint64_t word = random.next();
        random.half_ = uint32_t(word >> 32);
        return uint32_t(word);
    }
    static double next_unit(void *self) { return static_cast<Pcg64 *>(self)->next_double(); }

    // SeedSequence(seed).generate_state(4, uint64): a pool of four words of 32 bits, hashed and mixed.
    static void expand(uint64_t seed, uint64_t *words) {
        uint32_t hash = 0x43b0d7e5u, pool[4];
        const auto hashed = [&hash](uint32_t value) {
            value ^= hash;
            hash *= 0x931e8875u;
            value *= hash;
            return value ^ (value >> 16);
        };
        const auto mixed = [](uint32_t x, uint32_t y) {
            const uint32_t value = 0xca01f9ddu * x - 0x4973f715u * y;
            return value ^ (value >> 16);
        };
        const uint32_t entropy[4] = {uint32_t(seed), uint32_t(seed >> 32), 0, 0};
        for (int i = 0; i < 4; ++i)
            pool[i] = hashed(entropy[i]);
        for (int from = 0; from < 4; ++from)
            for (int to = 0; to < 4; ++to)
                if (from != to)
                    pool[to] = mixed(pool[to], hashed(pool[from]));
        uint32_t constant = 0x8b51f9ddu;
        for (int i = 0; i < 8; ++i) {
            uint32_t value = pool[i % 4] ^ constant;
            constant *= 0x58f38dedu;
            value *= constant;
            value ^= value >> 16;
            if (i % 2)
                words[i / 2] |= uint64_t(value) << 32;
            else
                words[i / 2] = value;
        }
    }

    Wide state_ = 0, increment_ = 1;
    uint32_t half_ = 0;
    bool has_half_ = false;
};

} // namespace placerl::environments

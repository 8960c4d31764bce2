// Drives a design that Verilator has turned into the class Vtop: whole batches of stream transfers in one
// call. The design's ports come in `ports.inc`, one line each: PORT(member of Vtop, width in bits).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

namespace {

// A port of 1 to 8, 16, 32, 64 bits, or of an array of 32-bit words.
struct Port {
    void *data;
    int width;

    void set(const uint32_t *words) const {
        if (width <= 8)
            *static_cast<CData *>(data) = static_cast<CData>(words[0]);
        else if (width <= 16)
            *static_cast<SData *>(data) = static_cast<SData>(words[0]);
        else if (width <= 32)
            *static_cast<IData *>(data) = words[0];
        else if (width <= 64)
            *static_cast<QData *>(data) = words[0] | static_cast<QData>(words[1]) << 32;
        else
            for (int i = 0; i < (width + 31) / 32; ++i)
                static_cast<EData *>(data)[i] = words[i];
    }

    void get(uint32_t *words) const {
        if (width <= 8)
            words[0] = *static_cast<const CData *>(data);
        else if (width <= 16)
            words[0] = *static_cast<const SData *>(data);
        else if (width <= 32)
            words[0] = *static_cast<const IData *>(data);
        else if (width <= 64) {
            words[0] = static_cast<uint32_t>(*static_cast<const QData *>(data));
            words[1] = static_cast<uint32_t>(*static_cast<const QData *>(data) >> 32);
        } else
            for (int i = 0; i < (width + 31) / 32; ++i)
                words[i] = static_cast<const EData *>(data)[i];
    }

    bool high() const { return *static_cast<const CData *>(data) != 0; }
    void drive(bool value) const { *static_cast<CData *>(data) = value; }
};

// The address of a port: scalars by themselves, wide ports by their words.
template <typename T>
void *address(T &port) {
    return &port;
}
template <std::size_t N>
void *address(VlWide<N> &port) {
    return port.data();
}

struct Model {
    VerilatedContext context;
    Vtop top{&context};
    Port ports[PORT_COUNT] = {
#define PORT(member, width) {address(top.member), width},
#include "ports.inc"
#undef PORT
    };

    // Registers begin as they are after a reset.
    Model() {
        top.clk = 0;
        top.eval();
    }
    ~Model() { top.final(); }

    void tick() {
        top.clk = 0;
        top.eval();
        top.clk = 1;
        top.eval();
    }
};

} // namespace

extern "C" {

// One input stream. Port numbers are places in `ports.inc`; valid and ready follow the payload.
struct Source {
    int64_t port, count, taken, words_per_item;
    const uint32_t *words;
    const int64_t *gaps; // idle cycles before each item
    int64_t *cycles;     // out: when each item was taken
};

// Output streams that deliver `wanted` items together.
struct Group {
    int64_t wanted, delivered;
};

// One output stream.
struct Sink {
    int64_t port, group, delivered, words_per_item;
    uint32_t *words;      // out
    const uint8_t *ready; // a pattern of `period` cycles
    int64_t period;
    int64_t *cycles; // out: when each item was delivered
    int64_t broken;  // out: WITHDRAWN or CHANGED if that happened to an item before it was taken
};

enum { WITHDRAWN = 1, CHANGED = 2 };

void *placerl_create() { return new Model; }
void placerl_destroy(void *model) { delete static_cast<Model *>(model); }

void placerl_write(void *model, int port, const uint32_t *words) {
    auto &m = *static_cast<Model *>(model);
    m.ports[port].set(words);
    m.top.eval();
}

void placerl_read(void *model, int port, uint32_t *words) {
    static_cast<Model *>(model)->ports[port].get(words);
}

void placerl_step(void *model, int64_t cycles) {
    for (int64_t i = 0; i < cycles; ++i)
        static_cast<Model *>(model)->tick();
}

// Runs until every item is taken and delivered, until a sink is broken, or for `limit` cycles. Returns the
// cycles run.
int64_t placerl_run(void *model, Source *sources, int source_count, Sink *sinks, int sink_count,
                    Group *groups, int group_count, int64_t limit) {
    auto &m = *static_cast<Model *>(model);
    auto waits = std::make_unique<int64_t[]>(source_count);
    for (int i = 0; i < source_count; ++i)
        waits[i] = sources[i].count ? sources[i].gaps[0] : 0;
    auto unfinished = [&] {
        for (int i = 0; i < source_count; ++i)
            if (sources[i].taken < sources[i].count)
                return true;
        for (int i = 0; i < group_count; ++i)
            if (groups[i].delivered < groups[i].wanted)
                return true;
        return false;
    };
    // For each sink the item that was offered in the last cycle and not taken; empty if there is none.
    std::vector<std::vector<uint32_t>> waiting(sink_count);
    std::vector<uint32_t> item;
    bool broken = false;
    int64_t cycle = 0;
    for (; cycle < limit && !broken && unfinished(); ++cycle) {
        for (int i = 0; i < source_count; ++i) {
            const Source &s = sources[i];
            const bool offered = s.taken < s.count && waits[i] == 0;
            m.ports[s.port + 1].drive(offered);
            if (offered)
                m.ports[s.port].set(s.words + s.taken * s.words_per_item);
        }
        for (int i = 0; i < sink_count; ++i) {
            const Sink &s = sinks[i];
            const Group &group = groups[s.group];
            m.ports[s.port + 2].drive(group.delivered < group.wanted && s.ready[cycle % s.period]);
        }
        m.top.clk = 0;
        m.top.eval();
        for (int i = 0; i < source_count; ++i) {
            Source &s = sources[i];
            if (!m.ports[s.port + 1].high()) {
                if (waits[i] > 0)
                    --waits[i];
            } else if (m.ports[s.port + 2].high()) {
                s.cycles[s.taken++] = cycle;
                if (s.taken < s.count)
                    waits[i] = s.gaps[s.taken];
            }
        }
        for (int i = 0; i < sink_count; ++i) {
            Sink &s = sinks[i];
            Group &group = groups[s.group];
            if (group.delivered == group.wanted)
                continue;
            const bool valid = m.ports[s.port + 1].high();
            item.resize(valid ? s.words_per_item : 0);
            if (valid)
                m.ports[s.port].get(item.data());
            if (!waiting[i].empty() && item != waiting[i]) {
                s.broken = valid ? CHANGED : WITHDRAWN;
                broken = true;
            }
            if (valid && m.ports[s.port + 2].high()) {
                ++group.delivered;
                std::copy(item.begin(), item.end(), s.words + s.delivered * s.words_per_item);
                s.cycles[s.delivered++] = cycle;
                waiting[i].clear();
            } else
                waiting[i] = item;
        }
        m.top.clk = 1;
        m.top.eval();
    }
    for (int i = 0; i < source_count; ++i)
        m.ports[sources[i].port + 1].drive(false);
    for (int i = 0; i < sink_count; ++i)
        m.ports[sinks[i].port + 2].drive(false);
    m.top.eval();
    return cycle;
}
}

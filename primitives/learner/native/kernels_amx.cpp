// Products in bfloat16 for processors with AMX tiles.
#include "learner/native/bfloat16.hpp"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PLACERL_SIMD "amx"
#include "learner/native/kernels_body.hpp"

namespace placerl::learner {
namespace {
#include "learner/native/gemm_pairs.hpp"
#include "learner/native/gemm_tiles.hpp"

// The processor's tiles.
struct Amx {
    // All eight tiles of 16 rows of 64 bytes, in this thread, until destroyed.
    struct Configured {
        Configured() {
            struct alignas(64) {
                std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
                std::uint16_t bytes[16] = {};
                std::uint8_t rows[16] = {};
            } all;
            for (int tile = 0; tile < 8; ++tile)
                all.bytes[tile] = 64, all.rows[tile] = TILE_SIDE;
            asm volatile("ldtilecfg %0" ::"m"(all));
        }
        ~Configured() { asm volatile("tilerelease"); }
        Configured(const Configured &) = delete;
        Configured &operator=(const Configured &) = delete;
    };
    // gcc's intrinsics take a tile's number from the text of their argument, so that a template cannot give
    // it.
    template <int TILE>
    static void zero() {
        asm volatile("tilezero %%tmm%c0" ::"i"(TILE));
    }
    template <int TILE>
    static void load(const void *from, long bytes) {
        asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(bytes), "i"(TILE) : "memory");
    }
    template <int TILE>
    static void store(void *to, long bytes) {
        asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(bytes), "i"(TILE) : "memory");
    }
    template <int SUMS, int A, int B>
    static void multiply_add() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUMS), "i"(A), "i"(B));
    }
};

// Whether the processor has tiles and bfloat16 in them, and the system lets this process use them.
bool usable() {
    constexpr unsigned BF16 = 1u << 22, TILES = 1u << 24;
    constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || (edx & (BF16 | TILES)) != (BF16 | TILES))
        return false;
    return avx512bf16_multiplier() && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

constexpr Multiplier MULTIPLIER = {PLACERL_SIMD, TILES_WORKSPACE, &multiply_tiles<Amx>,
                                   &multiply_tiles_block<Amx>};
} // namespace

const Multiplier *amx_multiplier() {
    static const bool here = usable();
    return here ? &MULTIPLIER : nullptr;
}
} // namespace placerl::learner
#else
const placerl::learner::Multiplier *placerl::learner::amx_multiplier() { return nullptr; }
#endif

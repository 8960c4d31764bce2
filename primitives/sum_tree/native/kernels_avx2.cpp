// 8 floats or 4 doubles at a time; built with AVX2 and FMA where the compiler targets x86-64.
#include "sum_tree/native/kernels.hpp"

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

namespace placerl::sum_tree {
namespace {

template <typename Real>
struct Lanes;

template <>
struct Lanes<float> {
    static constexpr int width = 8;
    using Vector = __m256;

    static __m256i first(int count) {
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    }
    static Vector load(const float *p, int count) {
        return count >= width ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, first(count));
    }
    static void store(float *p, Vector v, int count) { _mm256_maskstore_ps(p, first(count), v); }
    static Vector exclusive(Vector values, float &total) {
        const __m256i before = _mm256_setr_epi32(0, 0, 1, 2, 3, 4, 5, 6);
        Vector v = values;
        v = _mm256_blend_ps(_mm256_permutevar8x32_ps(v, before), _mm256_setzero_ps(), 1);
        __m256i bits = _mm256_castps_si256(v);
        v = _mm256_add_ps(v, _mm256_castsi256_ps(_mm256_slli_si256(bits, 4)));
        bits = _mm256_castps_si256(v);
        v = _mm256_add_ps(v, _mm256_castsi256_ps(_mm256_slli_si256(bits, 8)));
        // The lower half's sum, in every lane of the upper half.
        const __m256 low = _mm256_permute2f128_ps(v, v, 0x08);
        v = _mm256_add_ps(v, _mm256_permute_ps(low, 0xff));
        const __m128 last = _mm256_extractf128_ps(_mm256_add_ps(v, values), 1);
        total = _mm_cvtss_f32(_mm_permute_ps(last, 0xff));
        return v;
    }
    static float sum(Vector v) {
        __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
        half = _mm_add_ps(half, _mm_movehl_ps(half, half));
        return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
    }
    // The sums of four nodes of 16 children.
    static void four_sums(const float *a, const float *b, const float *c, const float *d, float *out) {
        const auto halves = [](const float *node) {
            return _mm256_add_ps(_mm256_loadu_ps(node), _mm256_loadu_ps(node + 8));
        };
        const auto pairs = [](__m256 one, __m256 other) {
            return _mm256_add_ps(_mm256_blend_ps(one, other, 0xcc), _mm256_shuffle_ps(one, other, 0x4e));
        };
        const __m256 ab = pairs(halves(a), halves(b)), cd = pairs(halves(c), halves(d));
        // In each 128-bit lane, that lane's sum of a, b, c and d.
        const __m256 lanes = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x88), _mm256_shuffle_ps(ab, cd, 0xdd));
        _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1)));
    }
    static Vector add(Vector v, float x) { return _mm256_add_ps(v, _mm256_set1_ps(x)); }
    static uint32_t positive(Vector v) {
        return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GT_OQ)));
    }
    static uint32_t at_most(Vector v, float x) {
        return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_set1_ps(x), _CMP_LE_OQ)));
    }
    static Vector select(uint32_t bits, Vector v, float x) {
        const __m256i lane_bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        const __m256i set = _mm256_and_si256(_mm256_set1_epi32(int(bits)), lane_bit);
        return _mm256_blendv_ps(_mm256_set1_ps(x), v, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane_bit)));
    }
};

template <>
struct Lanes<double> {
    static constexpr int width = 4;
    using Vector = __m256d;

    static __m256i first(int count) {
        return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
    }
    static Vector load(const double *p, int count) {
        return count >= width ? _mm256_loadu_pd(p) : _mm256_maskload_pd(p, first(count));
    }
    static void store(double *p, Vector v, int count) { _mm256_maskstore_pd(p, first(count), v); }
    static Vector exclusive(Vector values, double &total) {
        Vector v = values;
        v = _mm256_blend_pd(_mm256_permute4x64_pd(v, 0x90), _mm256_setzero_pd(), 1);
        v = _mm256_add_pd(v, _mm256_blend_pd(_mm256_permute4x64_pd(v, 0x90), _mm256_setzero_pd(), 1));
        v = _mm256_add_pd(v, _mm256_permute2f128_pd(v, v, 0x08));
        const __m128d last = _mm256_extractf128_pd(_mm256_add_pd(v, values), 1);
        total = _mm_cvtsd_f64(_mm_unpackhi_pd(last, last));
        return v;
    }
    static double sum(Vector v) {
        const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
        return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
    }
    static Vector add(Vector v, double x) { return _mm256_add_pd(v, _mm256_set1_pd(x)); }
    static uint32_t positive(Vector v) {
        return uint32_t(_mm256_movemask_pd(_mm256_cmp_pd(v, _mm256_setzero_pd(), _CMP_GT_OQ)));
    }
    static uint32_t at_most(Vector v, double x) {
        return uint32_t(_mm256_movemask_pd(_mm256_cmp_pd(v, _mm256_set1_pd(x), _CMP_LE_OQ)));
    }
    static Vector select(uint32_t bits, Vector v, double x) {
        const __m256i lane_bit = _mm256_setr_epi64x(1, 2, 4, 8);
        const __m256i set = _mm256_and_si256(_mm256_set1_epi64x(int64_t(bits)), lane_bit);
        return _mm256_blendv_pd(_mm256_set1_pd(x), v, _mm256_castsi256_pd(_mm256_cmpeq_epi64(set, lane_bit)));
    }
};

} // namespace
} // namespace placerl::sum_tree

#include "sum_tree/native/kernels_body.hpp"

namespace placerl::sum_tree {

template <typename Real>
const Kernels<Real> *avx2_kernels() {
    return table<Real>("avx2");
}
template const Kernels<float> *avx2_kernels<float>();
template const Kernels<double> *avx2_kernels<double>();

} // namespace placerl::sum_tree

#endif

// 16 floats or 8 doubles at a time; built with AVX-512 F, VL, DQ and BW where the compiler targets x86-64.
#include "sum_tree/native/kernels.hpp"

#if defined(__AVX512F__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && defined(__AVX512BW__)

#include <immintrin.h>

namespace placerl::sum_tree {
namespace {

template <typename Real>
struct Lanes;

template <>
struct Lanes<float> {
    static constexpr int width = 16;
    using Vector = __m512;

    static __mmask16 first(int count) { return __mmask16((1u << count) - 1); }
    static Vector load(const float *p, int count) {
        return count == width ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(first(count), p);
    }
    static void store(float *p, Vector v, int count) { _mm512_mask_storeu_ps(p, first(count), v); }
    template <int By>
    static Vector moved_up(Vector v) {
        const __m512i zero = _mm512_setzero_si512();
        return _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(v), zero, width - By));
    }
    static Vector exclusive(Vector v, float &total) {
        Vector sums = moved_up<1>(v);
        sums = _mm512_add_ps(sums, moved_up<1>(sums));
        sums = _mm512_add_ps(sums, moved_up<2>(sums));
        sums = _mm512_add_ps(sums, moved_up<4>(sums));
        sums = _mm512_add_ps(sums, moved_up<8>(sums));
        const __m128 last = _mm512_extractf32x4_ps(_mm512_add_ps(sums, v), 3);
        total = _mm_cvtss_f32(_mm_permute_ps(last, 0xff));
        return sums;
    }
    static float lane(Vector v, int index) {
        return _mm512_cvtss_f32(_mm512_permutexvar_ps(_mm512_castsi128_si512(_mm_cvtsi32_si128(index)), v));
    }
    static float sum(Vector v) { return _mm512_reduce_add_ps(v); }
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
    static Vector add(Vector v, float x) { return _mm512_add_ps(v, _mm512_set1_ps(x)); }
    static uint32_t positive(Vector v) { return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GT_OQ); }
    static uint32_t at_most(Vector v, float x) {
        return _mm512_cmp_ps_mask(v, _mm512_set1_ps(x), _CMP_LE_OQ);
    }
    static Vector select(uint32_t bits, Vector v, float x) {
        return _mm512_mask_blend_ps(__mmask16(bits), _mm512_set1_ps(x), v);
    }
};

template <>
struct Lanes<double> {
    static constexpr int width = 8;
    using Vector = __m512d;

    static __mmask8 first(int count) { return __mmask8((1u << count) - 1); }
    static Vector load(const double *p, int count) {
        return count == width ? _mm512_loadu_pd(p) : _mm512_maskz_loadu_pd(first(count), p);
    }
    static void store(double *p, Vector v, int count) { _mm512_mask_storeu_pd(p, first(count), v); }
    template <int By>
    static Vector moved_up(Vector v) {
        const __m512i zero = _mm512_setzero_si512();
        return _mm512_castsi512_pd(_mm512_alignr_epi64(_mm512_castpd_si512(v), zero, width - By));
    }
    static Vector exclusive(Vector v, double &total) {
        Vector sums = moved_up<1>(v);
        sums = _mm512_add_pd(sums, moved_up<1>(sums));
        sums = _mm512_add_pd(sums, moved_up<2>(sums));
        sums = _mm512_add_pd(sums, moved_up<4>(sums));
        const __m128d last = _mm512_extractf64x2_pd(_mm512_add_pd(sums, v), 3);
        total = _mm_cvtsd_f64(_mm_unpackhi_pd(last, last));
        return sums;
    }
    static double sum(Vector v) { return _mm512_reduce_add_pd(v); }
    static Vector add(Vector v, double x) { return _mm512_add_pd(v, _mm512_set1_pd(x)); }
    static uint32_t positive(Vector v) { return _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_GT_OQ); }
    static uint32_t at_most(Vector v, double x) {
        return _mm512_cmp_pd_mask(v, _mm512_set1_pd(x), _CMP_LE_OQ);
    }
    static Vector select(uint32_t bits, Vector v, double x) {
        return _mm512_mask_blend_pd(__mmask8(bits), _mm512_set1_pd(x), v);
    }
};

} // namespace
} // namespace placerl::sum_tree

#include "sum_tree/native/kernels_body.hpp"

namespace placerl::sum_tree {

template <typename Real>
const Kernels<Real> *avx512_kernels() {
    return table<Real>("avx512");
}
template const Kernels<float> *avx512_kernels<float>();
template const Kernels<double> *avx512_kernels<double>();

} // namespace placerl::sum_tree

#endif

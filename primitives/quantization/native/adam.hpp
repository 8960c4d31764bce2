// Adam and Polyak averaging on fixed-point weights: what the vector unit's programs give, in one pass.
// Included once per instruction set.

#if defined(__AVX512F__)

inline void update_adam(const AdamUpdate &u, long n, int64_t *parameters_saturated,
                        int64_t *targets_saturated) {
    const auto splat = [](double x) { return _mm512_set1_pd(x); };
    const __m512d rate = splat(*u.rate), root_correction = splat(*u.root_correction),
                  weight_step = splat(u.weight_step), gradient_step = splat(u.gradient_step),
                  weight_scale = splat(u.weight_scale), lowest = splat(u.lowest), highest = splat(u.highest),
                  mean_kept = splat(u.mean_kept), mean_taken = splat(u.mean_taken),
                  square_kept = splat(u.square_kept), square_taken = splat(u.square_taken),
                  epsilon = splat(u.epsilon), tau = splat(u.tau);
    // Whole vectors first: masked stores take several times as long.
    const auto update = [&](long i, auto load, auto load_floats, auto store_words, auto store_floats,
                            __mmask8 lanes) __attribute__((always_inline)) {
        const auto weights = [&](const int32_t *raw) {
            return _mm512_mul_pd(_mm512_cvtepi32_pd(load(raw + i)), weight_step);
        };
        const auto store = [&](int32_t *raw, __m512d x, int64_t *saturated) {
            const __m512d whole = round_half_up_lanes(_mm512_mul_pd(x, weight_scale));
            store_words(raw + i, saturate_lanes(whole, lowest, highest, lanes, *saturated));
        };
        const __m512d g = _mm512_mul_pd(_mm512_cvtepi32_pd(load(u.gradient + i)), gradient_step);
        __m512d mean = _mm512_cvtps_pd(load_floats(u.mean + i));
        __m512d square = _mm512_cvtps_pd(load_floats(u.square + i));
        mean = _mm512_add_pd(_mm512_mul_pd(mean, mean_kept), _mm512_mul_pd(g, mean_taken));
        square = _mm512_add_pd(_mm512_mul_pd(square, square_kept),
                               _mm512_mul_pd(_mm512_mul_pd(g, square_taken), g));
        store_floats(u.mean + i, _mm512_cvtpd_ps(mean));
        store_floats(u.square + i, _mm512_cvtpd_ps(square));
        const __m512d root = _mm512_div_pd(_mm512_sqrt_pd(square), root_correction);
        const __m512d step = _mm512_mul_pd(rate, _mm512_div_pd(mean, _mm512_add_pd(root, epsilon)));
        const __m512d parameter = _mm512_sub_pd(weights(u.parameter), step);
        store(u.parameter, parameter, parameters_saturated);
        if (u.target) {
            const __m512d old = weights(u.target);
            store(u.target, _mm512_add_pd(old, _mm512_mul_pd(_mm512_sub_pd(parameter, old), tau)),
                  targets_saturated);
        }
    };
    long i = 0;
    for (; i + 8 <= n; i += 8)
        update(
            i, [](const int32_t *p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)); },
            [](const float *p) { return _mm256_loadu_ps(p); },
            [](int32_t *p, __m256i x) { _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), x); },
            [](float *p, __m256 x) { _mm256_storeu_ps(p, x); }, 0xff);
    if (i < n) {
        const __mmask8 lanes = first_lanes(n - i);
        update(
            i, [&](const int32_t *p) { return _mm256_maskz_loadu_epi32(lanes, p); },
            [&](const float *p) { return _mm256_maskz_loadu_ps(lanes, p); },
            [&](int32_t *p, __m256i x) { _mm256_mask_storeu_epi32(p, lanes, x); },
            [&](float *p, __m256 x) { _mm256_mask_storeu_ps(p, lanes, x); }, lanes);
    }
}

#else

inline void update_adam(const AdamUpdate &u, long n, int64_t *parameters_saturated,
                        int64_t *targets_saturated) {
    const auto store = [&](int32_t *raw, double x) {
        return saturate(round_half_up(x * u.weight_scale), u.lowest, u.highest, raw);
    };
    for (long i = 0; i < n; ++i) {
        const double g = u.gradient[i] * u.gradient_step;
        const double mean = u.mean[i] * u.mean_kept + g * u.mean_taken;
        const double square = u.square[i] * u.square_kept + g * u.square_taken * g;
        u.mean[i] = static_cast<float>(mean), u.square[i] = static_cast<float>(square);
        const double root = std::sqrt(square) / *u.root_correction;
        const double parameter = u.parameter[i] * u.weight_step - *u.rate * (mean / (root + u.epsilon));
        *parameters_saturated += store(u.parameter + i, parameter);
        if (u.target) {
            const double old = u.target[i] * u.weight_step;
            *targets_saturated += store(u.target + i, old + (parameter - old) * u.tau);
        }
    }
}

#endif

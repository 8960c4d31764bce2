// Sums in the order of numpy.sum over a contiguous array.
#pragma once

namespace placerl::environments {

// Up to 128 numbers: eight sums that meet in pairs; fewer than eight one after the other. More are halved
// first.
template <typename Number>
Number pairwise_sum(const Number *numbers, int count) {
    if (count < 8) {
        Number sum = -Number(0);
        for (int k = 0; k < count; ++k)
            sum += numbers[k];
        return sum;
    }
    if (count > 128) {
        const int half = count / 2 - count / 2 % 8;
        return pairwise_sum(numbers, half) + pairwise_sum(numbers + half, count - half);
    }
    Number sums[8];
    for (int k = 0; k < 8; ++k)
        sums[k] = numbers[k];
    int from = 8;
    for (; from < count - count % 8; from += 8)
        for (int k = 0; k < 8; ++k)
            sums[k] += numbers[from + k];
    Number sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; from < count; ++from)
        sum += numbers[from];
    return sum;
}

} // namespace placerl::environments

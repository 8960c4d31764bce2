// Random numbers from a counter: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). The same key and counter give the same numbers on every device, in any order.

// Replace a counter of four words by four random words.
FUNCTION void philox(UINT *words, UINT key_low, UINT key_high) {
    for (int round = 0; round < 10; ++round) {
        const ULONG first = (ULONG)0xD2511F53u * words[0], second = (ULONG)0xCD9E8D57u * words[2];
        words[0] = (UINT)(second >> 32) ^ words[1] ^ key_low;
        words[1] = (UINT)second;
        words[2] = (UINT)(first >> 32) ^ words[3] ^ key_high;
        words[3] = (UINT)first;
        key_low += 0x9E3779B9u;
        key_high += 0xBB67AE85u;
    }
}

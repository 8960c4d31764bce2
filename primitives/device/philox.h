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

// Four random words of item `item` of step `step` of a loop; `stream` tells apart what draws in a step.
FUNCTION void counted(UINT *words, LONG item, UINT stream, LONG step, UINT key_low, UINT key_high) {
    words[0] = (UINT)item;
    words[1] = stream;
    words[2] = (UINT)step;
    words[3] = (UINT)(step >> 32);
    philox(words, key_low, key_high);
}

// In [0, 1), with 27 bits of the first word and 26 of the second.
FUNCTION double uniform_53(UINT first, UINT second) {
    return ((first >> 5) * 67108864.0 + (second >> 6)) * 0x1p-53;
}

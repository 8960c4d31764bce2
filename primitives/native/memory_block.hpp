// Memory that starts at zero, aligned to a cache line or more, and on huge pages where it is that large.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace placerl {

constexpr std::size_t HUGE_PAGE_BYTES = std::size_t{1} << 21;

struct FreeBlock {
    void operator()(void *p) const { std::free(p); }
};
using MemoryBlock = std::unique_ptr<std::byte, FreeBlock>;

// `bytes` of memory, aligned to `alignment` (a power of two). Huge pages need fewer address translations, and
// lie in physical memory as they do in virtual: with small ones, which lines share a set of the second-level
// cache is drawn again by every process.
inline MemoryBlock zeroed_block(std::size_t bytes, std::size_t alignment) {
    const bool huge = bytes >= HUGE_PAGE_BYTES;
    const std::size_t unit = huge && alignment < HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : alignment;
    const std::size_t whole = (bytes + unit - 1) / unit * unit;
    MemoryBlock block(static_cast<std::byte *>(std::aligned_alloc(unit, whole)));
    if (!block)
        throw std::bad_alloc();
#if defined(__linux__)
    if (huge)
        madvise(block.get(), whole, MADV_HUGEPAGE); // harmless where refused
#endif
    std::memset(block.get(), 0, whole);
    return block;
}

} // namespace placerl

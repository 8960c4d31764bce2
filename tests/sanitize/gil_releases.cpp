// In a build with sanitizers alone: records from where an extension releases the interpreter's lock, so that
// the driver (driver.py) can show that it has run each of these places. The linker puts
// `__wrap_PyEval_SaveThread` in the place of `PyEval_SaveThread`.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <dlfcn.h>

extern "C" {

struct PyThreadState;
PyThreadState *__real_PyEval_SaveThread();

static std::atomic<std::uintptr_t> places[1024];

PyThreadState *__wrap_PyEval_SaveThread() {
    const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
    for (auto &kept : places) {
        std::uintptr_t seen = 0;
        if (kept.compare_exchange_strong(seen, place) || seen == place)
            break;
    }
    return __real_PyEval_SaveThread();
}

// Writes the offsets in this extension of the calls that have released the lock so far; returns how many.
__attribute__((visibility("default"))) std::size_t placerl_gil_releases(std::uintptr_t *offsets,
                                                                        std::size_t most) {
    Dl_info extension{};
    dladdr(reinterpret_cast<void *>(&placerl_gil_releases), &extension);
    std::size_t count = 0;
    for (const auto &kept : places)
        if (const std::uintptr_t place = kept.load(); place && count < most)
            // The call ends where it returns to, which is already the next line's.
            offsets[count++] = place - 1 - reinterpret_cast<std::uintptr_t>(extension.dli_fbase);
    return count;
}
}

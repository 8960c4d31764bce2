// The least that a C++ test needs.
#pragma once

#include <cstdio>
#include <cstdlib>

// Ends the program with the place and the condition when it does not hold, in every build type.
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                     \
            std::_Exit(1);                                                                                   \
        }                                                                                                    \
    } while (false)

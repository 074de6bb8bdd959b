// The one attribute for hot loops of sky/: compile a function for the baseline and for AVX2+FMA (and AVX-512) machines,
// and let the loader choose, so that one binary is fast on each without -march flags. Empty where the compiler or
// processor has no such thing.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define CIRRUS_CLONES gnu::target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")
#else
#define CIRRUS_CLONES maybe_unused
#endif

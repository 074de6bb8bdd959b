// The setting of glibc's allocator that networks on the CPU want.
#include "kernels/memory.h"

#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace cirrus::kernels {

void keep_freed_memory() {
#ifdef __GLIBC__
  [[maybe_unused]] static const bool once = [] {
    return mallopt(M_MMAP_THRESHOLD, 256 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1 &&
           mallopt(M_TOP_PAD, 32 << 20) == 1;
  }();
#endif
}

}  // namespace cirrus::kernels

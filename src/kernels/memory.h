// How the C library treats the activations a network frees.
#pragma once

namespace cirrus::kernels {

/// Lets the process keep freed memory for the next pass (up to 1 GiB; blocks above 256 MiB still go back at once).
/// Otherwise each activation of some megabytes is returned to the kernel when freed and its pages are cleared anew at
/// the next use: a sixth of a float32 pass on windows of 256 pixels. Where the C library is not glibc it does nothing.
/// Takes effect once, at the first call; safe from several threads.
void keep_freed_memory();

}  // namespace cirrus::kernels

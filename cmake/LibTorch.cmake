# Imported targets for LibTorch without find_package(Torch), which on a CUDA wheel insists on a CUDA toolkit and rewrites its flags.
# Root: -DTORCH_ROOT=DIR, else .deps/torch (bootstrap.sh), else the torch of python3. Gives LibTorch::cpu and, where the wheel
# has it, LibTorch::cuda (for the CUDA module alone), LIBTORCH_VERSION, LIBTORCH_USES_MPI.
set(TORCH_ROOT "" CACHE PATH "Folder of LibTorch or of an installed Python torch")
set(torch_root "${TORCH_ROOT}")
if(NOT torch_root AND EXISTS ${CMAKE_SOURCE_DIR}/.deps/torch/lib/libtorch_cpu.so)
  set(torch_root ${CMAKE_SOURCE_DIR}/.deps/torch)
endif()
if(NOT torch_root)
  execute_process(COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
                  OUTPUT_VARIABLE torch_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS "${torch_root}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LibTorch not found (looked in '${torch_root}'): run ./bootstrap.sh, or give -DTORCH_ROOT=DIR with DIR/lib/libtorch_cpu.so.")
endif()

foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(EXISTS ${torch_root}/include/${header} AND NOT LIBTORCH_VERSION)
    file(STRINGS ${torch_root}/include/${header} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH)")
    string(REGEX REPLACE "[^0-9]+([0-9]+)[^0-9]+([0-9]+)[^0-9]+([0-9]+).*" "\\1.\\2.\\3" LIBTORCH_VERSION "${lines}")
  endif()
endforeach()
if(LIBTORCH_VERSION VERSION_LESS 2.6)
  message(FATAL_ERROR "LibTorch ${LIBTORCH_VERSION} in ${torch_root} is too old: Cirrus needs 2.6 or newer.")
endif()

set(torch_definitions "")
if(EXISTS ${torch_root}/share/cmake/Caffe2/Caffe2Targets.cmake)
  file(STRINGS ${torch_root}/share/cmake/Caffe2/Caffe2Targets.cmake lines REGEX "INTERFACE_COMPILE_DEFINITIONS.*USE_DISTRIBUTED")
  string(REGEX MATCHALL "USE_[A-Z0-9_]+" torch_definitions "${lines}")
  list(REMOVE_DUPLICATES torch_definitions)
  list(REMOVE_ITEM torch_definitions USE_C10D_NCCL)   # set only where NCCL's header is there
endif()
set(LIBTORCH_USES_MPI OFF)
if(USE_C10D_MPI IN_LIST torch_definitions)
  set(LIBTORCH_USES_MPI ON)
endif()

# Wheels up to 2.6 use the pre-C++11 string ABI: ask the library by linking one function that takes a std::string.
set(probe ${CMAKE_BINARY_DIR}/torch_abi.cpp)
file(WRITE ${probe} "#include <string>
namespace c10::detail { [[noreturn]] void torchCheckFail(const char*, const char*, unsigned, const std::string&); }
int main(int n, char**) { if (n > 1) c10::detail::torchCheckFail(\"\", \"\", 0u, std::string()); }
")
foreach(abi 1 0)
  if(NOT DEFINED LIBTORCH_CXX11_ABI)
    try_compile(links ${CMAKE_BINARY_DIR}/torch_abi_${abi} ${probe} COMPILE_DEFINITIONS -D_GLIBCXX_USE_CXX11_ABI=${abi}
                LINK_LIBRARIES ${torch_root}/lib/libc10.so LINK_OPTIONS -Wl,--allow-shlib-undefined)
    if(links)
      set(LIBTORCH_CXX11_ABI ${abi} CACHE INTERNAL "")
    endif()
  endif()
endforeach()
if(NOT DEFINED LIBTORCH_CXX11_ABI)
  message(FATAL_ERROR "Cannot link ${torch_root}/lib/libc10.so with either C++ string ABI: a LibTorch for another compiler or processor?")
endif()

# libtorch_cpu.so of a CUDA wheel needs libcudart and libcupti: the small pip packages beside it, or a toolkit. DT_RPATH (not
# RUNPATH) is inherited by libtorch's own needs.
file(GLOB torch_runtime_dirs ${torch_root}/../nvidia/*/lib /usr/local/cuda/lib64)
set(torch_link_options -Wl,--allow-shlib-undefined -Wl,--disable-new-dtags -Wl,-rpath,${torch_root}/lib)
foreach(dir ${torch_runtime_dirs})
  list(APPEND torch_link_options -Wl,-rpath,${dir})
endforeach()

add_library(LibTorch::cpu INTERFACE IMPORTED GLOBAL)
target_include_directories(LibTorch::cpu SYSTEM INTERFACE ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
target_compile_definitions(LibTorch::cpu INTERFACE _GLIBCXX_USE_CXX11_ABI=${LIBTORCH_CXX11_ABI} ${torch_definitions})
# at::parallel_for is a header: without -fopenmp it would run on one thread. Torch's own libgomp (same SONAME) is the one loaded.
target_compile_options(LibTorch::cpu INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fopenmp>")
target_link_options(LibTorch::cpu INTERFACE ${torch_link_options} -fopenmp)
target_link_libraries(LibTorch::cpu INTERFACE ${torch_root}/lib/libtorch_cpu.so ${torch_root}/lib/libc10.so Threads::Threads)
if(EXISTS ${torch_root}/lib/libtorch_cuda.so AND EXISTS ${torch_root}/lib/libc10_cuda.so)
  add_library(LibTorch::cuda INTERFACE IMPORTED GLOBAL)
  target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu -Wl,--push-state,--no-as-needed
                        ${torch_root}/lib/libtorch_cuda.so ${torch_root}/lib/libc10_cuda.so -Wl,--pop-state)
endif()
message(STATUS "LibTorch ${LIBTORCH_VERSION} in ${torch_root} (C++11 ABI ${LIBTORCH_CXX11_ABI})")

// The device modules of the tests; the build says which one this is.
#include "tests/device/fake_backend.h"

#if defined(CIRRUS_FAKE_no_module)
extern "C" int some_other_library() { return 1; }
#else
extern "C" cirrus::device::Backend* cirrus_device_backend(int abi) {
#if defined(CIRRUS_FAKE_other_abi)
  constexpr int own = cirrus::device::kModuleAbi + 1;
#else
  constexpr int own = cirrus::device::kModuleAbi;
#endif
  static cirrus::test::FakeBackend backend("hpu");
  return abi == own ? &backend : nullptr;
}
#endif

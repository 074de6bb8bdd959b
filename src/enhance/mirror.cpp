// Half-sample reflection by gathering rows and columns.
#include "enhance/mirror.h"

namespace cirrus::enhance {
namespace {

at::Tensor mirrored_index(std::int64_t before, std::int64_t n, std::int64_t after) {
  at::Tensor index = at::empty({before + n + after}, at::kLong);
  std::int64_t* p = index.data_ptr<std::int64_t>();
  for (std::int64_t i = -before; i < n + after; ++i) {
    const std::int64_t m = ((i % (2 * n)) + 2 * n) % (2 * n);
    *p++ = m < n ? m : 2 * n - 1 - m;
  }
  return index;
}

}  // namespace

at::Tensor mirror_pad(const at::Tensor& map, std::int64_t top, std::int64_t bottom, std::int64_t left,
                      std::int64_t right) {
  const at::Tensor rows = mirrored_index(top, map.size(-2), bottom).to(map.device());
  const at::Tensor columns = mirrored_index(left, map.size(-1), right).to(map.device());
  return map.index_select(-2, rows).index_select(-1, columns);
}

}  // namespace cirrus::enhance

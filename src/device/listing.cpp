// Devices one after the other.
#include "device/listing.h"

#include "base/errors.h"
#include "base/first_line.h"

namespace cirrus::device {
namespace {

std::unique_ptr<Device> open(const Backend& backend, int index, std::string& reason) {
  try {
    return backend.open(index);
  } catch (const Error& e) {
    reason = e.what();
  } catch (const c10::Error& e) {
    reason = first_line(e);
  }
  return nullptr;
}

}  // namespace

void visit_devices(const Visit& visit) {
  std::vector<Backend*> order = backends();
  std::stable_sort(order.begin(), order.end(),
                   [](const Backend* a, const Backend* b) { return a->score() > b->score(); });
  for (const Backend* backend : order) {
    const std::string kind = backend->kind();
    if (backend->count() == 0) visit(kind, nullptr, backend->why_not());
    for (int i = 0; i < backend->count(); ++i) {
      std::string reason;
      const std::unique_ptr<Device> device = open(*backend, i, reason);
      visit(kind == "cpu" ? kind : kind + ":" + std::to_string(i), device.get(), reason);
    }
  }
}

}  // namespace cirrus::device

// The self-test of devices: it passes where results are right, and each of its checks fails on a device that gets that
// one thing wrong.
#include "scale/doctor.h"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

namespace {

using namespace cirrus;
using nlohmann::json;

/// The CPU with one fault.
struct Faulty : device::Device {
  at::Device torch_device() const override { return at::kCPU; }
  std::string name() const override { return "faulty"; }
  device::Capabilities capabilities() const override { return {{at::kFloat}, records, false}; }
  device::MemoryStatistics memory() const override { return device::cpu().memory(); }
  void seed(std::uint64_t) override {}
  void synchronize() override {}
  void end_step() override {
    if (refuses) throw std::runtime_error("the card fell off the bus\nsecond line");
  }
  std::unique_ptr<device::Event> record_event() override { return device::cpu().record_event(); }
  bool adamw(const device::AdamWUpdate& update) override {
    if (!updates) return true;
    const bool done = device::cpu().adamw(update);
    if (backwards)
      for (const at::Tensor& w : update.weights) w.neg_();
    return done;
  }
  std::unique_ptr<device::Graph> capture(const std::function<void()>& work) override {
    if (!replays) return nullptr;
    struct Once : device::Graph {
      explicit Once(std::function<void()> w) : work(std::move(w)) {}
      void replay() override {
        if (std::exchange(first, false)) work();
      }
      std::function<void()> work;
      bool first = true;
    };
    return std::make_unique<Once>(work);
  }
  bool updates = true, backwards = false, records = false, replays = true, refuses = false;
};

std::vector<std::string> failed(const json& report) {
  std::vector<std::string> names;
  for (const json& check : report.at("checks"))
    if (!check.at("passed")) names.push_back(check.at("name"));
  BOOST_TEST(report.at("passed").get<bool>() == names.empty());
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(doctor)

BOOST_AUTO_TEST_CASE(the_cpu_passes_every_check) {
  const json report = scale::examine(device::cpu(), "cpu");
  BOOST_TEST(failed(report) == Names{}, boost::test_tools::per_element());
  std::vector<std::string> names;
  for (const json& check : report.at("checks")) {
    names.push_back(check.at("name"));
    // Loss and norm of a step may agree to the last bit by chance, all its weights may not.
    if (check.contains("error"))
      BOOST_TEST(check.at("error").get<double>() + check.value("error_of_update", 0.0) > 0, names.back());
  }
  for (const char* name : {"matmul fp32", "convolution fp32", "training step edm", "training step sr3", "memory"})
    BOOST_TEST((std::find(names.begin(), names.end(), name) != names.end()), name);
  BOOST_TEST(report.at("memory_bytes").get<double>() > 1e9);
  BOOST_TEST(report.at("dtypes").size() >= 1u);
}

BOOST_AUTO_TEST_CASE(each_fault_fails_the_check_that_is_for_it) {
  const Names steps{"training step edm", "training step sr3"};
  {
    Faulty d;
    d.updates = false;
    BOOST_TEST(failed(scale::examine(d, "faulty")) == steps, boost::test_tools::per_element());
  }
  {
    Faulty d;
    d.backwards = true;
    BOOST_TEST(failed(scale::examine(d, "faulty")) == steps, boost::test_tools::per_element());
  }
  {
    Faulty d;
    d.records = true;
    BOOST_TEST(failed(scale::examine(d, "faulty")) == Names{"recorded step"}, boost::test_tools::per_element());
    d.replays = false;
    BOOST_TEST(failed(scale::examine(d, "faulty")) == Names{"recorded step"}, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_check_that_throws_has_failed_and_tells_the_first_line) {
  Faulty d;
  d.refuses = true;
  const json report = scale::examine(d, "faulty");
  BOOST_TEST(!failed(report).empty());
  BOOST_TEST(report.at("checks").at(0).at("detail") == "the card fell off the bus");
}

BOOST_AUTO_TEST_SUITE_END()

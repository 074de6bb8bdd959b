// One card a process: by local rank, by the order a site wants, by what the scheduler shows; and what is refused.
#include "device/placement.h"

#include <deque>

#include "tests/cli/subprocess.h"
#include "tests/device/fake_backend.h"

namespace {

using namespace cirrus;
using namespace cirrus::test;

using Settings = std::map<std::string, std::string>;

/// Variables for the life of a test; "" unsets.
class Variables {
public:
  explicit Variables(const Settings& set) {
    for (const auto& [name, value] : set) each_.emplace_back(name, value.empty() ? nullptr : value.c_str());
  }

private:
  std::deque<Environment> each_;
};

/// As many cards of a kind as given, in the place of that kind's module.
void cards(const std::string& kind, int count, int score = 100) {
  static std::vector<std::unique_ptr<FakeBackend>> kept;
  device::register_backend(kept.emplace_back(std::make_unique<FakeBackend>(kind, score, count)).get());
}

/// Local rank `local` of `of`, on the second of two hosts.
device::Place place(int local, int of) { return {of + local, 2 * of, local, of}; }

void refuses(const std::string& wanted, const device::Place& where, ExitCode code, const std::string& part) {
  try {
    BOOST_ERROR("no error, but " + device::choose_device(wanted, where));
  } catch (const Error& e) {
    BOOST_TEST(static_cast<int>(e.code()) == static_cast<int>(code), e.what());
    BOOST_TEST(contains(e.what(), part), "'" << part << "' is not in: " << e.what());
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(placement)

BOOST_AUTO_TEST_CASE(a_process_takes_the_card_of_its_local_rank) {
  const Environment plain("CIRRUS_DEVICE_ORDER", nullptr);
  cards("cuda", 4);
  for (int local = 0; local < 4; ++local)
    for (const char* wanted : {"auto", "cuda"})
      BOOST_TEST(device::choose_device(wanted, place(local, 4)) == "cuda:" + std::to_string(local));
  // Fewer processes than cards take the first ones.
  BOOST_TEST(device::choose_device("cuda", place(1, 2)) == "cuda:1");
  // The CPU, and a program by itself, are left alone.
  BOOST_TEST(device::choose_device("cpu", place(1, 4)) == "cpu");
  for (const char* wanted : {"auto", "cuda", "cuda:3", "hpu", "nonsense"})
    BOOST_TEST(device::choose_device(wanted, {}) == wanted);
  BOOST_TEST(device::choose_device("nonsense", place(1, 4)) == "nonsense");  // open_device() refuses it
}

BOOST_AUTO_TEST_CASE(the_only_visible_card_is_this_process_s_own) {
  const Environment order("CIRRUS_DEVICE_ORDER", "3,2,1,0");  // of the site's nodes, where all cards are seen
  cards("cuda", 1);
  BOOST_TEST(device::choose_device("cuda", place(3, 4)) == "cuda");
  BOOST_TEST(device::choose_device("auto", place(3, 4)) == "cuda");
}

BOOST_AUTO_TEST_CASE(a_site_s_order_says_which_card_is_whose) {
  cards("cuda", 4);
  const Environment order("CIRRUS_DEVICE_ORDER", "3,2,1,0");
  for (int local = 0; local < 4; ++local)
    BOOST_TEST(device::choose_device("auto", place(local, 4)) == "cuda:" + std::to_string(3 - local));
  BOOST_TEST(device::choose_device("cuda", place(1, 2)) == "cuda:2");
  for (const auto& [text, why] : {std::pair{"0,1,1,2", "twice"},
                                  {"0,1,2,4", "names card 4"},
                                  {"0,1,2", "names 3 cards for 4 processes"},
                                  {"0,1,2,x", "no list"},
                                  {"0,,1,2", "no list"},
                                  {"-1,0,1,2", "no list"},
                                  {"0 1 2 3", "no list"}}) {
    const Environment wrong("CIRRUS_DEVICE_ORDER", text);
    refuses("cuda", place(0, 4), ExitCode::config, why);
  }
}

BOOST_AUTO_TEST_CASE(more_processes_than_cards_and_numbered_cards_are_refused) {
  const Environment plain("CIRRUS_DEVICE_ORDER", nullptr);
  cards("cuda", 2);
  refuses("cuda", place(0, 4), ExitCode::unavailable, "4 processes on this host, and 2 cuda cards");
  refuses("auto", place(3, 4), ExitCode::unavailable, "--ntasks-per-node=2");
  refuses("cuda:1", place(0, 2), ExitCode::usage, "use --device cuda");
  // Where a host has one process, the number says which of its cards.
  BOOST_TEST(device::choose_device("cuda:1", place(0, 1)) == "cuda:1");
}

BOOST_AUTO_TEST_CASE(gaudi_s_plug_in_finds_rank_and_card_in_the_environment) {
  cards("hpu", 1);
  const Settings clean = {{"RANK", "77"},           {"WORLD_SIZE", ""},
                          {"LOCAL_RANK", ""},       {"ID", ""},
                          {"HLS_MODULE_ID", ""},    {"HABANA_VISIBLE_MODULES", ""},
                          {"LOCAL_WORLD_SIZE", ""}, {"CIRRUS_DEVICE_ORDER", ""}};
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "unset" : text);
  };
  {
    const Variables e(clean);
    BOOST_TEST(device::choose_device("hpu", place(1, 2)) == "hpu");
    BOOST_TEST(value("RANK") == "3");  // a stale one does not count
    BOOST_TEST(value("ID") == "3");
    BOOST_TEST(value("WORLD_SIZE") == "4");
    BOOST_TEST(value("LOCAL_RANK") == "1");
    BOOST_TEST(value("HLS_MODULE_ID") == "unset");  // any free card
  }
  auto set = clean;
  set["HABANA_VISIBLE_MODULES"] = "4,6";
  {
    const Variables e(set);
    device::choose_device("hpu", place(1, 2));
    BOOST_TEST(value("HLS_MODULE_ID") == "6");
  }
  {
    const Variables e(set);
    refuses("hpu", place(2, 3), ExitCode::unavailable, "names 2 card(s)");
  }
  set["CIRRUS_DEVICE_ORDER"] = "1,0";
  {
    const Variables e(set);
    device::choose_device("hpu", place(1, 2));
    BOOST_TEST(value("HLS_MODULE_ID") == "4");
  }
  set["HLS_MODULE_ID"] = "7";
  {
    const Variables e(set);
    device::choose_device("hpu", place(1, 2));
    BOOST_TEST(value("HLS_MODULE_ID") == "7");  // the user's
  }
  const Variables e(clean);
  cards("hpu", 0);
}

BOOST_AUTO_TEST_SUITE_END()

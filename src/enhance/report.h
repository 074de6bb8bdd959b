// The report of an evaluation for people: one HTML file that needs nothing else (pictures and plots inside), readable
// on a phone, with what was measured, what each figure means, and the commands that repeat it.
#pragma once

#include <string>
#include <vector>

#include "enhance/evaluate.h"

namespace cirrus::enhance {

struct ReportText {
  std::string title = "Evaluation";
  std::vector<std::string> notes;     ///< sentences below the title: model, device, anything decided
  std::vector<std::string> commands;  ///< shell commands that repeat this report
  bool had_requirements = false;      ///< says "met" where `unmet` is empty
  std::vector<std::string> unmet;     ///< from unmet()
};

/// The whole file as text. Maps are shown for those evaluated with keep_pictures. Equal input gives equal bytes: no
/// date, no path is added. Throws Error(usage) without maps.
std::string html_report(const Evaluation& evaluation, const ReportText& text);

}  // namespace cirrus::enhance

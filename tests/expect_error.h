// Expects a poem::Error whose one line contains every given piece of text.
//
//   expect_error([&] { ood_metrics({}, {1}); }, {"ID scores", "none"});
#pragma once
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "core/error.h"

namespace poem {

template <typename Action>
void expect_error(const Action& action, std::initializer_list<std::string> pieces) {
  try {
    action();
    ADD_FAILURE() << "no poem::Error";
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    for (const std::string& piece : pieces) EXPECT_NE(line.find(piece), std::string::npos) << line;
  }
}

}  // namespace poem

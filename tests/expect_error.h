// Checks that something fails as a user error whose one line says what it should.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "poem/error.h"

namespace poem {

inline void expect_error(const std::function<void()>& action, const std::vector<std::string>& words) {
  try {
    action();
    ADD_FAILURE() << "no error that says: " << words.back();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    for (const std::string& word : words)
      EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is missing in: " << message;
  }
}

}  // namespace poem

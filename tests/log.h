// What the program logs, line by line as "[warning] text".
//
//   const Log log;
//   do_something();
//   EXPECT_EQ(log.text(), "");
#pragma once
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

namespace poem {

// What is logged while this lives.
class Log {
 public:
  Log() : before_(spdlog::default_logger()) {
    const auto logger =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text_));
    logger->set_pattern("[%l] %v");
    spdlog::set_default_logger(logger);
  }
  ~Log() { spdlog::set_default_logger(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

}  // namespace poem

#include "core/progress.h"

#include <fmt/format.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <mutex>

#include "core/interrupts.h"
#include "core/terminal.h"
#include "poem/runtime.h"

namespace poem {
namespace {

Job* current_job = nullptr;  // there is only one, like the terminal
bool switched_on = false;

bool shows_progress() { return switched_on && terminal(STDERR_FILENO).live; }

// Lines on stderr. A line replaces the progress view, which is drawn again below it.
class StderrSink : public spdlog::sinks::base_sink<std::mutex> {
  void sink_it_(const spdlog::details::log_msg& message) override {
    const Terminal where = terminal(STDERR_FILENO);
    std::string text(message.payload.data(), message.payload.size());
    if (message.level >= spdlog::level::warn) text = styled(text, Style::kYellow, where);
    std::fputs(((shows_progress() ? kWipe : "") + text + "\n").c_str(), stderr);
  }
  void flush_() override { std::fflush(stderr); }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string bar_text(double share, const Terminal& where) {
  constexpr int kWidth = 24;
  const int full = static_cast<int>(share * kWidth);
  std::string done, rest;
  for (int i = 0; i < full; ++i) done += where.utf8 ? "━" : "=";
  for (int i = full; i < kWidth; ++i) rest += where.utf8 ? "─" : ".";
  return styled(done, Style::kCyan, where) + rest;
}

// Figures stand two spaces apart, the most important first.
std::vector<LinePart> figure_parts(const std::string& figures) {
  std::vector<LinePart> parts;
  for (size_t at = 0; at < figures.size();) {
    const size_t end = std::min(figures.find("  ", at), figures.size());
    parts.push_back({figures.substr(at, end - at), static_cast<int>(parts.size())});
    at = end + 2;
  }
  return parts;
}

}  // namespace

void show_progress(bool on) { switched_on = on; }

void set_up_logging(bool quiet) {
  auto logger = std::make_shared<spdlog::logger>("poem", std::make_shared<StderrSink>());
  logger->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

std::string duration_text(double seconds) {
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  if (whole < 48 * 3600) return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} days {} h", whole / 86400, whole / 3600 % 24);
}

TimeLeft time_left(double last, double ran, double bar, int64_t later) {
  const double whole = std::max(last, ran + bar);
  return {whole - ran, whole - ran + static_cast<double>(later) * (last < 0 ? whole : last)};
}

Progress::Progress(std::string what, int64_t total, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(std::max<int64_t>(total, 1)),
      visible_(shows_progress()),
      start_(Clock::now()),
      drawn_(start_) {}

// In a job the view stays until the next bar is drawn or the job ends.
Progress::~Progress() {
  if (visible_ && current_job == nullptr) std::fputs(kWipe, stderr);
}

void Progress::advance(int64_t steps, const std::function<std::string()>& figures) {
  constexpr auto kPause = std::chrono::milliseconds(250);
  done_ += steps;
  const auto now = Clock::now();
  if (!visible_ || interrupted() || now - drawn_ < kPause) return;  // keeps the message after Ctrl-C
  drawn_ = now;
  draw(figures ? figures() : "");
}

void Progress::draw(const std::string& figures) const {
  const Terminal where = terminal(STDERR_FILENO);
  const double seconds = seconds_since(start_);
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const double rate = static_cast<double>(done_) / std::max(seconds, 1e-9);
  const double left = share > 0 ? seconds * (1 - share) / share : 0;
  std::vector<LinePart> line = {{what_, 0},
                                {bar_text(share, where), 4},
                                {fmt::format("{:3.0f} %", 100 * share), 1},
                                {fmt::format("{:.{}f} {}/s", rate, rate < 10 ? 1 : 0, unit_), 3}};
  std::vector<LinePart> below = figure_parts(figures);
  if (current_job != nullptr) {
    const Job& job = *current_job;
    const TimeLeft time =
        time_left(job.last_seconds_, seconds_since(job.start_), left, job.total_ - job.done_ - 1);
    line.insert(line.begin(), {fmt::format("{} {}/{}", job.step_, job.done_ + 1, job.total_), -1});
    line.push_back({fmt::format("{} left, run {}", duration_text(time.step), duration_text(time.job)), 2});
    below.push_back({job.figures_, 0});
  } else if (share > 0) {
    line.push_back({duration_text(left) + " left", 2});
  }
  const size_t columns = where.columns - 1;  // a terminal may break the line in the last column
  const std::string second = fit_line(below, columns);
  fmt::print(stderr, "\r{}\033[K{}\033[J{}\r", fit_line(line, columns), second.empty() ? "" : "\n" + second,
             second.empty() ? "" : "\033[A");
  std::fflush(stderr);
}

Job::Job(std::string step, int64_t done, int64_t total)
    : step_(std::move(step)), done_(done), total_(total), start_(Clock::now()) {
  current_job = this;
}

Job::~Job() {
  current_job = nullptr;
  if (shows_progress()) std::fputs(kWipe, stderr);
}

void Job::set_done(int64_t steps) {
  if (steps == done_) return;
  last_seconds_ = seconds_since(start_);
  start_ = Clock::now();
  done_ = steps;
}

}  // namespace poem

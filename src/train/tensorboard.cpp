#include "train/tensorboard.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "core/protobuf.h"
#include "poem/error.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::string_view kName = "events.out.tfevents.";  // by which TensorBoard finds the file

// Fields of the messages Event, Summary and Summary.Value (tensorflow/core/framework/summary.proto,
// util/event.proto).
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };

template <class T>
std::string little_endian(T value) {  // of every machine poem runs on
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::string record(const std::string& bytes) {
  const auto masked = [](const std::string& text) {
    const uint32_t crc = crc32c(text);
    return little_endian((crc >> 15 | crc << 17) + 0xa282ead8u);
  };
  const std::string length = little_endian(static_cast<uint64_t>(bytes.size()));
  return length + masked(length) + bytes + masked(bytes);
}

Message value(const std::string& tag, double number) {
  return Message().add(kTag, tag).add(kSimpleValue, static_cast<float>(number));
}

// The part of a tag before its first / is the group that TensorBoard shows it in.
std::string tag_of(const std::string& key) {
  static const std::map<std::string, std::string> kGrouped = {{"loss", "loss/total"},
                                                              {"classification_loss", "loss/classification"},
                                                              {"regularisation", "loss/regularisation"},
                                                              {"id_energy", "energy/id"},
                                                              {"outlier_energy", "energy/outliers"},
                                                              {"train_accuracy", "accuracy/train"},
                                                              {"validation_accuracy", "accuracy/validation"}};
  const auto found = kGrouped.find(key);
  return found == kGrouped.end() ? key : found->second;
}

// Every number in `figures`, members of members as TAG/NAME; lists are of members with a "name".
void add_values(const std::string& tag, const ordered_json& figures, Message& summary) {
  if (figures.is_number()) summary.add(kValue, value(tag, figures.get<double>()));
  if (figures.is_array()) {
    for (const ordered_json& entry : figures)
      add_values(tag + "/" + entry.at("name").get<std::string>(), entry, summary);
  }
  if (!figures.is_object()) return;
  for (const auto& [name, member] : figures.items()) {
    add_values(name == "sets" ? tag : tag + "/" + name, member, summary);  // results/SET/fpr95
  }
}

std::string event(double wall_time, int64_t epoch, const Message& summary) {
  return record(Message().add(kWallTime, wall_time).add(kStep, epoch).add(kSummary, summary).bytes());
}

// Results come after the epoch's other figures, in an event of their own, as they do in time.
std::string events_of(const ordered_json& line, double wall_time) {
  const auto epoch = line.at("epoch").get<int64_t>();
  Message figures, results;
  for (const auto& [key, member] : line.items()) {
    if (key != "epoch") add_values(tag_of(key), member, key == "results" ? results : figures);
  }
  return event(wall_time, epoch, figures) + (results.bytes().empty() ? "" : event(wall_time, epoch, results));
}

double seconds_of(const ordered_json& line) {
  double total = 0;
  const ordered_json phases = line.value("seconds", ordered_json::object());
  for (const ordered_json& seconds : phases) {
    if (seconds.is_number()) total += seconds.get<double>();
  }
  return total;
}

// START of an event file's name; nothing where it is another file.
std::optional<int64_t> start_in(const std::string& name) {
  int64_t start = 0;
  if (name.compare(0, kName.size(), kName) != 0) return std::nullopt;
  const auto end = std::from_chars(name.data() + kName.size(), name.data() + name.size(), start);
  if (end.ec != std::errc() || std::string_view(end.ptr) != ".poem") return std::nullopt;
  return start;
}

int64_t find_start(const std::string& run) {
  for (const auto& entry : fs::directory_iterator(run)) {
    if (const auto start = start_in(entry.path().filename().string())) return *start;
  }
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void write_in_place(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::app);                         // makes it
  std::ofstream file(path, std::ios::binary | std::ios::in);  // does not empty it
  file << bytes << std::flush;
  if (!file) throw Error(path, fmt::format("cannot write: {}", std::strerror(errno)));
  fs::resize_file(path, bytes.size());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static const auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < table.size(); ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0x82f63b78u : 0);
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff];
  return ~crc;
}

std::string encode_events(const std::string& metrics, int64_t start) {
  auto wall_time = static_cast<double>(start);
  std::string bytes = record(Message().add(kWallTime, wall_time).add(kFileVersion, "brain.Event:2").bytes());
  std::istringstream text(metrics);
  for (std::string line; std::getline(text, line);) {
    const ordered_json figures = ordered_json::parse(line);
    wall_time += seconds_of(figures);
    bytes += events_of(figures, wall_time);
  }
  return bytes;
}

void write_events(const std::string& run, const std::string& metrics) {
  const int64_t start = find_start(run);
  write_in_place(fmt::format("{}/{}{}.poem", run, kName, start), encode_events(metrics, start));
}

}  // namespace poem

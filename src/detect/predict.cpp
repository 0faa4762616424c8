#include "detect/predict.h"

#include <ATen/ATen.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <streambuf>
#include <utility>

#include "core/interrupts.h"
#include "poem/error.h"
#include "poem/reader.h"
#include "readers/image_list.h"

namespace poem {
namespace {

// Pairs the images that a reader tells of with the verdicts on their pixels.
class Pairing {
 public:
  Pairing(const Detector& detector, const UsePrediction& use) : detector_(detector), use_(use) {}

  // Calls visit(options, sink). An Error becomes a prediction for `path`.
  template <class Visit>
  void run(const std::string& path, Visit visit) {
    bool empty = true;
    ReadOptions options;
    options.size = detector_.size;
    options.on_image = [&](const std::string& image, const Error* problem) {
      empty = false;
      waiting_.push_back({image, {}, problem ? text_of(image, *problem) : "", false});
    };
    try {
      visit(options, [&](const at::Tensor& pixels) {
        check_channels({path, pixels, {}, {}}, detector_.network->spec().channels);
        pass_on(pixels, detector_.judge(pixels));
      });
      if (empty) throw Error(path, "contains no image");
      pass_on({}, {});
    } catch (const Error& error) {
      stop_if_interrupted();  // standard input ends early then
      const auto unjudged = [](const Prediction& prediction) { return prediction.error.empty(); };
      waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), unjudged), waiting_.end());
      pass_on({}, {});
      use_({path, {}, text_of(path, error), /*source=*/true}, {});
    }
  }

 private:
  static std::string text_of(const std::string& path, const Error& error) {
    return error.where() == path ? error.problem() : error.what();
  }

  void pass_on(const at::Tensor& pixels, const std::vector<Verdict>& verdicts) {
    int64_t row = 0;
    for (Prediction& prediction : std::exchange(waiting_, {})) {
      if (!prediction.error.empty()) {
        use_(prediction, {});
        continue;
      }
      prediction.verdict = verdicts[row];
      use_(prediction, pixels[row++]);
    }
  }

  const Detector& detector_;
  const UsePrediction& use_;
  std::vector<Prediction> waiting_;
};

// A line of a list may be anything, so a mistake in it is not an Error here.
bool is_file(const std::string& source) {
  try {
    return is_image_file(source);
  } catch (const Error&) {
    return false;
  }
}

std::vector<std::string> split(const std::string& text) {
  const char end = text.find('\0') == text.npos ? '\n' : '\0';
  std::vector<std::string> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t stop = std::min(text.find(end, start), text.size());
    std::string line = text.substr(start, stop - start);
    if (end == '\n' && !line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
    start = stop + 1;
  }
  return lines;
}

// A list, or the first part of one, contains paths, and hardly anybody's path contains a control character.
// If each has a zero byte after it, as find -print0 writes them, all other bytes may occur. Empty paths are a
// sign of a tar that was cut short: its first 512 bytes begin with a path, zeros fill the rest.
void check_list(const std::string& text, bool whole) {
  const std::string zeros(2, '\0');
  const bool empty_path = !text.empty() && (text[0] == '\0' || text.find(zeros) != text.npos);
  const bool zero_separated = whole ? !text.empty() && text.back() == '\0' : text.find('\0') != text.npos;
  const auto first = text.begin(), last = first + std::min<std::ptrdiff_t>(text.size(), 512);
  const auto strange = [](char c) {
    return static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\r' && c != '\0' && c != '\t';
  };
  if (empty_path || (!zero_separated && std::any_of(first, last, strange)))
    throw Error("standard input", "is neither a list of paths nor a tar of images",
                "name the file as an argument");
}

// Standard input, which ends when the program is asked to stop: a program that writes to it may take its
// time.
class StandardInput : public std::streambuf {
  int_type underflow() override {
    while (!interrupted()) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (::poll(&input, 1, -1) < 0 && errno == EINTR) continue;
      const ssize_t got = ::read(STDIN_FILENO, block_.data(), block_.size());
      if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (got <= 0) break;
      setg(block_.data(), block_.data(), block_.data() + got);
      return traits_type::to_int_type(block_[0]);
    }
    return traits_type::eof();
  }

  std::array<char, 1 << 16> block_;
};

// Adds the next bytes of the stream. False: it has ended.
bool append(std::string& text, std::istream& stream) {
  constexpr size_t kBlock = 1 << 16;
  const size_t before = text.size();
  text.resize(before + kBlock);
  stream.read(text.data() + before, kBlock);
  text.resize(before + static_cast<size_t>(stream.gcount()));
  stop_if_interrupted();
  return stream.gcount() > 0;
}

// The rest of a list of which the first part was read.
void read_list(std::string& text, std::istream& stream) {
  constexpr size_t kMost = size_t{1} << 30;
  check_list(text, /*whole=*/false);
  while (append(text, stream))
    if (text.size() > kMost)
      throw Error("standard input", "is larger than 1 GiB, too much for a list of paths",
                  "name a folder, or write several lists");
  check_list(text, /*whole=*/true);
}

}  // namespace

void check_predictable(const std::vector<std::string>& sources) {
  for (const std::string& source : sources) {
    std::error_code ignored;
    if (!std::filesystem::exists(source, ignored) || !is_image_file(source)) check_source(source);
  }
}

void predict(const Detector& detector, const std::vector<std::string>& sources, const UsePrediction& use) {
  Pairing pairing(detector, use);
  // If the network cannot take image files, each has a row that says so.
  const bool together = detector.network->spec().channels == 3;
  for (size_t first = 0; first < sources.size();) {
    size_t last = first;
    while (last < sources.size() && (together || last == first) && is_file(sources[last])) ++last;
    if (last > first) {
      const std::vector<std::string> files(sources.begin() + static_cast<std::ptrdiff_t>(first),
                                           sources.begin() + static_cast<std::ptrdiff_t>(last));
      pairing.run(files[0],
                  [&](const ReadOptions& options, const Sink& sink) { visit_files(files, options, sink); });
      first = last;
      continue;
    }
    pairing.run(sources[first], [&](const ReadOptions& options, const Sink& sink) {
      visit_images(sources[first], options, sink);
    });
    ++first;
  }
}

void predict_stream(const Detector& detector, std::istream& given, const UsePrediction& use) {
  StandardInput buffer;
  std::istream input(&buffer), &stream = &given == &std::cin ? input : given;
  std::string text;
  append(text, stream);
  if (is_tar(text)) {
    Pairing(detector, use).run("standard input", [&](const ReadOptions& options, const Sink& sink) {
      visit_tar(stream, std::move(text), options, sink);
    });
    return;
  }
  read_list(text, stream);
  const std::vector<std::string> sources = split(text);
  if (sources.empty())
    throw Error("standard input", "contains no path", "write one path per line, or a tar of images");
  predict(detector, sources, use);
}

}  // namespace poem

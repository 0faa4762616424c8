#include "catalogue/fetch.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>

#include "catalogue/verify.h"
#include "core/file.h"
#include "poem/error.h"

#ifdef POEM_HAS_CURL
#include <curl/curl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/interrupts.h"
#include "core/progress.h"
#endif

namespace poem {

namespace fs = std::filesystem;

#ifdef POEM_HAS_CURL

namespace {

constexpr int kAttempts = 100;  // per source, as long as each attempt receives something

int64_t bytes_of(const std::string& path) {  // 0 if there is no such file
  std::error_code code;
  const auto bytes = fs::file_size(path, code);
  return code ? 0 : static_cast<int64_t>(bytes);
}

// One transfer, appended to a .part file.
class Transfer {
 public:
  Transfer(const std::string& part, const KnownFile& file)
      : part_(part), name_(file.name), out_(std::fopen(part.c_str(), "ab"), std::fclose) {
    if (!out_) {
      throw Error(part, fmt::format("cannot be written: {}", std::strerror(errno)), "choose another place");
    }
    start_ = bytes_of(part);
  }

  CURLcode run(const std::string& url) {
    const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
    const auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, 30L);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);  // less than this many bytes per second …
    set(CURLOPT_LOW_SPEED_TIME, 60L);  // … for this many seconds means that the connection is dead
    set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(start_));
    set(CURLOPT_WRITEFUNCTION, write);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_ERRORBUFFER, reason_);
    const CURLcode code = curl_easy_perform(curl.get());
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status_);
    if (reason_[0] == '\0') std::snprintf(reason_, sizeof reason_, "%s", curl_easy_strerror(code));
    if (std::fflush(out_.get()) != 0 || full_) {
      throw Error(part_, "cannot be written completely: " + std::string(std::strerror(full_ ? full_ : errno)),
                  "free some space or choose another place");
    }
    return code;
  }

  int64_t start() const { return start_; }
  bool received() const { return received_ > 0; }
  // Whether the server cannot resume: it supports no ranges, or the part is at least as long as its file.
  bool cannot_resume(CURLcode code) const {
    return start_ > 0 && (code == CURLE_RANGE_ERROR || status_ == 416);
  }
  std::string reason() const { return reason_; }

 private:
  static constexpr int64_t kMega = 1000000;

  static size_t write(char* data, size_t size, size_t count, void* self) {
    auto* transfer = static_cast<Transfer*>(self);
    const size_t written = std::fwrite(data, 1, size * count, transfer->out_.get());
    if (written < size * count) transfer->full_ = errno;
    transfer->received_ += static_cast<int64_t>(written);
    return written;
  }

  static int progress(void* self, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
    if (total > 0) static_cast<Transfer*>(self)->show(total);
    return interrupted();
  }

  void show(int64_t total) {  // called once the server has announced the size
    if (!bar_) bar_.emplace("fetching " + name_, (start_ + total) / kMega, "MB");
    const int64_t done = (start_ + received_) / kMega;
    bar_->advance(done - std::exchange(shown_, done));
  }

  std::string part_, name_;
  std::unique_ptr<FILE, int (*)(FILE*)> out_;
  std::optional<Progress> bar_;
  int64_t start_ = 0, received_ = 0, shown_ = 0;  // bytes, bytes, megabytes
  long status_ = 0;
  int full_ = 0;  // the errno of a failed write
  char reason_[CURL_ERROR_SIZE] = "";
};

// Downloads everything from one source. Returns what went wrong, or an empty text.
std::string download(const std::string& url, const std::string& part, const KnownFile& file) {
  std::string reason;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Transfer transfer(part, file);
    if (file.size_known() && transfer.start() == file.most) return "";
    const CURLcode code = transfer.run(url);
    if (interrupted()) {
      spdlog::warn("interrupted; {} keeps what was downloaded, and the same command continues", part);
      throw Interrupted();
    }
    if (code == CURLE_OK) return "";
    reason = transfer.reason();
    if (transfer.cannot_resume(code)) {
      fs::resize_file(part, 0);
    } else if (!transfer.received()) {
      break;
    }
  }
  return reason;
}

// Downloads the file from one source to DESTINATION.part and checks it. Returns what is wrong, or an empty
// text. The part of an earlier attempt may be the cause, so a second try starts without it.
std::string obtain(const std::string& url, const std::string& part, const KnownFile& file) {
  const bool resumed = bytes_of(part) > 0;
  const std::string reason = download(url, part, file);
  if (!reason.empty()) return reason;
  const std::string fault = fault_of(file, part);
  if (fault.empty()) return "";
  fs::remove(part);
  return resumed ? obtain(url, part, file) : fault;
}

// Makes a folder and its parents. The destructor removes those that are still empty.
class NewFolder {
 public:
  explicit NewFolder(const std::string& path) {
    for (fs::path one = fs::absolute(path).lexically_normal(); !fs::exists(one); one = one.parent_path())
      made_.push_back(one);
    make_output_folder(path);
  }
  ~NewFolder() {
    std::error_code not_empty;
    for (const fs::path& one : made_) fs::remove(one, not_empty);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

 private:
  std::vector<fs::path> made_;  // the innermost first
};

}  // namespace

void fetch_file(const KnownFile& file, const std::string& folder) {
  const NewFolder destination(folder);
  const std::string path = (fs::path(folder) / file.name).string(), part = path + ".part";
  if (fs::exists(path)) {
    const std::string fault = fault_of(file, path);
    if (!fault.empty()) throw Error(path, fault, "remove it, or choose another folder with option out");
    spdlog::info("{} exists already", path);
    return;
  }
  std::string tried;
  for (const std::string& url : file.sources) {
    spdlog::info("{} from {}", file.name, url);
    const std::string reason = obtain(url, part, file);
    if (reason.empty()) {
      fs::rename(part, path);
      if (file.checksum.empty()) spdlog::warn("{} was not checked, because its checksum is unknown", path);
      return;
    }
    spdlog::info("{}: {}", url, reason);
    tried += fmt::format("{}{}: {}", tried.empty() ? "" : "; ", url, reason);
  }
  if (bytes_of(part) == 0) fs::remove(part);
  throw Error(path, "could not be downloaded: " + tried,
              "try later, or give another source with option source");
}

#else

void fetch_file(const KnownFile& file, const std::string&) {
  throw Error(
      file.name, "cannot be downloaded: poem was built without libcurl",
      "build with libcurl4-openssl-dev, or download it by other means (poem data list NAME prints the URLs)");
}

#endif

}  // namespace poem

#include "study/claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/file.h"
#include "dist/place.h"
#include "poem/error.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kTouch(5);
constexpr double kGone = 60;  // seconds

// By the clock of the file system, which may differ from ours; 0 if there is no such file.
double modified(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
}

// Empty if another process has just removed it.
std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Number of the last file, -1 if there is none.
int64_t last_number(const std::string& folder) {
  int64_t last = -1;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos)
      last = std::max<int64_t>(last, std::stoll(name));
  }
  return last;
}

}  // namespace

// A file that shows that this process lives.
class Claims::Beacon {
 public:
  // Does not exist if another process made the file first, or removed the folder.
  static std::unique_ptr<Beacon> make(const std::string& path, const std::string& text) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && (errno == EEXIST || errno == ENOENT)) return nullptr;
    if (file < 0) fail_with(path, "write", errno);
    auto beacon = std::unique_ptr<Beacon>(new Beacon(path, file));
    ::flock(file, LOCK_EX | LOCK_NB);
    if (::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      fail_with(path, "write", errno);
    return beacon;
  }
  ~Beacon() {
    ::unlink(path_.c_str());
    ::close(file_);
  }
  Beacon(const Beacon&) = delete;
  Beacon& operator=(const Beacon&) = delete;

  const std::string& path() const { return path_; }
  void touch() const { ::futimens(file_, nullptr); }

 private:
  Beacon(std::string path, int file) : path_(std::move(path)), file_(file) {}
  const std::string path_;
  const int file_;
};

Claims::Claims(const std::string& folder, const std::string& purpose) : folder_(folder) {
  const auto number = std::chrono::steady_clock::now().time_since_epoch().count();
  const std::string name = fmt::format("{}.{}.{:x}", host_name(), ::getpid(), number);
  while (worker_ == nullptr) {  // another process may just have removed the folder
    make_output_folder(place("workers"));
    worker_ = Beacon::make(place("workers/" + name), host_name() + "\n" + purpose);
  }
  for (const auto& entry : fs::directory_iterator(place("workers"))) {
    const std::string path = entry.path().string(), text = text_of(path);
    if (path == worker_->path() || text.empty() || !shines(path)) continue;
    if (text.substr(text.find('\n') + 1) != purpose)
      throw Error(fs::path(folder).parent_path().string(),
                  fmt::format("is in use by another study, on {}", first_line(text)),
                  "wait until it ends, or choose another folder");
  }
  toucher_ = std::thread([this] { touch(); });
}

// Folders that are empty go too, so that nothing stays behind after the last process.
Claims::~Claims() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
  }
  ends_.notify_one();
  if (toucher_.joinable()) toucher_.join();
  while (!taken_.empty()) release(std::string(taken_.begin()->first));
  std::error_code code;
  for (fs::directory_iterator file(place("workers"), code), end; !code && file != end; file.increment(code))
    if (!shines(file->path().string())) ::unlink(file->path().c_str());  // of a process that was killed
  worker_.reset();
  ::rmdir(place("workers").c_str());
  ::rmdir(folder_.c_str());
}

void Claims::touch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_.wait_for(lock, kTouch, [this] { return ended_; })) {
    worker_->touch();
    for (const auto& [what, beacon] : taken_) beacon->touch();
  }
}

// A file without text was made a moment ago, or by a process that was killed in that moment.
bool Claims::shines(const std::string& path) const {
  const std::string host = first_line(text_of(path));
  if (host != host_name()) return modified(worker_->path()) - modified(path) < kGone;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool locked = ::flock(file, LOCK_SH | LOCK_NB) != 0;
  ::close(file);
  return locked;
}

bool Claims::alone() const {
  const auto files = fs::directory_iterator(place("workers"));
  return std::none_of(begin(files), end(files), [this](const fs::directory_entry& file) {
    return file.path().string() != worker_->path() && shines(file.path().string());
  });
}

bool Claims::take(const std::string& what) {
  if (taken_.count(what) > 0) return true;
  while (true) {
    make_output_folder(place(what));
    const int64_t last = last_number(place(what));
    if (last >= 0 && shines(fmt::format("{}/{}", place(what), last))) return false;
    auto beacon = Beacon::make(fmt::format("{}/{}", place(what), last + 1), host_name() + "\n");
    if (beacon == nullptr) continue;  // another process was faster
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_[what] = std::move(beacon);
    return true;
  }
}

void Claims::release(const std::string& what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = taken_.find(what);
  if (found == taken_.end()) return;
  std::error_code ignored;
  fs::remove(place(what) + "/failed", ignored);
  for (int64_t number = last_number(place(what)) - 1; number >= 0; --number)  // of processes that are gone
    fs::remove(fmt::format("{}/{}", place(what), number), ignored);
  taken_.erase(found);
  ::rmdir(place(what).c_str());
}

void Claims::fail(const std::string& what, const std::string& why) {
  write_file(place(what) + "/failed", why);
}

std::optional<std::string> Claims::failure(const std::string& what) const {
  const std::string why = text_of(place(what) + "/failed");
  if (why.empty() || taken_.count(what) > 0) return std::nullopt;
  if (!shines(fmt::format("{}/{}", place(what), last_number(place(what))))) return std::nullopt;
  return why;
}

}  // namespace poem

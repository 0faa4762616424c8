#include "core/checksum.h"

#ifdef POEM_HAS_CRYPTO
#include <fmt/format.h>
#include <openssl/evp.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/interrupts.h"
#include "core/progress.h"
#include "poem/error.h"
#endif

namespace poem {

#ifdef POEM_HAS_CRYPTO

std::optional<std::string> checksum(const std::string& path, const std::string& algorithm) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path, "cannot be read", "check the path and its permissions");
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (EVP_DigestInit_ex(context.get(), EVP_get_digestbyname(algorithm.c_str()), nullptr) != 1) {
    throw std::runtime_error("libcrypto has no " + algorithm);
  }
  constexpr int64_t kMega = 1000000;
  std::vector<char> block(4 * kMega);
  const std::filesystem::path name = std::filesystem::path(path).filename();
  Progress bar("checking " + name.string(), static_cast<int64_t>(std::filesystem::file_size(path)) / kMega,
               "MB");
  while (file) {
    stop_if_interrupted();
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    EVP_DigestUpdate(context.get(), block.data(), static_cast<size_t>(file.gcount()));
    bar.advance(file.gcount() / kMega);
  }
  if (file.bad()) throw Error(path, "cannot be read to its end", "check the disk");
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_DigestFinal_ex(context.get(), digest, &length);
  std::string text = algorithm + ":";
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

#else

std::optional<std::string> checksum(const std::string&, const std::string&) { return {}; }

#endif

}  // namespace poem

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

#include "harness/loading/carry_out/carry_out.h"
#include "reference/tensor/error.h"

namespace mtpcheck {

std::string sha256(std::span<const std::byte> bytes) {
  std::array<unsigned char, 32> digest{};
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1 ||
      length != digest.size()) {
    throw environment_error("libcrypto offers no SHA-256");
  }
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace mtpcheck

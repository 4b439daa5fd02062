#include "cuda/simt/checking/shadow.h"

namespace simt::checking {

Word& Shadow::at(std::uintptr_t address) {
  const std::uintptr_t number = address / page_bytes;
  const std::size_t slot = number % cached;
  if (cached_number_[slot] != number || cached_page_[slot] == nullptr) {
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    cached_number_[slot] = number;
    cached_page_[slot] = page.get();
  }
  return (*cached_page_[slot])[address % page_bytes / word_bytes];
}

void Shadow::trim() {
  if (pages_.size() <= most_pages) return;
  cached_page_.fill(nullptr);
  pages_.clear();
}

std::int32_t pack_site(std::uintptr_t return_address) {
  return static_cast<std::int32_t>(return_address - reinterpret_cast<std::uintptr_t>(&pack_site));
}

std::uintptr_t unpack_site(std::int32_t site) {
  return reinterpret_cast<std::uintptr_t>(&pack_site) + static_cast<std::uintptr_t>(static_cast<std::intptr_t>(site));
}

}  // namespace simt::checking

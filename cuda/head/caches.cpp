#include "cuda/head/caches.h"

#include <algorithm>

#include "cuda/kernels/indexer/index_layout.h"
#include "cuda/kernels/norm/latent.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

/// A buffer of `total` rows of `width` elements that holds the first rows of each sequence of the old one.
template <class T>
Buffer<T> moved(Stream stream, const Buffer<T>& old, std::size_t width, int total, const std::vector<int>& rows,
                const std::vector<int>& from, const std::vector<int>& to) {
  Buffer<T> out(static_cast<std::size_t>(total) * width);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    copy_on_device(stream, out.data() + to[s] * width, old.data() + from[s] * width, rows[s] * width * sizeof(T));
  }
  synchronize(stream);  // before the old one goes
  return out;
}

}  // namespace

LayerCache::LayerCache(const HeadShape& shape, bool index_fp8) : shape_(shape), index_fp8_(index_fp8) {}

void LayerCache::clear() {
  rows_.clear();
  bases_.clear();
  capacities_.clear();
}

void LayerCache::reserve(Stream stream, const std::vector<int>& lengths) {
  const std::vector<int> old_bases = bases_;
  bool enough = lengths.size() == capacities_.size();
  for (std::size_t s = 0; enough && s < lengths.size(); ++s) enough = lengths[s] <= capacities_[s];
  if (enough) return;

  ++generation_;
  const std::size_t known = capacities_.size();
  rows_.resize(lengths.size(), 0);
  bases_.resize(lengths.size(), 0);
  capacities_.resize(lengths.size(), 0);
  int total = 0;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    if (lengths[s] > capacities_[s]) capacities_[s] = std::max({lengths[s], 2 * capacities_[s], 16});
    bases_[s] = total;
    total += capacities_[s];
  }
  const std::vector<int> kept(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(known));
  const std::size_t latent_width = static_cast<std::size_t>(LatentLayout(shape_.kv_rank, shape_.rope).stride);
  latents_ = moved(stream, latents_, latent_width, total, kept, old_bases, bases_);
  if (!shape_.sparse()) return;
  const auto index_width = static_cast<std::size_t>(index_stride(shape_.index_dims));
  if (index_fp8_) {
    index_codes_ = moved(stream, index_codes_, index_width, total, kept, old_bases, bases_);
    index_scales_ = moved(stream, index_scales_, 1, total, kept, old_bases, bases_);
  } else {
    index_keys_ = moved(stream, index_keys_, index_width, total, kept, old_bases, bases_);
  }
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND

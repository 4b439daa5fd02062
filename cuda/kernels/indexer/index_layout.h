#pragma once

/// Entries of a row of the index-key cache and of an index query: d, zero-padded to whole tensor-core steps.
namespace mtpcheck::cuda {

constexpr int index_stride(int dims) { return (dims + 31) / 32 * 32; }

}  // namespace mtpcheck::cuda

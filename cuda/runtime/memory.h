#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cuda/kernels/stream.h"

/// Device memory and streams as values. In the emulated half they are host memory, filled with 0xFF bytes (NaN in every
/// float format) until something is written, and a stream that runs everything at once.
///
/// Every function throws mtpcheck::Error{environment} with CUDA's reason, what was asked for and the device.
namespace mtpcheck::cuda::inline SIMT_BACKEND {

/// What the head runs on: "NVIDIA H200, sm_90", or the CPU. Throws where no driver or no device is found, saying which.
std::string require_device();
/// How many multiprocessors the device has; the emulated half has a few, so that work is split as on a device.
int multiprocessors();
/// The current device's number; −1 in the emulated half.
int device_index();

void* allocate(std::size_t bytes);
void release(void* memory) noexcept;
/// In stream order. `from` may be reused on return.
void upload_bytes(Stream stream, void* to, const void* from, std::size_t bytes);
/// Waits for the stream.
void download_bytes(Stream stream, void* to, const void* from, std::size_t bytes);
void copy_on_device(Stream stream, void* to, const void* from, std::size_t bytes);
void fill_bytes(Stream stream, void* memory, int byte, std::size_t bytes);
void synchronize(Stream stream);
/// What is enqueued on `stream` from now on runs after all that is on `other` now.
void wait_for(Stream stream, Stream other);

/// A stream that lives as long as its owner.
class OwnedStream {
 public:
  OwnedStream();
  ~OwnedStream();
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  Stream get() const { return stream_; }

 private:
  Stream stream_ = nullptr;
};

/// An array of T in device memory.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : data_(static_cast<T*>(allocate(size * sizeof(T)))), size_(size) {}
  Buffer(Stream stream, std::span<const T> values) : Buffer(values.size()) { upload(stream, values); }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { release(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  void upload(Stream stream, std::span<const T> values, std::size_t first = 0) const {
    upload_bytes(stream, data_ + first, values.data(), values.size_bytes());
  }
  std::vector<T> download(Stream stream, std::size_t first, std::size_t count) const {
    std::vector<T> values(count);
    download_bytes(stream, values.data(), data_ + first, count * sizeof(T));
    return values;
  }
  std::vector<T> download(Stream stream) const { return download(stream, 0, size_); }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND

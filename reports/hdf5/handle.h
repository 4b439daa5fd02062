#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

namespace mtpcheck::reports::hdf5 {

/// Owns one HDF5 identifier and closes it. The library's own error stack is silenced; failures become exceptions.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  /// Takes `id` as the library returned it. Throws Error{environment} with `what` when it is negative.
  Handle(hid_t id, Close close, const std::string& what);
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { release(); }

  hid_t get() const { return id_; }

 private:
  void release() noexcept;

  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// Throws Error{environment} with `what` when a call of the C API failed.
void check(herr_t status, const std::string& what);

/// Keeps the library from printing its error stack to the terminal.
void silence_library();

}  // namespace mtpcheck::reports::hdf5

#include "reports/hdf5/handle.h"

#include "reference/tensor/error.h"

namespace mtpcheck::reports::hdf5 {

Handle::Handle(hid_t id, Close close, const std::string& what) : id_(id), close_(close) {
  if (id < 0) throw environment_error("HDF5: " + what + " failed");
}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    release();
    id_ = std::exchange(other.id_, H5I_INVALID_HID);
    close_ = other.close_;
  }
  return *this;
}

void Handle::release() noexcept {
  if (id_ >= 0) close_(id_);
}

void check(herr_t status, const std::string& what) {
  if (status < 0) throw environment_error("HDF5: " + what + " failed");
}

void silence_library() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

}  // namespace mtpcheck::reports::hdf5

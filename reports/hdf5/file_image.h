#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reports/hdf5/handle.h"

namespace mtpcheck::reports::hdf5 {

/// An HDF5 file that is built in memory: the library never touches the disk, so that a full one cannot leave it, or
/// the file, half done. No times are stored: the same content gives the same bytes.
class FileImage {
 public:
  FileImage();

  hid_t root() const { return file_.get(); }

  /// The finished file's bytes.
  std::vector<std::byte> bytes() const;

 private:
  Handle file_;
};

/// Opens a file for reading. Throws Error{input} when it is absent or no HDF5 file.
Handle open_for_reading(const std::string& path);

}  // namespace mtpcheck::reports::hdf5

#include "cuda/simt/machine/symbols.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#if defined(SIMT_HAS_LIBBACKTRACE) && __has_include(<backtrace.h>)
#define SIMT_LINES 1
#include <backtrace.h>
#else
#include <dlfcn.h>
#endif

namespace simt::machine {
namespace {

std::string demangle(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(symbol, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? name.get() : symbol;
}

#if defined(SIMT_LINES)

void ignore_error(void* /*data*/, const char* /*message*/, int /*number*/) {}

backtrace_state* state() {
  static backtrace_state* const created = backtrace_create_state(nullptr, 1, ignore_error, nullptr);
  return created;
}

std::string symbol_at(std::uintptr_t address) {
  std::string name;
  backtrace_syminfo(
      state(), address,
      [](void* data, std::uintptr_t /*pc*/, const char* symbol, std::uintptr_t /*value*/, std::uintptr_t /*size*/) {
        if (symbol != nullptr) *static_cast<std::string*>(data) = demangle(symbol);
      },
      ignore_error, &name);
  return name;
}

std::string line_at(std::uintptr_t address) {
  std::string line;
  backtrace_pcinfo(
      state(), address,
      [](void* data, std::uintptr_t /*pc*/, const char* file, int number, const char* /*function*/) {
        if (file == nullptr) return 0;
        const std::string_view path = readable_path(file);
        // Inlined from a header of this layer or of CUDA's: what called it is meant.
        if (path.starts_with("/") || (path.starts_with("cuda/simt/") && path.ends_with(".h"))) return 0;
        std::string& lines = *static_cast<std::string*>(data);
        if (!lines.empty()) {  // inlined: the caller tells which use of a device function it is
          lines += fmt::format(" (called at {}:{})", path, number);
          return 1;
        }
        lines = fmt::format("{}:{}", path, number);
        return 0;
      },
      ignore_error, &line);
  return line;
}

#else

std::string symbol_at(std::uintptr_t address) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(address), &info) == 0 || info.dli_sname == nullptr) return {};
  return demangle(info.dli_sname);
}

std::string line_at(std::uintptr_t /*address*/) { return {}; }

#endif

}  // namespace

std::string_view readable_path(std::string_view file) {
  while (file.starts_with("../")) file.remove_prefix(3);
  return file;
}

std::string function_name(const void* function) {
  std::string name = symbol_at(reinterpret_cast<std::uintptr_t>(function));
  if (name.starts_with("void ")) name.erase(0, 5);  // templates' names begin with what they return
  return name.empty() ? fmt::format("{}", function) : name;
}

std::string source_line(std::uintptr_t return_address) {
  const std::uintptr_t call = return_address - 1;
  if (std::string line = line_at(call); !line.empty()) return line;
  const std::string name = symbol_at(call);
  return name.empty() ? fmt::format("{:#x}", call) : name;
}

}  // namespace simt::machine

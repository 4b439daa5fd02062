#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace simt::machine {

/// "rmsnorm_kernel<256>(float const*, ...)" for the address of a function; its address in hexadecimal where the program
/// has no symbols.
std::string function_name(const void* function);

/// "cuda/kernels/softmax.cu:31" for the return address of a call made by a kernel; the function's name where its file
/// was compiled without -g1.
std::string source_line(std::uintptr_t return_address);

/// A source file's name as the compiler has it, without the way up from the build folder.
std::string_view readable_path(std::string_view file);

}  // namespace simt::machine

// SPDX-License-Identifier: MIT
#include "clients/stage/backends/shared_library.hpp"

#include <dlfcn.h>

#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

namespace {

// glibc keeps the text for each thread.
std::string loader_error() {
  const char* text = ::dlerror();  // NOLINT(concurrency-mt-unsafe)
  return text == nullptr ? "no reason given" : text;
}

}  // namespace

SharedLibrary::SharedLibrary(const std::string& file)
    : file_(file), handle_(::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) {
    throw StageError("library " + file + ": cannot be loaded (" + loader_error() + ")");
  }
}

SharedLibrary::~SharedLibrary() {
  ::dlclose(handle_);
}

void* SharedLibrary::address(const char* name) const {
  return ::dlsym(handle_, name);
}

void* SharedLibrary::require(const char* name) const {
  void* found = address(name);
  if (found == nullptr) {
    throw StageError("library " + file_ + ": has no function " + name + " (" + loader_error() +
                     ")");
  }
  return found;
}

}  // namespace driftd::stage

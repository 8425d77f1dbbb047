// SPDX-License-Identifier: MIT
// A library loaded at run time from the file that the configuration names; nothing of a vendor's is
// shipped or linked. Owned by the backend that calls its functions.
#pragma once

#include <string>

namespace driftd::stage {

class SharedLibrary {
 public:
  /// @throws StageError with the loader's own words
  explicit SharedLibrary(const std::string& file);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  bool has(const char* function) const { return address(function) != nullptr; }
  /// Sets `function` to the function of that name. @throws StageError
  template <typename Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(require(name));
  }
  /// nullptr when there is none.
  template <typename Function>
  void find_if_any(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(address(name));
  }
  const std::string& file() const { return file_; }

 private:
  void* address(const char* name) const;
  void* require(const char* name) const;

  std::string file_;
  void* handle_ = nullptr;
};

}  // namespace driftd::stage

// SPDX-License-Identifier: MIT
#include "camera/recording/hdf5_labels.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

namespace driftd::camera {
namespace {

constexpr std::size_t kLongestShown = 20;
constexpr hssize_t kMostTexts = 64, kMostLinks = 1000;
constexpr std::size_t kLongestLabels = std::size_t{1} << 20;

/// The texts of an attribute; none: it is something else.
std::vector<std::string> texts_of(hid_t dataset, const char* name) {
  std::vector<std::string> texts;
  if (H5Aexists(dataset, name) <= 0) return texts;
  const Hdf5Handle attribute(H5Aopen(dataset, name, H5P_DEFAULT), H5Aclose);
  const Hdf5Handle type(attribute ? H5Aget_type(attribute.get()) : H5I_INVALID_HID, H5Tclose);
  const Hdf5Handle space(attribute ? H5Aget_space(attribute.get()) : H5I_INVALID_HID, H5Sclose);
  if (!type || !space || H5Tget_class(type.get()) != H5T_STRING) return texts;
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  if (points < 1 || points > kMostTexts) return texts;
  const auto count = static_cast<std::size_t>(points);
  if (H5Tis_variable_str(type.get()) > 0) {
    std::vector<char*> read(count);
    if (H5Aread(attribute.get(), type.get(), static_cast<void*>(read.data())) < 0) return texts;
    for (const char* text : read) texts.emplace_back(text == nullptr ? "" : text);
    H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, static_cast<void*>(read.data()));
    return texts;
  }
  const std::size_t length = H5Tget_size(type.get());
  if (length > kLongestLabels) return texts;
  std::string read(count * length, '\0');
  if (H5Aread(attribute.get(), type.get(), read.data()) < 0) return texts;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = read.substr(i * length, length);
    text.resize(std::min(text.find('\0'), text.find_last_not_of(' ') + 1));
    texts.push_back(std::move(text));
  }
  return texts;
}

/// An entry of what HDF5's dimension scales keep of those that they are scales of.
struct ScaleUse {
  hobj_ref_t dataset = 0;
  int dimension = 0;
};

/// What uses a dataset as the scale of a dimension; none: nothing does.
std::vector<ScaleUse> uses_of(hid_t scale) {
  constexpr const char* kUses = "REFERENCE_LIST";
  if (H5Iget_type(scale) != H5I_DATASET || H5Aexists(scale, kUses) <= 0) return {};
  const Hdf5Handle attribute(H5Aopen(scale, kUses, H5P_DEFAULT), H5Aclose);
  const Hdf5Handle space(attribute ? H5Aget_space(attribute.get()) : H5I_INVALID_HID, H5Sclose);
  const Hdf5Handle type(H5Tcreate(H5T_COMPOUND, sizeof(ScaleUse)), H5Tclose);
  const hssize_t points = space ? H5Sget_simple_extent_npoints(space.get()) : 0;
  if (points < 1 || points > kMostLinks ||
      H5Tinsert(type.get(), "dataset", HOFFSET(ScaleUse, dataset), H5T_STD_REF_OBJ) < 0 ||
      H5Tinsert(type.get(), "dimension", HOFFSET(ScaleUse, dimension), H5T_NATIVE_INT) < 0)
    return {};
  std::vector<ScaleUse> uses(static_cast<std::size_t>(points));
  return H5Aread(attribute.get(), type.get(), uses.data()) < 0 ? std::vector<ScaleUse>{} : uses;
}

/// Puts in the names of the datasets of a group that are scales of `own`.
void add_scales(hid_t group, hobj_ref_t own, std::vector<std::string>& names) {
  H5G_info_t info{};
  if (H5Gget_info(group, &info) < 0) return;
  for (hsize_t i = 0; i < std::min<hsize_t>(info.nlinks, kMostLinks); ++i) {
    std::array<char, 1024> name{};
    if (H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name.data(), name.size(),
                           H5P_DEFAULT) < 0)
      continue;
    const Hdf5Handle scale(H5Oopen(group, name.data(), H5P_DEFAULT), H5Oclose);
    if (!scale) continue;
    for (const ScaleUse& use : uses_of(scale.get())) {
      const auto dimension = static_cast<std::size_t>(use.dimension);
      if (use.dataset == own && dimension < names.size() && names[dimension].empty())
        names[dimension] = name.data();
    }
  }
}

/// The names of the datasets beside it, or in the groups that it lies in, that are scales of its
/// dimensions, as netCDF and xarray have them; "": none is. The scales tell of the dataset: its own
/// list of them, DIMENSION_LIST, is of variable length, which HDF5 1.10 reads for ever where a file
/// is damaged.
std::vector<std::string> scales_of(const Hdf5Dataset& opened) {
  std::vector<std::string> names(opened.dimensions.size.size());
  const hid_t file = opened.file.get();
  std::array<char, 1024> path{};
  hobj_ref_t own = 0;
  if (H5Iget_name(opened.dataset.get(), path.data(), path.size()) <= 0 ||
      H5Rcreate(&own, file, path.data(), H5R_OBJECT, -1) < 0)
    return names;
  std::string group = path.data();
  while (group.size() > 1) {
    group.pop_back();
    group.resize(group.rfind('/') + 1);
    const Hdf5Handle opened_group(H5Gopen2(file, group.c_str(), H5P_DEFAULT), H5Gclose);
    if (opened_group) add_scales(opened_group.get(), own, names);
  }
  return names;
}

/// A label for each dimension, or none. One without a label has the name of its scale.
std::vector<std::string> labels_of(const Hdf5Dataset& opened) {
  const std::size_t rank = opened.dimensions.size.size();
  std::vector<std::string> labels = texts_of(opened.dataset.get(), "DIMENSION_LABELS");
  const std::vector<std::string> scales = scales_of(opened);
  if (labels.size() != rank) labels.clear();
  if (std::ranges::any_of(scales, [](const std::string& name) { return !name.empty(); })) {
    labels.resize(rank);
    for (std::size_t i = 0; i < rank; ++i) {
      if (labels[i].empty()) labels[i] = scales[i];
    }
  }
  if (!labels.empty()) return labels;
  const std::vector<std::string> tags = texts_of(opened.dataset.get(), "axistags");
  if (tags.size() != 1) return labels;
  const nlohmann::json said = nlohmann::json::parse(tags.front(), nullptr, false);
  if (!said.is_object() || !said.contains("axes") || !said["axes"].is_array()) return labels;
  for (const nlohmann::json& axis : said["axes"]) {
    const auto key = axis.is_object() ? axis.find("key") : axis.end();
    if (!axis.is_object() || key == axis.end() || !key->is_string()) return {};
    labels.push_back(key->get<std::string>());
  }
  if (labels.size() != rank) labels.clear();
  return labels;
}

/// 'x', 'y' or 't' for what is known to be columns, rows or frames.
char kind_of(std::string label) {
  std::ranges::transform(label, label.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto is_any = [&](std::initializer_list<const char*> names) {
    return std::ranges::find(names, label) != names.end();
  };
  if (is_any({"x", "column", "columns", "width"})) return 'x';
  if (is_any({"y", "row", "rows", "height"})) return 'y';
  if (is_any({"t", "time", "times", "frame", "frames"})) return 't';
  return '?';
}

}  // namespace

void check_labels(Hdf5Dataset& opened) {
  const std::vector<std::string> labels = labels_of(opened);
  H5Eclear2(H5E_DEFAULT);
  if (labels.empty()) return;
  std::array<char, 3> kinds{};
  std::string all;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string& label = labels[opened.dimensions.of[i]];
    kinds[i] = kind_of(label);
    all += (i == 0 ? "" : ", ") + (label.empty() ? "?" : label.substr(0, kLongestShown));
  }
  const char rows = opened.columns_first ? 'x' : 'y', columns = opened.columns_first ? 'y' : 'x';
  const bool first = kinds[0] == 'x' || kinds[0] == 'y';
  const bool second = kinds[1] != '?' && kinds[1] != rows;
  const bool third = kinds[2] != '?' && kinds[2] != columns;
  if (first || second || third) {
    fail_by_hdf5(opened.path, opened.name + ": the labels of its dimensions are " + all +
                                  "; a stack has frames, rows and columns (t, y, x) in this "
                                  "order: save it so");
  }
  const std::string& frames = labels[opened.dimensions.of[0]];
  if (!frames.empty() && kinds[0] != 't')
    opened.notes.push_back("its frames are along " + frames.substr(0, kLongestShown));
}

}  // namespace driftd::camera

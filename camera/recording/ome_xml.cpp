// SPDX-License-Identifier: MIT
#include "camera/recording/ome_xml.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <pugixml.hpp>

namespace driftd::camera {
namespace {

/// Larger numbers are taken for damage: an hour at 1 kHz has 3.6 million planes.
constexpr std::int64_t kMostAlongAnAxis = kMostPlanes;

/// The first byte of the mark that UTF-8 may begin with.
constexpr int kByteOrderMark = 0xef;

/// An element's name without the prefix of its namespace.
std::string_view local_name(const pugi::xml_node& node) {
  const std::string_view name = node.name();
  const std::size_t colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

pugi::xml_node child(const pugi::xml_node& parent, std::string_view name) {
  for (const pugi::xml_node& node : parent.children()) {
    if (local_name(node) == name) return node;
  }
  return {};
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

class Reader {
 public:
  explicit Reader(const StackSettings& settings) : settings_(settings) {}

  OmeMetadata read(const pugi::xml_node& root) const {
    OmeMetadata metadata;
    metadata.uuid = trimmed(root.attribute("UUID").value());
    metadata.metadata_file = child(root, "BinaryOnly").attribute("MetadataFile").value();
    for (const pugi::xml_node& node : root.children()) {
      if (local_name(node) == "Image") metadata.images.push_back(image_of(node));
    }
    metadata.with_time = modulo_of(root, "ModuloAlongT");
    metadata.with_z = modulo_of(root, "ModuloAlongZ");
    return metadata;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw RecordingError(settings_.path, "its OME-XML " + what + "; the option " +
                                             settings_.names.every_page +
                                             " takes its pages without it");
  }

 private:
  /// A whole number from `least` on. Without the attribute: `absent`.
  std::optional<std::int64_t> count(const pugi::xml_node& node, const char* name,
                                    std::int64_t least) const {
    const pugi::xml_attribute attribute = node.attribute(name);
    if (!attribute) return std::nullopt;
    const std::string text = trimmed(attribute.value());
    std::int64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size() || value < least ||
        value > kMostAlongAnAxis) {
      fail("has " + std::string(local_name(node)) + " " + name + "=\"" + text.substr(0, 40) +
           "\"; allowed are " + std::to_string(least) + " to " + std::to_string(kMostAlongAnAxis));
    }
    return value;
  }

  /// 0 for what is no number: no page is so large.
  static std::optional<std::int64_t> number(const pugi::xml_node& pixels, const char* name) {
    const pugi::xml_attribute attribute = pixels.attribute(name);
    return attribute ? std::optional<std::int64_t>(attribute.as_llong()) : std::nullopt;
  }

  std::int64_t size(const pugi::xml_node& pixels, const char* name) const {
    const auto value = count(pixels, name, 1);
    if (!value) fail(std::string("has Pixels without ") + name);
    return *value;
  }

  /// By OME's annotation for six to eight dimensions.
  static OmeModulo modulo_of(const pugi::xml_node& root, std::string_view name) {
    const pugi::xml_node found =
        child(root, "StructuredAnnotations").find_node([&](const pugi::xml_node& node) {
          return local_name(node) == name;
        });
    if (!found) return {};
    OmeModulo modulo{.type = trimmed(found.attribute("Type").value()).substr(0, 40)};
    if (modulo.type.empty()) modulo.type = "another axis";
    const double range = found.attribute("End").as_double() - found.attribute("Start").as_double();
    const double count = std::floor(range / found.attribute("Step").as_double(1) + 1.5);
    if (count >= 1 && count <= static_cast<double>(kMostAlongAnAxis))
      modulo.count = static_cast<std::int64_t>(count);
    std::int64_t labels = 0;
    for (const pugi::xml_node& node : found.children())
      labels += local_name(node) == "Label" ? 1 : 0;
    modulo.count = std::max(modulo.count, labels);
    return modulo;
  }

  OmeBlock block_of(const pugi::xml_node& node) const {
    OmeBlock block;
    block.first = {.z = count(node, "FirstZ", 0).value_or(0),
                   .c = count(node, "FirstC", 0).value_or(0),
                   .t = count(node, "FirstT", 0).value_or(0)};
    const auto page = count(node, "IFD", 0);
    block.page = page.value_or(0);
    block.planes = count(node, "PlaneCount", 0);
    if (!block.planes && page) block.planes = 1;
    const pugi::xml_node uuid = child(node, "UUID");
    block.uuid = trimmed(uuid.child_value());
    // A name alone: metadata do not lead out of the folder.
    std::string name = uuid.attribute("FileName").value();
    std::replace(name.begin(), name.end(), '\\', '/');
    block.file_name = std::filesystem::path(name).filename().string();
    return block;
  }

  std::string order_of(const pugi::xml_node& pixels) const {
    if (!pixels.attribute("DimensionOrder")) fail("has Pixels without DimensionOrder");
    const std::string_view order = pixels.attribute("DimensionOrder").value();
    constexpr std::array<std::string_view, 6> kKnown{"XYZCT", "XYZTC", "XYCTZ",
                                                     "XYCZT", "XYTCZ", "XYTZC"};
    if (std::find(kKnown.begin(), kKnown.end(), order) == kKnown.end()) {
      fail("has DimensionOrder=\"" + std::string(order.substr(0, 40)) +
           "\"; allowed are XYZCT, XYZTC, XYCTZ, XYCZT, XYTCZ, XYTZC");
    }
    return std::string(order.substr(2));
  }

  OmeImage image_of(const pugi::xml_node& node) const {
    OmeImage image;
    image.name = node.attribute("Name").value();
    const pugi::xml_node pixels = child(node, "Pixels");
    if (!pixels) fail("has an Image without Pixels");
    image.shape = {.width_px = number(pixels, "SizeX"),
                   .height_px = number(pixels, "SizeY"),
                   .type = trimmed(pixels.attribute("Type").value())};
    image.extent.order = order_of(pixels);
    image.extent.z = size(pixels, "SizeZ");
    image.extent.c = size(pixels, "SizeC");
    image.extent.t = size(pixels, "SizeT");
    if (image.extent.z > kMostAlongAnAxis / image.extent.c ||
        image.extent.t > kMostAlongAnAxis / (image.extent.z * image.extent.c)) {
      fail("has more planes than can be counted");
    }
    image.rate_hz = rate_of(pixels);
    for (const pugi::xml_node& part : pixels.children()) {
      if (local_name(part) == "Channel") {
        image.extent.channels.emplace_back(part.attribute("Name").value());
      }
      if (local_name(part) == "TiffData") image.blocks.push_back(block_of(part));
      if (local_name(part) == "Plane") add_time(image, part);
    }
    for (const OmeBlock& block : image.blocks) {
      const PlaneIndex& first = block.first;
      if (first.z < image.extent.z && first.c < image.extent.c && first.t < image.extent.t)
        continue;
      fail("has TiffData from z " + std::to_string(first.z) + ", c " + std::to_string(first.c) +
           ", t " + std::to_string(first.t) + " on, which is beyond SizeZ, SizeC or SizeT");
    }
    return image;
  }

  /// A plane without a time, or one beyond the sizes, says nothing.
  static void add_time(OmeImage& image, const pugi::xml_node& node) {
    const std::optional<double> time_s = seconds(node, "DeltaT");
    const PlaneIndex plane{.z = node.attribute("TheZ").as_llong(-1),
                           .c = node.attribute("TheC").as_llong(-1),
                           .t = node.attribute("TheT").as_llong(-1)};
    const auto within = [](std::int64_t index, std::int64_t size) {
      return index >= 0 && index < size;
    };
    if (time_s && within(plane.z, image.extent.z) && within(plane.c, image.extent.c) &&
        within(plane.t, image.extent.t))
      image.times.push_back({plane, *time_s});
  }

  /// The attribute in the unit that `name`Unit says; nothing where it is no finite number or the
  /// unit unknown.
  static std::optional<double> seconds(const pugi::xml_node& node, const char* name) {
    const std::string text = trimmed(node.attribute(name).value());
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size())
      return std::nullopt;
    const std::string_view unit =
        node.attribute((std::string(name) + "Unit").c_str()).as_string("s");
    struct Unit {
      std::string_view name;
      double seconds;
    };
    constexpr std::array<Unit, 8> kUnits{{{"s", 1},
                                          {"ms", 1e-3},
                                          {"\u00b5s", 1e-6},
                                          {"\u03bcs", 1e-6},
                                          {"ns", 1e-9},
                                          {"min", 60},
                                          {"h", 3600},
                                          {"d", 86400}}};
    for (const Unit& known : kUnits) {
      if (unit == known.name && std::isfinite(value)) return value * known.seconds;
    }
    return std::nullopt;
  }

  static std::optional<double> rate_of(const pugi::xml_node& pixels) {
    const double rate_hz = 1 / seconds(pixels, "TimeIncrement").value_or(0);
    return rate_hz > 0 && std::isfinite(rate_hz) ? std::optional(rate_hz) : std::nullopt;
  }

  const StackSettings& settings_;
};

}  // namespace

bool is_ome(std::string_view description) {
  const std::size_t begin = description.find('<');
  if (begin == std::string_view::npos || trimmed(description.substr(0, begin)).size() > 3) {
    return false;  // more than a byte order mark
  }
  for (std::size_t at = description.find("OME"); at != std::string_view::npos;
       at = description.find("OME", at + 1)) {
    const bool element = at > 0 && (description[at - 1] == '<' || description[at - 1] == ':');
    const std::size_t end = at + std::strlen("OME");
    if (element && end < description.size() &&
        std::strchr(" \t\r\n>/", description[end]) != nullptr)
      return true;
  }
  return false;
}

namespace {

OmeMetadata read_document(const StackSettings& settings, std::string_view description) {
  const Reader reader(settings);
  // The document brings no entities of its own: pugixml passes over document types and expands none
  // of theirs.
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(description.data(), description.size(),
                           pugi::parse_default | pugi::parse_trim_pcdata, pugi::encoding_utf8);
  if (!parsed) {
    reader.fail("is cut off or damaged at byte " + std::to_string(parsed.offset) + " of " +
                std::to_string(description.size()) + " (" + parsed.description() + ")");
  }
  const pugi::xml_node root = child(document, "OME");
  if (!root) reader.fail("has no element OME");
  return reader.read(root);
}

}  // namespace

OmeMetadata read_ome(const StackSettings& settings, std::string_view description) {
  OmeMetadata metadata = read_document(settings, description);
  if (metadata.metadata_file.empty()) return metadata;
  // A companion file: XML alone, beside this one.
  const std::filesystem::path name = std::filesystem::path(metadata.metadata_file).filename();
  std::ifstream file(settings.path.parent_path() / name, std::ios::binary);
  if (file.peek() != '<' && file.peek() != kByteOrderMark) return metadata;
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!is_ome(text)) return metadata;
  OmeMetadata said = read_document(settings, text);
  said.uuid = metadata.uuid;
  return said;
}

std::string uuid_in(std::string_view description) {
  pugi::xml_document document;
  if (!is_ome(description) || !document.load_buffer(description.data(), description.size()))
    return {};
  return trimmed(child(document, "OME").attribute("UUID").value());
}

}  // namespace driftd::camera

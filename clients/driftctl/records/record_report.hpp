// SPDX-License-Identifier: MIT
// `driftctl report`: a page of a record that stands alone, to be sent to a colleague. Needs no
// daemon. One thread.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "clients/driftctl/records/record_summary.hpp"

namespace driftd::clients {

/// HTML with its plots as SVG; no script, nothing from elsewhere.
std::string report_page(const RecordSummary& summary, const record::Header& header,
                        const std::string& end);

void add_report(CLI::App& app);

}  // namespace driftd::clients

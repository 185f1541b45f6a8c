// An owner for a loaded model, and loading one with a progress bar.
#pragma once

#include "commands.h"
#include "model_files.h"
#include "penstock_model.h"

#include <memory>

#include "penstock/base.h"
#include "penstock/console.h"
#include "penstock/json.h"

namespace penstock::apps {

// What the library tells of a load or save, for the Progress that is its context.
int tell_progress(void* context, uint64_t done, uint64_t total);

// Loads with what the options say, and tells `progress` how far it is.
Outcome<console::Model> load_model(const ModelFiles& models, const LoadOptions& options,
                                   console::Progress* progress);

// What was loaded, and which ways the bytes took.
Json describe(const console::Model& model, double seconds);
// The same as a few lines and a table.
std::string describe_for_people(const console::Model& model, double seconds);

}  // namespace penstock::apps

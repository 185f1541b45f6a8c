// Files in bulk: lists of many, and those of models.
#pragma once

#include "penstock/files/deadline.h"
#include "penstock/files/file_calls.h"
#include "penstock/files/file_list.h"
#include "penstock/files/file_state.h"
#include "penstock/files/limits.h"
#include "penstock/files/local_files.h"
#include "penstock/files/local_links.h"
#include "penstock/files/new_files.h"
#include "penstock/files/session_files.h"
#include "penstock/files/staging_pool.h"
#include "penstock/files/to_stat.h"
